#include "cli/job_template.h"

#include "cli/job_reader.h"
#include "cli/named_files.h"
#include "planner/planner.h"

namespace launch {
namespace {

// A block keeps every character of a shell text; a line of its own per line of the text.
std::string Block(const std::string& text) {
  std::string block = "|\n  ";
  for (const char c : text) {
    block += c;
    if (c == '\n') block += "  ";
  }
  return block;
}

// As the planner counts: devices that the line shows, else a device for each process.
std::string Devices(const LaunchLine& line) {
  const bool named = line.procs == ProcsWord::kNumber;
  const int processes = named ? line.procs_number : 1;
  if (!line.on_cpu.empty() || line.visible_devices == 0) {
    return "device: cpu\ngpus: 0\nprocs_per_node: " + std::to_string(processes) +
           "   # ranks on each node\n";
  }
  const int gpus = line.visible_devices.value_or(processes);
  std::string text = "gpus: " + std::to_string(gpus) +
                     (named || line.visible_devices
                          ? "                  # on each node, one process each; also H100:8\n"
                          : "                  # on each node: the line leaves the number open\n");
  if (named && processes != gpus) {
    text += "procs_per_node: " + std::to_string(processes) + "        # on those devices\n";
  }
  return text;
}

}  // namespace

Result<std::string> JobFileFor(const std::vector<std::string>& words, const std::string& cwd) {
  LAUNCH_ASSIGN_OR_RETURN(const ReadJob job, ReadJobLine(words, {}, cwd));
  LAUNCH_ASSIGN_OR_RETURN(const auto files, ReadNamedFiles(job.spec));
  LAUNCH_ASSIGN_OR_RETURN(const LaunchLine line, ReadLineOf(job.spec, files));
  std::string text = "# " + line.read[0] +
                     (line.start == StartKind::kPerNode ? ": started once per node"
                                                        : ": its ranks are started directly") +
                     "; `launch plan` shows the rest.\n";
  text += "name: " + (job.spec.name.empty() ? std::string("job") : job.spec.name) + "\n";
  const NodeCount& nodes = job.spec.nodes;
  text += "nodes: " + std::to_string(nodes.min) +
          (nodes.max > nodes.min ? ".." + std::to_string(nodes.max) : "") + "\n";
  text += Devices(line);
  text += "# venv: ./venv             # or conda: NAME, or python: PATH\n";
  text += "# checkpoint: {dir: out}   # lets a retry resume\n";
  text += "# time: 12h                # the longest it may run\n";
  text += "run: " + Block(job.spec.run) + "\n";
  return text;
}

}  // namespace launch
