#include "planner/line/refused_starters.h"

#include <algorithm>
#include <array>

#include "common/text.h"
#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"

namespace launch {
namespace {

// kQueues and kSubmits hand the work to another scheduler; the latter is refused only where the
// text does nothing else.
enum class Reach { kAlways, kQueues, kRanks, kWithTraining, kRun, kJob, kSubmits };

struct Rule {
  std::string_view program;
  Reach reach;
  std::string_view hint;
  std::string_view verbs = {};  // of kSubmits, with blanks between them
};

constexpr std::string_view kEveryNode =
    "leave it and its options out: launch starts the command on every node of the job itself";
constexpr std::string_view kSlurm =
    "leave srun and its options out: launch starts the command on every node of the job itself; "
    "`launch import FILE` makes a job of a whole sbatch script";
constexpr std::string_view kMpi =
    "leave it and its options out: `run: python train.py` starts a process per GPU (or "
    "procs_per_node: N) on every node, with RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR set; "
    "`launcher: process` starts the text once per rank as it is";
constexpr std::string_view kContainer =
    "write image: IMAGE, mounts: [...] and the command of the container as run: ; processes of the "
    "container's daemon could neither be watched nor ended";
constexpr std::string_view kRay =
    "run what ray would run: launch starts it where the GPUs are; a Ray cluster of its own is not "
    "something launch can watch";

constexpr std::string_view kSubmit =
    "leave it out and write what the batch job itself runs: launch is the scheduler here";

constexpr std::string_view kTerminal =
    "leave it out: a job runs without a terminal anyway; `launch logs -f JOB` shows what it "
    "prints, "
    "`launch shell JOB` opens one beside it";

constexpr std::array<Rule, 34> kRules = {{
    {"srun", Reach::kRanks, kSlurm},
    {"sbatch", Reach::kQueues, kSlurm},
    {"salloc", Reach::kQueues, kSlurm},
    {"qsub", Reach::kQueues, kSubmit},
    {"bsub", Reach::kQueues, kSubmit},
    {"condor_submit", Reach::kQueues, kSubmit},
    {"jsrun", Reach::kAlways, kMpi},
    {"aprun", Reach::kAlways, kMpi},
    {"flux", Reach::kRun, kMpi},
    {"ipexrun", Reach::kAlways, kMpi},
    {"mpirun", Reach::kRanks, kMpi},
    {"mpiexec", Reach::kRanks, kMpi},
    {"mpiexec.hydra", Reach::kRanks, kMpi},
    {"ompirun", Reach::kRanks, kMpi},
    {"orterun", Reach::kRanks, kMpi},
    {"horovodrun", Reach::kRanks, kMpi},
    {"torchpippy-run", Reach::kAlways, kMpi},
    {"ssh", Reach::kWithTraining, kEveryNode},
    {"pdsh", Reach::kWithTraining, kEveryNode},
    {"pssh", Reach::kWithTraining, kEveryNode},
    {"parallel-ssh", Reach::kWithTraining, kEveryNode},
    {"clush", Reach::kWithTraining, kEveryNode},
    {"docker", Reach::kRun, kContainer},
    {"podman", Reach::kRun, kContainer},
    {"nvidia-docker", Reach::kRun, kContainer},
    {"docker-compose", Reach::kRun, kContainer},
    {"ray", Reach::kSubmits, kRay, "submit exec"},
    {"kubectl", Reach::kSubmits, kSubmit, "apply create"},
    {"sky", Reach::kSubmits, kSubmit, "launch exec jobs"},
    {"dstack", Reach::kSubmits, kSubmit, "apply run"},
    {"kubectl", Reach::kRun, kEveryNode},
    {"screen", Reach::kWithTraining, kTerminal},
    {"tmux", Reach::kWithTraining, kTerminal},
    {"ray", Reach::kJob, kRay},
}};

bool NamesVerb(std::string_view list, std::string_view word) {
  return std::ranges::count(Split(list, ' '), word) > 0;
}

// "sbatch", "sky launch" at `first`; empty: neither.
std::string SubmitterAt(const std::vector<ShellWord>& words, std::size_t first) {
  const std::string_view program = ProgramOf(words[first]);
  const std::string verb = first + 1 < words.size() ? words[first + 1].value : std::string();
  for (const Rule& rule : kRules) {
    if (rule.program != program) continue;
    if (rule.reach == Reach::kQueues) return std::string(program);
    if (rule.reach == Reach::kSubmits && NamesVerb(rule.verbs, verb))
      return std::string(program) + " " + verb;
  }
  return {};
}

// Up to the command behind `--`.
bool HasFlag(const std::vector<ShellWord>& words, std::size_t at, std::string_view flag) {
  const auto first = words.begin() + static_cast<std::ptrdiff_t>(at);
  const auto last = std::ranges::find(first, words.end(), "--", &ShellWord::value);
  return std::ranges::find(first, last, flag, &ShellWord::value) != last;
}

// "docker compose up", "screen" at `first`; empty: neither.
std::string DetacherAt(const std::vector<ShellWord>& words, std::size_t first) {
  if (ProgramOf(words[first]) == "sudo" && first + 1 < words.size()) ++first;
  const std::string program(ProgramOf(words[first]));
  std::size_t at = first + 1;
  const bool compose = program == "docker" && at < words.size() && words[at].value == "compose";
  if (compose) ++at;
  // "-f docker-compose.yml"
  const bool options = compose || program == "docker-compose";
  while (options && at < words.size() && words[at].value.starts_with('-'))
    at += words[at].value.find('=') == std::string::npos ? 2 : 1;
  const std::string verb = at < words.size() ? words[at].value : std::string();
  if (program == "screen")
    return verb.empty() || verb == "-ls" || verb == "-wipe" ? std::string() : program;
  constexpr std::string_view kTerminalVerbs =
      "new new-session neww new-window send send-keys splitw split-window";
  constexpr std::string_view kContainerVerbs = "run exec up start";
  const bool container = program == "docker" || program == "podman" || program == "nvidia-docker" ||
                         program == "docker-compose";
  const std::string_view verbs = program == "tmux" ? kTerminalVerbs
                                 : container       ? kContainerVerbs
                                                   : std::string_view();
  if (!NamesVerb(verbs, verb)) return {};
  return program + (compose ? " compose " : " ") + verb;
}

// `OUT=$(python train.py)`, `read X < <(python train.py)`
bool StartsPythonInside(const ShellCommand& command) {
  const auto starts = [](std::string_view raw) {
    const bool inside = raw.find("$(") != std::string_view::npos ||
                        raw.find('`') != std::string_view::npos ||
                        raw.find("<(") != std::string_view::npos;
    return inside && raw.find("python") != std::string_view::npos;
  };
  return std::ranges::any_of(command.words, starts, &ShellWord::raw) ||
         std::ranges::any_of(command.redirects, starts, &ShellRedirect::raw);
}

}  // namespace

bool TrainsNot(const ShellCommand& command) {
  constexpr std::array<std::string_view, 17> kHelpers = {
      "cat", "chmod", "cp", "curl", "date", "git",  "hostname", "ls",   "mkdir",
      "mv",  "pip",   "rm", "sed",  "tee",  "wget", "envsubst", "sleep"};
  if (StartsPythonInside(command)) return false;
  const std::size_t first = PartsOf(command).first;
  if (first >= command.words.size()) return true;
  const ShellWord& word = command.words[first];
  const bool runs_text = word.raw == "eval" || word.raw == "source" || word.raw == "." ||
                         word.raw == "!" || word.raw == "builtin";
  if (IsShellBuiltin(word.raw)) return !runs_text;
  const std::string_view program = ProgramOf(word);
  return std::find(kHelpers.begin(), kHelpers.end(), program) != kHelpers.end() ||
         std::any_of(kRules.begin(), kRules.end(), [&](const Rule& rule) {
           return rule.program == program && rule.reach == Reach::kSubmits;
         });
}

std::optional<RefusedStarter> FindRefused(const std::vector<ShellWord>& words, std::size_t at) {
  const std::string_view program = ProgramOf(words[at]);
  const auto* const rule = std::find_if(kRules.begin(), kRules.end(), [&](const Rule& r) {
    return r.program == program && r.reach != Reach::kSubmits;
  });
  if (rule == kRules.end()) return std::nullopt;
  const auto behind = [&](std::size_t i) { return i < words.size() ? words[i].value : ""; };
  const bool compose = behind(at + 1) == "compose";  // docker compose run
  const std::string verb = behind(at + (compose ? 2 : 1));
  const std::string alone(program);
  switch (rule->reach) {
    case Reach::kAlways:
    case Reach::kQueues:
      return RefusedStarter{alone};
    case Reach::kRanks:
      return RefusedStarter{.program = alone, .starts_ranks = true};
    case Reach::kWithTraining:
      return RefusedStarter{alone, true};
    case Reach::kRun:
      if (verb != "run" && verb != "exec") return std::nullopt;
      return RefusedStarter{alone + " " + verb, true};
    case Reach::kJob:
      if (verb != "job") return std::nullopt;
      return RefusedStarter{
          .program = alone + " " + verb,
          .returns = behind(at + 2) == "submit" && HasFlag(words, at, "--no-wait")};
    case Reach::kSubmits:  // OnlySubmits
      break;
  }
  return std::nullopt;
}

std::string SubmitterIn(const ShellScript& script) {
  for (const ShellCommand& command : script.commands) {
    const std::size_t first = PartsOf(command).first;
    if (first >= command.words.size()) continue;
    std::string submitter = SubmitterAt(command.words, first);
    if (!submitter.empty()) return submitter;
  }
  return {};
}

std::string HostsOfCommand(const std::vector<ShellWord>& words) {
  constexpr std::array<std::string_view, 7> kHosts = {"ip_config",   "hostfile",  "host_file",
                                                      "hosts_file",  "hostsfile", "machinefile",
                                                      "machine_file"};
  if (words.size() < 3) return {};
  // Not the text of a flag: `--prompt "python is ..."`.
  const std::string& before = words[words.size() - 2].value;
  const bool of_flag = before.starts_with("--") && before.find('=') == std::string::npos;
  const std::string_view command = words.back().value;
  const std::string_view first = command.substr(0, command.find(' '));
  const bool trains = command.find(".py") != std::string_view::npos ||
                      command.find(" -m ") != std::string_view::npos;
  if (of_flag || first.size() == command.size() || !trains ||
      (!IsPython(first) && first != "torchrun")) {
    return {};
  }
  for (const ShellWord& word : words) {
    if (!word.value.starts_with("--")) continue;
    const std::string flag = word.value.substr(0, word.value.find('='));
    std::string name = flag.substr(2);
    std::ranges::replace(name, '-', '_');
    if (std::ranges::find(kHosts, name) != kHosts.end()) return flag;
  }
  return {};
}

std::string OnlySubmits(const ShellScript& script) {
  const bool only = !script.compound && std::all_of(script.commands.begin(), script.commands.end(),
                                                    [](const auto& one) { return TrainsNot(one); });
  return only ? SubmitterIn(script) : std::string();
}

std::string OnlyDetaches(const ShellScript& script) {
  std::string found;
  for (const ShellCommand& command : script.commands) {
    if (StartsPythonInside(command)) return {};
    const std::size_t first = PartsOf(command).first;
    if (first >= command.words.size()) continue;
    const std::string_view program = ProgramOf(command.words[first]);
    std::string detacher = DetacherAt(command.words, first);
    const bool helps = program == "docker" || program == "docker-compose" || program == "podman" ||
                       program == "tmux" || program == "screen" || TrainsNot(command);
    if (detacher.empty() && !helps) return {};
    if (!detacher.empty()) found = std::move(detacher);
  }
  return found;
}

std::optional<Finding> SubmitsBeside(const ShellScript& script) {
  const std::string submitter = SubmitterIn(script);
  if (submitter.empty()) return std::nullopt;
  return MakeFinding(
      "submits_elsewhere", Severity::kWarning,
      submitter + " in run hands work to another scheduler, which launch does not see",
      "leave it out: launch starts a job again by itself (retry: N), and depends_on "
      "or launch submit start what follows");
}

std::string HintInsteadOf(std::string_view program) {
  const std::size_t blank = std::min(program.find(' '), program.size());
  const std::string_view word = program.substr(0, blank);
  const std::string_view verb = program.substr(std::min(blank + 1, program.size()));
  for (const Rule& rule : kRules) {
    const bool fits = rule.reach != Reach::kSubmits || NamesVerb(rule.verbs, verb);
    if (rule.program == word && fits) return std::string(rule.hint);
  }
  return {};
}

}  // namespace launch
