#include "cli/rank_environment.h"

#include <nlohmann/json.hpp>
#include <set>

#include "cli/job_draft.h"
#include "common/exec.h"
#include "common/exec_mark.h"
#include "common/quoted.h"
#include "common/text_processes.h"
#include "proto/convert_exec.h"

namespace launch {
namespace {

constexpr std::size_t kMostBytes = 4u << 20;  // the kernel gives a process at most 2 MiB of it
constexpr const char* kSecret = "a secret of the job";

// What the shell that it is pasted into keeps for itself.
bool IsOfTheShell(const std::string& name) {
  return name == "_" || name == "PWD" || name == "OLDPWD" || name == "SHLVL";
}

void HideSecrets(const JobView& job, ShownEnvironment& environment) {
  if (!job.spec) return;
  for (const std::string& name : job.spec->secrets) {
    environment.set.erase(name);
    environment.open[name] = kSecret;
  }
}

// The variables of ranks are missing here, and another number is theirs.
void NoteLauncher(const Plan& plan, Rank rank, ShownEnvironment& environment) {
  if (!TextThatStarts(plan, rank)) return;
  const int first = rank * plan.processes.per_node;
  environment.notes.push_back("the launcher in run starts processes " + std::to_string(first) +
                              " to " + std::to_string(first + plan.processes.per_node - 1) +
                              " here and sets RANK, LOCAL_RANK and WORLD_SIZE for each of them");
}

// It is the start text that puts them there (planner/start/allocation.cc), not the environment.
void NoteWrappers(const JobView& job, ShownEnvironment& environment) {
  const bool has =
      environment.set.contains("LAUNCH_WRAPPERS") || environment.open.contains("LAUNCH_WRAPPERS");
  if (!has || !job.plan || job.plan->start != StartKind::kPerNode) return;
  environment.notes.emplace_back(
      "the text of run finds torchrun, deepspeed and accelerate in $LAUNCH_WRAPPERS, before PATH");
}

}  // namespace

Result<ShownEnvironment> PlannedEnvironment(const JobView& job, Rank rank) {
  const std::string id = std::to_string(job.id.value);
  if (!job.plan || job.attempts.empty()) {
    return Fail(ErrorCode::kNotFound, "job " + id + " has no plan yet",
                "launch plan shows what it would be given");
  }
  const std::vector<RankAssignment>& ranks = job.plan->assignments;
  if (rank < 0 || static_cast<std::size_t>(rank) >= ranks.size()) {
    if (const auto text = TextThatStarts(*job.plan, rank)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "process " + std::to_string(rank) + " of job " + id +
                      " is started by the launcher in its run, which gives it RANK, LOCAL_RANK and "
                      "WORLD_SIZE beside the environment of rank " +
                      std::to_string(*text) + ", the text on its node",
                  "launch env " + id + " --rank " + std::to_string(*text));
    }
    return Fail(ErrorCode::kInvalidArgument,
                "job " + id + " has ranks 0 to " + std::to_string(ranks.size() - 1),
                "launch env " + id + " --rank 0");
  }
  const RankAssignment& chosen = ranks[static_cast<std::size_t>(rank)];
  const AttemptView& attempt = job.attempts.back();
  ShownEnvironment found{.job = job.id,
                         .attempt = attempt.attempt,
                         .rank = rank,
                         .node = chosen.node,
                         .set = chosen.env,
                         .open = {},
                         .notes = {}};
  for (const std::string& name : job.plan->late) {
    const auto known = attempt.env.find(name);
    const bool of_node = name.ends_with("_IFNAME");  // of the route that was proved there
    const bool path = known == attempt.env.end() || known->second.empty();
    if (of_node || (path && name != "LAUNCH_RESUME_FROM")) {
      found.open[name] = {};
      found.set.erase(name);
    } else {
      found.set[name] = known == attempt.env.end() ? "" : known->second;
    }
  }
  if (const auto path = found.set.find("PYTHONPATH"); path != found.set.end()) {
    found.notes.push_back("in front of PYTHONPATH the node puts a directory of launch's own");
  } else if (found.open.contains("PYTHONPATH")) {
    found.open["PYTHONPATH"] = "a directory of launch's own, in front of what is yours";
  }
  NoteWrappers(job, found);
  NoteLauncher(*job.plan, rank, found);
  if (found.set.contains("CONDA_PREFIX")) {
    found.notes.emplace_back(
        "the scripts of $CONDA_PREFIX/etc/conda/activate.d run on the node and may set or change "
        "any variable but those of env:");
  }
  HideSecrets(job, found);
  return found;
}

