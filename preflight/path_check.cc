#include "preflight/path_check.h"

#include <map>
#include <string>
#include <utility>

#include "preflight/node_case.h"
#include "preflight/remedies.h"

namespace launch {
namespace {

Finding MissingWorkdir(const PathFact& fact, const NodeInventory& node) {
  Finding finding = MakeFinding(
      "workdir_missing", Severity::kError, node.node,
      "workdir " + fact.path + On(node) + ": " + (fact.why.empty() ? "missing" : fact.why));
  finding.remedy =
      "submit from a directory that every node sees under the same path, or name one with "
      "workdir:; "
      "or write snapshot: true, and each node gets a copy";
  return finding;
}

std::string RemedyOfCommand(const PathFact& fact) {
  constexpr std::string_view kNotExecutable = "not executable";
  if (fact.why.ends_with(kNotExecutable)) {
    const std::size_t named = fact.why.find(" is not executable");
    const std::string file = named == std::string::npos ? fact.path : fact.why.substr(0, named);
    const std::string with = file.ends_with(".py") ? "python " : "bash ";
    return "chmod +x " + file + ", or write `" + with + file + "` in run";
  }
  if (fact.path.find('/') != std::string::npos)
    return "write the command's path from the workdir in run, or copy it to the node";
  return "check the first word of run, and the PATH of venv: or env:; a file of the workdir is ./" +
         fact.path;
}

Finding MissingCommand(const PathFact& fact, const NodeInventory& node) {
  const bool interpreter = fact.what == "interpreter";
  const bool script = fact.what == "script";
  Finding finding =
      MakeFinding("command_missing", Severity::kError, node.node,
                  (interpreter ? "interpreter "
                   : script    ? "script "
                               : "command ") +
                      fact.path + On(node) + ": " + (fact.why.empty() ? "not found" : fact.why));
  finding.remedy =
      interpreter ? "name an environment that exists on every node with venv: or python:"
      : script    ? "write the script's path from the workdir in run, or copy it to the node"
                  : RemedyOfCommand(fact);
  return finding;
}

Finding NotShared(const NodeInventory& node, std::string says, std::string remedy) {
  Finding finding = MakeFinding("path_not_shared", Severity::kError, node.node, std::move(says));
  finding.remedy = std::move(remedy);
  return finding;
}

Finding UselessCheckpointDir(const PathFact& fact, const NodeInventory& node) {
  Finding finding =
      MakeFinding("disk_low", Severity::kError, node.node,
                  "checkpoints cannot be written to " + fact.path + On(node) + ": " + fact.why);
  finding.evidence = "an attempt to make the directory and a file in it";
  finding.remedy = "name a directory that the job may write with checkpoint: {dir: ...}";
  return finding;
}

Finding NoRoomForCopy(const PathFact& fact, const NodeInventory& node) {
  Finding finding = MakeFinding("disk_low", Severity::kError, node.node,
                                "no room for a copy of workdir" + On(node) + ": " + fact.why);
  finding.evidence = "free space of " + fact.path + ", and writing there";
  RemedyText room = RoomForState(node.node.value);
  finding.remedy = std::move(room.text) + "\nor leave large files out with .launchignore";
  finding.fix = std::move(room.fix);
  return finding;
}

bool IsNamed(const PathFact& fact) { return fact.what == "input" || fact.what == "argument"; }

}  // namespace

void JudgeNamedPaths(const std::vector<FoundPaths>& nodes, PreflightReport& report) {
  std::map<std::string, std::vector<std::pair<const NodeInventory*, const PathFact*>>> by_path;
  for (const FoundPaths& node : nodes) {
    for (const PathFact& fact : node.paths) {
      if (IsNamed(fact)) by_path[fact.path].emplace_back(&node.node, &fact);
    }
  }
  for (const auto& [path, facts] : by_path) {
    std::string there;
    for (const auto& [node, fact] : facts) {
      if (fact->ok) there += (there.empty() ? "" : ", ") + node->node.value;
    }
    const bool input = facts.front().second->what == "input";
    if (there.empty()) {
      if (!input) continue;
      Finding finding =
          MakeFinding("path_not_shared", Severity::kWarning, facts.front().first->node,
                      path + ", which run names as input, is on no node of the job");
      finding.remedy = "check the path in run, unless the script makes or fetches it";
      Add(report, std::move(finding));
      continue;
    }
    for (const auto& [node, fact] : facts) {
      if (fact->ok) {
        Pass(report, "same directory", node->node, path + On(*node) + " is there");
        continue;
      }
      Finding finding =
          MakeFinding("path_not_shared", input ? Severity::kError : Severity::kWarning, node->node,
                      path + ", which run names" + (input ? " as input" : "") + ", is on " + there +
                          " and not on " + node->node.value + ": " + fact->why);
      finding.evidence = "stat on each node of the job";
      finding.remedy = "put it on a file system that all nodes share, or copy it to " +
                       node->node.value + " under the same path";
      Add(report, std::move(finding));
    }
  }
}

void JudgePath(const AllocationSpec& spec, const PathFact& fact, const NodeInventory& node,
               PreflightReport& report) {
  if (IsNamed(fact)) return;              // compared between the nodes
  if (fact.what == "local_disk") return;  // for what follows after the attempt
  if (!fact.ok) {
    if (fact.what == "marker") {
      Add(report,
          NotShared(node,
                    "workdir " + spec.workdir + On(node) +
                        " is not the directory that rank 0's node sees: " + fact.why,
                    "use a directory on a file system that all nodes of the job share, or write "
                    "snapshot: true"));
    } else if (fact.what == "checkpoint") {
      Add(report, UselessCheckpointDir(fact, node));
    } else if (fact.what == "copy") {
      Add(report, NoRoomForCopy(fact, node));
    } else {
      Add(report, fact.what == "workdir" ? MissingWorkdir(fact, node) : MissingCommand(fact, node));
    }
    return;
  }
  const bool other = fact.what == "workdir" && spec.workdir_inode != 0 && fact.inode != 0 &&
                     fact.inode != spec.workdir_inode;
  if (other) {
    Add(report,
        NotShared(node,
                  "workdir " + spec.workdir + On(node) + " has inode " +
                      std::to_string(fact.inode) + ", where you submitted it has " +
                      std::to_string(spec.workdir_inode) + ": it is another directory",
                  "submit from a directory that the nodes see too, or name one with workdir:; or "
                  "write snapshot: true"));
    return;
  }
  const std::string_view check = fact.what == "marker"       ? "same directory"
                                 : fact.what == "workdir"    ? "workdir"
                                 : fact.what == "checkpoint" ? "disk space"
                                                             : "command";
  Pass(report, check, node.node, fact.what + " " + fact.path + On(node) + " is there");
}

}  // namespace launch
