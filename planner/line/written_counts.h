// Processes and nodes that the launcher calls inside of a text fix.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "planner/line/launch_line.h"
#include "planner/line/launcher_arguments.h"
#include "planner/line/shell_text.h"
#include "planner/line/shell_values.h"
#include "planner/line/shell_walk.h"

namespace launch {

// The words of a Python program from the interpreter, or `./train.py`, on, and where it is started.
struct PythonCall {
  std::vector<ShellWord> words;
  ShellPlace place;
  bool maybe = false;  // the text may not come to it
};

struct WrittenCounts {
  ProcsWord procs = ProcsWord::kNone;
  int procs_number = 0;
  bool total = false;  // procs_number is that of all nodes (accelerate)
  std::optional<int> nodes;
  std::optional<int> devices;  // CUDA_VISIBLE_DEVICES of the call, as a count
  std::string device_list;     // the same as written; empty: it is not known
  bool called = false;         // a launcher with a count or devices
  // Every call is reached, and its count is that of the text whatever the node is like.
  bool sure = false;
  // The calls may ask for another number: this one is what the text alone shows, or that of one
  // branch beside another that is not known.
  bool doubted = false;
  bool launcher = false;      // a launcher is called, whatever it asks for
  bool none_reached = false;  // the text's own values rule its launchers out
  // Devices of a launcher and of what runs in the background beside it, whose own stay as written.
  std::set<std::int64_t> together;
  bool sets_devices = false;          // the text gives it a value, known or not
  bool program_sets_devices = false;  // so does a program that calls no launcher
  bool bare_python = true;  // all of these are called as `python` or `python3`, by nothing else
  std::optional<int> program_devices;            // the most that such a program is given
  bool program_devices_open = false;             // those of one of them are not known
  std::optional<AccelerateSettings> accelerate;  // of the first call of `accelerate launch`
  std::string on_cpu;                            // what in it asks for the CPU
  std::optional<NamedText> deepspeed;            // the engine's file of the first call that has one
  std::string hostfile_unread;                   // a hostfile of DeepSpeed that is not at hand
  std::optional<Error> stops;  // why a call that the text reaches for sure cannot be started
  // Why the node would refuse a launcher's devices, or those of a program, if they are as written.
  std::optional<Error> foreign_devices;
  std::optional<Error> foreign_of_program;
  std::string told_program;   // "NPROC_PER_NODE in front of mycli": not known, and told its ranks
  std::string count_unknown;  // "--nproc_per_node=${NUM_GPUS}"; empty: no such count
  std::string flag_unknown;   // of a torchrun line, as an error says it; empty: none
  std::string refused;        // srun or mpirun that the text reaches for sure, beside a launcher
  // Where calls ask for different numbers: the one that does not count.
  std::optional<int> other_procs;
  // Files that the text names and that are not at hand: where they lie, by the name under which a
  // job keeps them.
  std::map<std::string, ShellWalk::Wanted> wanted;
  // Shell scripts that it runs, in the order of their calls, and those that are not at hand.
  std::vector<ShellWalk::CalledText> scripts;
  std::vector<std::string> unread;
  std::vector<PythonCall> python;  // the first of them
  // RANK, MASTER_ADDR and the like that the text gives values of its own.
  std::set<std::string, std::less<>> place_set;
  std::string_view needs_world;    // a launcher of its own that takes WORLD_SIZE for all nodes
  std::string_view one_node_rank;  // such a launcher that would be the same node everywhere
};

// The counts that the script's text shows. Of calls with fixed numbers the one that has the job's
// number decides, else the one with the largest; a server beside a training never does. What only
// the node knows stays open. Arguments of the script have names like these flags and mean something
// else. `files`: texts that the job names.
WrittenCounts CountsIn(const ShellScript& script, const LaunchLineOptions& options);

}  // namespace launch
