#include "cli/job_template.h"

#include "cli/job_reader.h"
#include "common/quoted.h"
#include "planner/launch_line.h"
#include "planner/node_line.h"

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

std::string Devices(const LaunchLine& line) {
  const bool counted = line.procs == ProcsWord::kNumber;
  const std::string count = counted ? std::to_string(line.procs_number) : "1";
  if (!line.on_cpu.empty()) {
    return "device: cpu\ngpus: 0\nprocs_per_node: " + count + "   # ranks on each node\n";
  }
  return "gpus: " + count +
         (counted ? "                  # on each node, one process each; also H100:8\n"
                  : "                  # on each node: the line leaves the number open\n");
}

}  // namespace

Result<std::string> JobFileFor(const std::vector<std::string>& words, const std::string& cwd) {
  LAUNCH_ASSIGN_OR_RETURN(const ReadJob job, ReadJobLine(words, {}, cwd));
  LAUNCH_ASSIGN_OR_RETURN(const LaunchLine line,
                          ReadLaunchLine(job.spec.run, LineOptions(job.spec, {})));
  std::string text = "# " + line.read[0] +
                     (line.start == StartKind::kPerNode ? ": started once per node"
                                                        : ": its ranks are started directly") +
                     "; `launch plan` shows the rest.\n";
  text += "name: " + (job.spec.name.empty() ? std::string("job") : job.spec.name) + "\n";
  text += "nodes: " + std::to_string(job.spec.nodes.min) + "\n";
  text += Devices(line);
  text += "# venv: ./venv             # or conda: NAME, or python: PATH\n";
  text += "# checkpoint: {dir: out}   # lets a retry resume\n";
  text += "# time: 12h                # the longest it may run\n";
  text += "run: " + Block(job.spec.run) + "\n";
  return text;
}

}  // namespace launch
