#include "planner/line/deepspeed_flags.h"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "common/units.h"

namespace launch {
namespace {

enum DeepspeedFlag : int {
  kNodes,
  kGpus,
  kInclude,
  kModule,
  kNoPython,
  kNoLocalRank,
  kReplaced,  // placement and rendezvous: ours
  kDropped,   // how the launcher connects, logs and binds
  kRefused,   // changes what is run
};

constexpr std::array<FlagRule, 29> kDeepspeedRules = {{
    {"hostfile", kReplaced, true},
    {"include", kInclude, true},
    {"exclude", kReplaced, true},
    {"num_nodes", kNodes, true},
    {"min_elastic_nodes", kRefused, true},
    {"max_elastic_nodes", kRefused, true},
    {"num_gpus", kGpus, true},
    {"num_accelerators", kGpus, true},
    {"master_port", kReplaced, true},
    {"master_addr", kReplaced, true},
    {"node_rank", kReplaced, true},
    {"launcher", kDropped, true},
    {"launcher_args", kDropped, true},
    {"module", kModule, false},
    {"no_python", kNoPython, false},
    {"no_local_rank", kNoLocalRank, false},
    {"no_ssh", kDropped, false},
    {"no_ssh_check", kDropped, false},
    {"force_multi", kDropped, false},
    {"save_pid", kDropped, false},
    {"enable_each_rank_log", kDropped, true},
    {"autotuning", kRefused, true},
    {"elastic_training", kRefused, false},
    {"bind_cores_to_rank", kDropped, false},
    {"bind_core_list", kDropped, true},
    {"ssh_port", kDropped, true},
    {"venv_script", kDropped, true},
    {"log_level", kDropped, true},
    {"quiet", kDropped, false},
}};

constexpr std::array<ShortFlag, 4> kDeepspeedShorts = {
    {{'H', "hostfile"}, {'i', "include"}, {'e', "exclude"}, {'q', "quiet"}}};

Unexpected BadDeepspeedValue(const std::string& flag, const std::string& value,
                             const std::string& wanted) {
  return BadFlagValue("deepspeed", flag, value, wanted);
}

std::optional<int> Count(const std::string& text, std::int64_t most) {
  const auto number = ParseInt(text);
  if (!number || *number < 1 || *number > most) return std::nullopt;
  return static_cast<int>(*number);
}

// "localhost:$FREE" may name any number of slots; "$HOST:0,1" names two.
void TakeExpandedInclude(std::string_view text, LauncherArguments& out) {
  const std::size_t colon = text.rfind(':');
  const std::string_view slots =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  const bool written = !slots.empty() && text.find('@') == std::string_view::npos &&
                       slots.find_first_not_of("0123456789,") == std::string_view::npos;
  if (out.procs != ProcsWord::kNone) return;
  out.procs = written ? ProcsWord::kNumber : ProcsWord::kUnknown;
  if (written) out.procs_number = 1 + static_cast<int>(std::ranges::count(slots, ','));
}

// "worker-0@worker-1:0,2": hosts, and slots of each where they are named. Their names are the
// cluster's business; how many there are is the job's.
void TakeInclude(const std::string& text, LauncherArguments& out) {
  out.replaced.emplace_back("include");
  out.subset = true;
  if (IsLeftToBash(text)) {
    TakeExpandedInclude(text, out);
    return;
  }
  std::set<std::string> hosts;
  std::set<std::size_t> slots;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t at = std::min(rest.find('@'), rest.size());
    const std::string_view host = rest.substr(0, at);
    rest.remove_prefix(std::min(at + 1, rest.size()));
    const std::size_t colon = host.find(':');
    hosts.insert(std::string(host.substr(0, colon)));
    slots.insert(
        colon == std::string_view::npos
            ? 0
            : 1 + static_cast<std::size_t>(std::count(
                      host.begin() + static_cast<std::ptrdiff_t>(colon), host.end(), ',')));
  }
  if (hosts.size() > 1 && !out.nodes_min) {
    out.nodes_min = out.nodes_max = static_cast<int>(hosts.size());
  }
  if (slots.size() == 1 && *slots.begin() > 0 && out.procs == ProcsWord::kNone) {
    out.procs = ProcsWord::kNumber;
    out.procs_number = static_cast<int>(*slots.begin());
  }
}

// "worker-1 slots=8", a line for each host; names are the cluster's business.
void TakeHosts(const std::string& text, LauncherArguments& out) {
  int hosts = 0;
  std::set<int> slots;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host;
    std::string count;
    if (!(words >> host >> count) || !count.starts_with("slots=")) continue;
    const auto number = Count(count.substr(6), 4096);
    if (!number) continue;
    ++hosts;
    slots.insert(*number);
  }
  if (hosts > 1 && hosts <= 100'000 && !out.nodes_min) out.nodes_min = out.nodes_max = hosts;
  if (slots.empty()) return;
  if (slots.size() == 1 && out.procs == ProcsWord::kNone) {
    out.procs = ProcsWord::kNumber;
    out.procs_number = *slots.begin();
  }
  if (slots.size() > 1 && out.procs == ProcsWord::kNone)
    out.slots_differ = std::to_string(*slots.begin()) + " to " + std::to_string(*slots.rbegin());
}

Result<void> Take(const FlagRule& rule, const ShellWord& word, const KnownVariables& known,
                  LauncherArguments& out) {
  const std::optional<std::string> value = FixedValue(word, known);
  switch (static_cast<DeepspeedFlag>(rule.kind)) {
    case kNodes:
      out.nodes_text = word.value;
      if (!value || *value == "-1") return {};
      out.nodes_min = out.nodes_max = Count(*value, 100'000);
      if (!out.nodes_min) return BadDeepspeedValue("--num_nodes", *value, "a number of nodes");
      return {};
    case kGpus:
      if (!value) {
        out.procs = ProcsWord::kUnknown;
        return {};
      }
      if (*value == "-1") return {};
      if (*value == kGpusOfNode || *value == kCoresOfNode) {
        out.procs = *value == kGpusOfNode ? ProcsWord::kGpu : ProcsWord::kCpu;
        return {};
      }
      if (const auto number = Count(*value, 4096)) {
        out.procs = ProcsWord::kNumber;
        out.procs_number = *number;
        return {};
      }
      return BadGpuCount("deepspeed", "--num_gpus", *value, "a number of GPUs",
                         "leave --num_gpus out");
    case kInclude:
      TakeInclude(PartlyKnown(word, known).value_or(word.value), out);
      return {};
    case kModule:
      out.module = true;
      return {};
    case kNoPython:
      out.no_python = true;
      return {};
    case kNoLocalRank:
      out.local_rank_flag.clear();
      return {};
    case kReplaced:
      out.replaced.emplace_back(rule.name);
      if (rule.name == "hostfile") out.hostfile = value.value_or(word.value);
      out.subset = out.subset || rule.name == "exclude";
      return {};
    case kDropped:
      out.dropped.emplace_back(rule.name);
      return {};
    case kRefused:
      return FlagNotUnderstood("deepspeed", "--" + std::string(rule.name));
  }
  return {};
}

// "--hostfile", "-H"
bool TakesValue(std::string_view flag) {
  std::string_view name = flag;
  for (int dashes = 0; dashes < 2 && name.starts_with('-'); ++dashes) name.remove_prefix(1);
  for (const ShortFlag& one : kDeepspeedShorts)
    if (flag.size() == 2 && flag[1] == one.letter) name = one.name;
  return std::any_of(kDeepspeedRules.begin(), kDeepspeedRules.end(), [name](const FlagRule& rule) {
    return rule.name == name && rule.takes_value;
  });
}

}  // namespace

std::string NeverStarted(const std::vector<ShellWord>& words, std::size_t first) {
  constexpr std::array<std::string_view, 2> kNever = {"--autotuning", "--elastic_training"};
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::string& word = words[i].value;
    if (!word.starts_with('-') || word == "--") break;  // the script
    const std::string name = word.substr(0, word.find('='));
    if (std::find(kNever.begin(), kNever.end(), name) != kNever.end()) return name;
    if (name == word && TakesValue(word)) ++i;
  }
  return {};
}

Result<LauncherArguments> ReadDeepspeed(const std::vector<ShellWord>& words, std::size_t first,
                                        const KnownVariables& known, const TextsAt& texts) {
  if (const std::string flag = NeverStarted(words, first); !flag.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "run: deepspeed " + flag +
                    " chooses nodes and processes itself, which launch cannot hold to a plan",
                "leave " + flag + " out; `launch plan` says what a job needs");
  }
  LauncherArguments out;
  out.local_rank_flag = "--local_rank";
  const FlagSyntax syntax{"deepspeed", kDeepspeedRules, kDeepspeedShorts, /*dashes=*/false,
                          /*end_mark=*/true};
  LAUNCH_ASSIGN_OR_RETURN(out.script, WalkFlags(words, first, syntax, known,
                                                [&](const FlagRule& rule, const ShellWord& value) {
                                                  return Take(rule, value, known, out);
                                                }));
  const std::string* hosts = out.hostfile.empty() ? nullptr : texts.Find(out.hostfile);
  if (hosts != nullptr && !out.subset) TakeHosts(*hosts, out);
  out.hostfile_unread = hosts == nullptr && !out.hostfile.empty() && !out.nodes_min;
  return out;
}

}  // namespace launch