ShownEnvironment EnvironmentOfNode(ShownEnvironment planned, const JobView& job,
                                   std::string_view environ) {
  ShownEnvironment found = std::move(planned);
  found.of_node = true;
  found.set.clear();
  found.open.clear();
  found.notes.clear();
  while (!environ.empty()) {
    const std::size_t end = std::min(environ.find('\0'), environ.size());
    const std::string_view entry = environ.substr(0, end);
    environ.remove_prefix(std::min(end + 1, environ.size()));
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    found.set[std::string(entry.substr(0, equals))] = std::string(entry.substr(equals + 1));
  }
  found.set.erase(kExecMark);  // of the command that read it
  NoteWrappers(job, found);
  if (job.plan) NoteLauncher(*job.plan, found.rank, found);
  HideSecrets(job, found);
  return found;
}

Result<std::string> ReadEnvironment(Client& client, const JobView& job, Rank rank) {
  // Of an image only its own PATH knows where the program lies.
  const bool contained = job.spec && !job.spec->image.empty();
  ExecCall call;
  call.job = job.id;
  call.rank = rank;
  call.command.argv = {contained ? "env" : "/usr/bin/env", "-0"};
  std::string out;
  std::string err;
  std::optional<ExecEnd> end;
  const Result<void> ran = client.Exec(call, [&](ExecStream& stream) {
    (void)stream.EndInput();
    while (const auto said = stream.Read()) {
      if (const auto* bytes = std::get_if<ExecBytes>(&*said)) {
        (bytes->err ? err : out) += bytes->data;
        if (out.size() + err.size() > kMostBytes) stream.Cancel();
      } else {
        end = std::get<ExecEnd>(*said);
      }
    }
  });
  const std::string what = "the environment of rank " + std::to_string(rank);
  if (!end && !ran) return Unexpected(ran.error());
  if (!end) {
    return Fail(ErrorCode::kUnavailable, what + " cannot be read: the connection ended", "");
  }
  if (end->code != 0) {
    return Fail(ErrorCode::kFailedPrecondition,
                what + " cannot be read: " + (end->why.empty() ? err.substr(0, 400) : end->why),
                "");
  }
  return out;
}

std::string EnvironmentText(const ShownEnvironment& environment) {
  std::string text = "# rank " + std::to_string(environment.rank) + " of job " +
                     std::to_string(environment.job.value) + ", attempt " +
                     std::to_string(environment.attempt.value) + ", on " + environment.node.value +
                     (environment.of_node ? ", as it runs there\n" : ", as planned\n");
  for (const auto& [name, value] : environment.set) {
    if (environment.of_node && IsOfTheShell(name)) continue;
    if (IsVariableName(name)) {
      text += "export " + name + "=" + ShellQuote(value) + "\n";
    } else {  // functions that bash exports
      text += "# " + name + " is set too; no shell can assign to this name\n";
    }
  }
  for (const auto& [name, why] : environment.open) {
    text += "# " + name + " is set on the node" + (why.empty() ? "" : ": " + why) + "\n";
  }
  for (const std::string& note : environment.notes) text += "# " + note + "\n";
  return text;
}

std::string EnvironmentJson(const ShownEnvironment& environment) {
  using Json = nlohmann::ordered_json;
  Json set = Json::object();
  for (const auto& [name, value] : environment.set) set[name] = value;
  Json open = Json::array();
  for (const auto& [name, why] : environment.open)
    open.push_back({{"name", name}, {"why", why.empty() ? Json(nullptr) : Json(why)}});
  return Json({{"version", 1},
               {"job", environment.job.value},
               {"attempt", environment.attempt.value},
               {"rank", environment.rank},
               {"node", environment.node.value},
               {"source", environment.of_node ? "node" : "plan"},
               {"env", set},
               {"set_on_node", open},
               {"notes", environment.notes}})
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace launch
