#include "planner/start/describe_start.h"

#include <algorithm>
#include <cstddef>

#include "common/quoted.h"

namespace launch {
namespace {

std::string Shape(const RankLayout& layout) {
  const std::size_t nodes = layout.nodes.size();
  std::string text =
      std::to_string(layout.world_size) + (layout.world_size == 1 ? " process" : " processes");
  const bool even = std::all_of(
      layout.nodes.begin(), layout.nodes.end(),
      [&](const NodeShare& share) { return share.processes == layout.nodes[0].processes; });
  if (!even) return text + " on " + std::to_string(nodes) + " nodes";
  return text + " = " + std::to_string(nodes) + (nodes == 1 ? " node x " : " nodes x ") +
         std::to_string(layout.nodes[0].processes);
}

// The command as people read it: with a name for the interpreter that the node fills in.
std::string ShownCommand(const LaunchLine& line, const std::string& interpreter) {
  std::string text = line.shell;
  if (text.starts_with(kInterpreterBehindZero)) text.erase(0, kInterpreterBehindZero.size());
  const std::string_view word = line.uses_arg_zero ? "\"$launch_python\"" : "\"$0\"";
  const std::size_t at = line.interpreter_first ? text.find(word) : std::string::npos;
  if (at != std::string::npos) {
    text.replace(at, word.size(), interpreter.empty() ? "python" : ShellQuote(interpreter));
  }
  return text;
}

}  // namespace

bool StartsAlone(const LaunchLine& line, const RankLayout& layout, const Plan& plan) {
  return line.rank_means_several && layout.world_size == 1 && plan.device != DeviceClass::kCuda;
}

void DescribeStart(const LaunchLine& line, const RankLayout& layout, const std::string& interpreter,
                   Plan& plan) {
  plan.start = line.start;
  plan.launcher = line.launcher;
  plan.command = ShownCommand(line, interpreter);
  plan.read.insert(plan.read.begin(), line.read.begin(), line.read.end());
  const bool direct = line.start == StartKind::kDirect;
  plan.read[0] = line.read[0] + ": " + Shape(layout) +
                 (direct ? ", started directly"
                         : ", run is started once per node and its launcher held to this");
  if (StartsAlone(line, layout, plan)) {
    plan.read.push_back(line.script +
                        " takes RANK for a run of several processes on GPUs: it is not "
                        "set for the only one");
  }
}

}  // namespace launch
