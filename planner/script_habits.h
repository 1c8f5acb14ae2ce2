// What the text of a training script, read where the job was submitted, tells of how it wants to be
// started. Habits of public scripts, found by their spelling: a hint for the start, never a proof.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/diagnosis.h"
#include "planner/launch_line.h"

namespace launch {

struct ScriptHabits {
  // os.environ.get("RANK", -1) != -1, then a process group and a CUDA device (nanoGPT): one process
  // without RANK, several on GPUs with it.
  bool optional_rank = false;
  // mp.spawn(...): one process per GPU made by the script itself, which reads no LOCAL_RANK.
  std::string spawns;         // "mp.spawn"; empty: none
  bool sets_devices = false;  // os.environ["CUDA_VISIBLE_DEVICES"] = ...
};

ScriptHabits HabitsIn(std::string_view text);

// Of the script of a line, where its text is at hand.
ScriptHabits HabitsOf(const LaunchLine& line, const std::map<std::string, std::string>& files);

// Why a plain command starts its ranks by itself: its script's habit, or flags that are known for
// it (detectron2's --num-gpus, --multiprocessing-distributed). Empty: it does not.
std::string StartsProcesses(const LaunchLine& line, const ScriptHabits& habits);

// A script that sets CUDA_VISIBLE_DEVICES itself escapes the devices the job gets.
std::optional<Finding> DevicesSetIn(const LaunchLine& line,
                                    const std::map<std::string, std::string>& files);

}  // namespace launch
