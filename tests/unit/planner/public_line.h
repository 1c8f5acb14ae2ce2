// Launch lines of public repositories and how a table writes their reading.
#pragma once

#include <string>

#include "planner/line/launch_line.h"

namespace launch {

struct PublicLine {
  const char* source;
  const char* run;
  const char* reading;
};

inline std::string Reading(const Result<LaunchLine>& line) {
  if (!line) return "refused: " + line.error().message;
  std::string text(ToString(line->launcher));
  if (line->launcher == LauncherKind::kProcess) text = "plain";
  if (line->procs == ProcsWord::kNumber) text += " procs=" + std::to_string(line->procs_number);
  if (line->procs == ProcsWord::kGpu) text += " procs=gpu";
  if (line->procs == ProcsWord::kCpu) text += " procs=cpu";
  if (line->procs == ProcsWord::kUnknown) text += " procs=unknown";
  if (line->nodes_min) text += " nodes=" + std::to_string(*line->nodes_min);
  if (line->visible_devices) text += " devices=" + std::to_string(*line->visible_devices);
  if (!line->on_cpu.empty()) text += " cpu";
  if (!line->script.empty()) text += " " + line->script;
  return text;
}

}  // namespace launch
