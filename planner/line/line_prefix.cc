#include "planner/line/line_prefix.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/text.h"
#include "planner/line/launch_line.h"

namespace launch {
namespace {

bool IsDropped(const std::string& word) {
  return word == "exec" || word == "time" || word == "nohup" || word == "command";
}

}  // namespace

CommandParts PartsOf(const ShellCommand& command) {
  CommandParts parts;
  const std::vector<ShellWord>& words = command.words;
  std::size_t i = 0;
  for (; i < words.size(); ++i) {
    if (auto assignment = AssignmentOf(words[i])) {
      parts.assignments.push_back(std::move(*assignment));
      continue;
    }
    const bool more = i + 1 < words.size();
    const bool env = words[i].raw == "env" && more && AssignmentOf(words[i + 1]).has_value();
    if (!env && !IsDropped(words[i].raw)) break;
    if (words[i].raw == "time" && more && words[i + 1].raw == "-p") ++i;
  }
  parts.first = i;
  return parts;
}

bool IsPreparation(const ShellCommand& command) {
  if (command.joiner != "&&" && command.joiner != ";" && command.joiner != "\n") return false;
  if (command.words.empty() || !command.redirects.empty()) return false;
  constexpr std::array<std::string_view, 8> kHarmless = {"cd", "echo",  "export", "set",
                                                         ":",  "umask", "unset",  "ulimit"};
  const std::string& word = command.words[0].raw;
  if (std::find(kHarmless.begin(), kHarmless.end(), word) != kHarmless.end()) return true;
  return std::all_of(command.words.begin(), command.words.end(),
                     [](const ShellWord& w) { return AssignmentOf(w).has_value(); });
}

LinePrefix::LinePrefix(const LaunchLineOptions& options)
    : known_(options.told), place_(options.workdir) {
  if (!options.workdir.empty()) known_["PWD"] = options.workdir;
  // Those of `bash -c`, by which scripts ask where they stand.
  known_["0"] = "bash";
  known_["BASH_SOURCE"] = "";
  for (const EnvEntry& entry : options.env) {
    if (entry.value && entry.value->find('$') == std::string::npos) {
      known_.insert_or_assign(entry.name, *entry.value);
    }
  }
}

void LinePrefix::ReadPreparation(const ShellScript& script, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const ShellCommand& command = script.commands[i];
    std::vector<std::string> kept;
    bool dropped = false;
    for (const ShellWord& word : command.words) {
      const auto assignment = AssignmentOf(word);
      if (assignment && !Keep(*assignment)) {
        dropped = true;
        continue;
      }
      if (!assignment) TakeAssignment(word, known_);  // ": ${NGPU:=4}"
      kept.push_back(word.raw);
    }
    place_.Note(command, known_);
    if (dropped && kept.size() <= (command.words[0].raw == "export" ? 1U : 0U)) continue;
    preparation_ += Joined(kept, " ") + (command.joiner == "&&" ? " && " : "; ");
  }
}

std::string LinePrefix::Assignments(const CommandParts& parts) {
  std::string prefix;
  for (const ShellAssignment& assignment : parts.assignments) {
    if (Keep(assignment)) prefix += assignment.name + "=" + assignment.value.raw + " ";
  }
  return prefix;
}

void LinePrefix::TakeVisibleDevices(const ShellAssignment& assignment) {
  const auto value = FixedValue(assignment.value, known_);
  if (value) {
    const bool none = value->empty() || (*value)[0] == '-' || *value == "NoDevFiles";
    visible_devices_ =
        none ? 0 : static_cast<int>(std::count(value->begin(), value->end(), ',')) + 1;
  }
  const std::string count = visible_devices_ ? std::to_string(*visible_devices_) : "unknown";
  const bool numbers =
      value && !value->empty() && value->find_first_not_of("0123456789, ") == std::string::npos;
  warnings_.push_back(
      MakeFinding("visible_devices_set", Severity::kWarning,
                  "CUDA_VISIBLE_DEVICES=" + assignment.value.raw + " in run is read as a count (" +
                      count + ") and replaced by the devices the job gets",
                  "for particular devices write gpu_ids: [" + (numbers ? *value : "0") + "]"));
}

// False: the assignment names something the plan decides; it is left out and said.
bool LinePrefix::Keep(const ShellAssignment& assignment) {
  if (assignment.name == "CUDA_VISIBLE_DEVICES") {
    TakeVisibleDevices(assignment);
    return false;
  }
  if (IsContractVariable(assignment.name)) {
    overridden_.push_back(assignment.name);
    if (const auto value = FixedValue(assignment.value, known_))
      known_.insert_or_assign(assignment.name, *value);
    return false;
  }
  sets_path_ = sets_path_ || assignment.name == "PATH";
  if (const auto value = FixedValue(assignment.value, known_)) {
    known_.insert_or_assign(assignment.name, *value);
  }
  return true;
}

}  // namespace launch
