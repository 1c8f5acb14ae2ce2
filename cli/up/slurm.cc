#include "cli/up/slurm.h"

#include <utility>

#include "common/hostlist.h"
#include "common/quoted.h"
#include "common/text.h"
#include "planner/line/shell_text.h"

namespace launch::up {
namespace {

constexpr Millis kAsk(30'000);
// Time to write a checkpoint before Slurm's limit; --signal among the user's arguments changes it.
constexpr const char* kWarning = "--signal=B:USR1@300";

Result<RemoteAnswer> Ask(Remote& here, const std::string& command) {
  LAUNCH_ASSIGN_OR_RETURN(RemoteAnswer answer, here.Run(command, "", kAsk));
  if (answer.code == 127)
    return Fail(ErrorCode::kNotFound, "Slurm's commands are not on PATH of this machine",
                "run this where sbatch works: usually a login node");
  return answer;
}

}  // namespace

Result<std::string> SbatchWords(const std::string& arguments) {
  LAUNCH_ASSIGN_OR_RETURN(const ShellScript script, ReadShell(arguments));
  const Unexpected bad = Fail(ErrorCode::kInvalidArgument,
                              "--slurm \"" + arguments + "\" is not a list of sbatch's options",
                              "write --slurm \"-p gpu -N 4 -t 8:00:00\"");
  if (script.compound || script.commands.size() > 1) return bad;
  std::string words;
  if (script.commands.empty()) return words;
  if (!script.commands[0].redirects.empty()) return bad;
  for (const ShellWord& word : script.commands[0].words) {
    if (!word.fixed) return bad;
    words += ShellQuote(word.value) + " ";
  }
  return words;
}

Result<std::string> SubmitAllocation(Remote& here, const AllocationWish& wish) {
  LAUNCH_ASSIGN_OR_RETURN(const std::string arguments, SbatchWords(wish.arguments));
  const std::string log = wish.credentials + "/slurm-%j.log";
  LAUNCH_ASSIGN_OR_RETURN(
      const RemoteAnswer answer,
      Ask(here, "umask 077; sbatch --parsable --no-requeue --open-mode=append --job-name=" +
                    ShellQuote("launch-" + wish.cluster) + " --output=" + ShellQuote(log) + " " +
                    kWarning + " " + arguments + ShellQuote(wish.credentials + "/allocation.sh") +
                    " " + ShellQuote(wish.programs) + " " + ShellQuote(wish.address) + " " +
                    ShellQuote(wish.credentials)));
  // "123" or "123;cluster"
  const std::string id(Trim(answer.output.substr(0, answer.output.find_first_of(";\n"))));
  if (answer.code != 0 || id.empty())
    return Fail(ErrorCode::kFailedPrecondition,
                "sbatch refuses: " + std::string(Trim(answer.errors)),
                "the words after --slurm are those of sbatch");
  return id;
}

Result<AllocationState> StateOfAllocation(Remote& here, const std::string& id) {
  LAUNCH_ASSIGN_OR_RETURN(const RemoteAnswer answer,
                          Ask(here, "squeue -h -o '%T|%r|%N' -j " + ShellQuote(id)));
  AllocationState state;
  if (answer.code != 0) {
    if (answer.errors.find("Invalid job id") != std::string::npos) return state;
    return Fail(ErrorCode::kUnavailable, "squeue: " + std::string(Trim(answer.errors)));
  }
  const std::string_view line = Trim(answer.output);
  const std::size_t first = line.find('|');
  const std::size_t second = line.find('|', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return state;
  state.state = std::string(line.substr(0, first));
  state.reason = std::string(line.substr(first + 1, second - first - 1));
  if (second + 1 < line.size()) {
    LAUNCH_ASSIGN_OR_RETURN(state.nodes, ExpandHostlist(std::string(line.substr(second + 1))));
  }
  return state;
}

Result<void> CancelAllocation(Remote& here, const std::string& id) {
  LAUNCH_ASSIGN_OR_RETURN(const RemoteAnswer answer, Ask(here, "scancel " + ShellQuote(id)));
  if (answer.code != 0)
    return Fail(ErrorCode::kFailedPrecondition, "scancel: " + std::string(Trim(answer.errors)));
  return {};
}

Result<void> EndAllocation(Remote& here, const std::string& id) {
  LAUNCH_ASSIGN_OR_RETURN(const AllocationState state, StateOfAllocation(here, id));
  if (state.state.empty()) return {};
  if (state.state != "RUNNING") return CancelAllocation(here, id);
  LAUNCH_ASSIGN_OR_RETURN(const RemoteAnswer answer,
                          Ask(here, "scancel --batch --signal=USR1 " + ShellQuote(id)));
  return answer.code == 0 ? Result<void>() : CancelAllocation(here, id);
}

}  // namespace launch::up
