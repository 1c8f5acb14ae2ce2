#include "planner/line/launcher_notes.h"

#include <algorithm>
#include <cctype>

#include "common/text.h"

namespace launch {

std::vector<Finding> LauncherNotes(const LauncherArguments& arguments, LauncherKind launcher,
                                   const std::vector<std::string>& overridden) {
  std::vector<Finding> notes;
  std::vector<std::string> replaced = arguments.replaced;
  for (const std::string& variable : overridden) {
    const std::string name = Lower(variable);
    if (std::find(replaced.begin(), replaced.end(), name) == replaced.end()) {
      replaced.push_back(name);
    }
  }
  const bool chooses_devices = std::ranges::any_of(
      replaced, [](const std::string& flag) { return flag == "include" || flag == "gpu_ids"; });
  if (!replaced.empty()) {
    notes.push_back(MakeFinding(
        "launcher_flags_replaced", Severity::kWarning,
        Joined(replaced, ", ") + (replaced.size() == 1 ? " of the line is" : " of the line are") +
            " replaced by the values of the plan",
        std::string("leave them out: launch sets rank, address and port for every node") +
            (chooses_devices ? "; for particular devices write gpu_ids: [0, 1]" : "")));
  }
  if (!arguments.dropped.empty()) {
    notes.push_back(MakeFinding(
        "launcher_flags_dropped", Severity::kNotice,
        Joined(arguments.dropped, ", ") + " steer the launcher itself and have no effect here",
        "read logs with launch logs JOB --rank R"));
  }
  if (arguments.max_restarts && *arguments.max_restarts != "0") {
    notes.push_back(MakeFinding(
        "launcher_flags_dropped", Severity::kNotice,
        "max_restarts=" + *arguments.max_restarts + " has no effect: launch restarts jobs",
        "write retry: {max: " + *arguments.max_restarts + "}"));
  }
  // deepspeed and accelerate take all GPUs by themselves: OpenCountNotes.
  const bool one_by_default = launcher == LauncherKind::kTorchrun;
  if (arguments.procs == ProcsWord::kNone && one_by_default) {
    notes.push_back(MakeFinding(
        "processes_per_node", Severity::kNotice,
        "the line has no --nproc-per-node (torchrun would start 1): one process per GPU",
        "write --nproc-per-node or procs_per_node"));
  } else if (arguments.procs == ProcsWord::kUnknown) {
    notes.push_back(
        MakeFinding("processes_per_node", Severity::kWarning,
                    "the number of processes per node is known on the node only: one per GPU",
                    "write procs_per_node in the job, or a number; for one per GPU submit with "
                    "--gpus N, or write gpus: N"));
  }
  if (!arguments.slots_differ.empty()) {
    notes.push_back(
        MakeFinding("processes_per_node", Severity::kWarning,
                    arguments.hostfile + " gives its hosts " + arguments.slots_differ +
                        " slots: launch starts the same number of processes on every node",
                    "write gpus: N, the GPUs of each node"));
  }
  if (!arguments.nodes_text.empty() && !arguments.nodes_min) {
    notes.push_back(MakeFinding("launcher_flags_replaced", Severity::kWarning,
                                "the number of nodes, " + arguments.nodes_text +
                                    ", is read as the number of nodes of the job"));
  }
  return notes;
}

Finding HostfileUnread(const std::string& path) {
  return MakeFinding("hostfile_unread", Severity::kWarning,
                     path +
                         " was not found where the job was submitted: it says on how many nodes "
                         "deepspeed starts, and the job takes nodes: instead",
                     "write nodes: N, or submit from a machine that sees the file");
}

std::vector<Finding> OpenCountNotes(ProcsWord procs, LauncherKind launcher) {
  const bool by_word = procs == ProcsWord::kGpu || procs == ProcsWord::kAuto;
  const bool by_default = procs == ProcsWord::kNone && (launcher == LauncherKind::kAccelerate ||
                                                        launcher == LauncherKind::kDeepspeed);
  if (!by_word && !by_default) return {};
  return {MakeFinding("processes_per_node", Severity::kWarning,
                      (launcher == LauncherKind::kNode ? "the launcher inside run"
                                                       : std::string(ToString(launcher))) +
                          (procs == ProcsWord::kAuto
                               ? " would take every GPU of the node, or every core without one"
                               : " would take every GPU of the node") +
                          ": here it is those that the job asks for",
                      "submit with --gpus N, or write gpus: N (1 where it is left out)")};
}

}  // namespace launch
