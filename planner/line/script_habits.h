// What the text of a training script, read where the job was submitted, tells of how it wants to be
// started. Habits of public scripts, found by their spelling: a hint for the start, never a proof.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/diagnosis.h"
#include "planner/line/launch_line.h"

namespace launch {

struct ScriptHabits {
  // os.environ.get("RANK", -1) != -1, then a process group and a CUDA device (nanoGPT): one process
  // without RANK, several on GPUs with it.
  bool optional_rank = false;
  // mp.spawn(...), ray.init(): its processes are made by the script itself, which reads no
  // LOCAL_RANK.
  std::string spawns;  // "mp.spawn"; empty: none
  // One process that drives every GPU it sees, and knows no ranks: "nn.DataParallel", "jax"; empty:
  // none.
  std::string drives_all;
  bool takes_ranks = false;     // it names RANK or LOCAL_RANK
  bool sets_devices = false;    // os.environ["CUDA_VISIBLE_DEVICES"] = ...
  bool submits = false;         // to Slurm, by way of submitit
  bool submits_always = false;  // whatever its flags say
  bool only_nccl = false;       // init_process_group("nccl"), and nothing of gloo or of a choice
};

ScriptHabits HabitsIn(std::string_view text);

// The habits of a line's script, and of functions that it imports to start its processes, where
// their texts are at hand.
ScriptHabits HabitsOf(const LaunchLine& line, const std::map<std::string, std::string>& files);

// Whether the text of the line's Python script asks its environment for the variable, as far as the
// spelling tells: it names it, in quotes, and does not set it.
bool ReadsVariable(const LaunchLine& line, const std::map<std::string, std::string>& files,
                   std::string_view name);

// "--local_rank" or "--local-rank", where the line's Python script names that one alone: argparse
// takes no other. Empty: it names none or both.
std::string LocalRankFlagOf(const LaunchLine& line,
                            const std::map<std::string, std::string>& files);

struct OwnProcesses {
  std::string why;
  std::optional<int> count;  // of one node, where the line names it
  std::optional<int> nodes;
  bool one_process = false;                  // which drives all GPUs
  std::optional<NamedDevices> devices = {};  // that this process drives, where the line says it
  bool beside_ranks = false;  // another program of the text takes its place from its environment
  bool ray = false;           // one process asks a Ray cluster for all others
  int ray_nodes = 1;          // that it asks the cluster for
  bool one_rank = false;      // the line names the same machine of several for every node
  std::string_view nodes_flag = "--num-machines";
  std::string_view rank_flags =
      "--machine-rank $NODE_RANK --dist-url tcp://$MASTER_ADDR:$MASTER_PORT";
};

// A plain command that starts its ranks by itself: by its script's habit, or by flags that are
// known for it (detectron2's --num-gpus, --multiprocessing-distributed). Absent: it does not.
std::optional<OwnProcesses> StartsProcesses(const LaunchLine& line, const ScriptHabits& habits);

// A plain command that is told to spread one model over several GPUs (`parallelize=True` of
// lm_eval, `--tensor-parallel-size 4` of vLLM): the program starts or drives the rest itself.
std::optional<OwnProcesses> SpreadsOneModel(const LaunchLine& line, const ScriptHabits& habits,
                                            const std::map<std::string, std::string>& files);

// What makes the program submit jobs to Slurm instead of training: submitit; empty: nothing does.
std::string SubmitsItself(const LaunchLine& line, const ScriptHabits& habits);

// What looks as if it did, by its name or by its text alone.
std::optional<Finding> MaySubmit(const LaunchLine& line, const ScriptHabits& habits);

// Lightning compares trainer.devices and trainer.num_nodes with the ranks it finds, and others have
// flags like these; where the line has them they are the job's, but for those of
// device_flags.h that the job's own fields contradict. Takes them into the line.
void TakeTrainerDevices(LaunchLine& line, const LaunchLineOptions& options);

// A script that asks for the backend nccl whatever its devices are, on a device that is no GPU.
std::optional<Finding> OnlyNccl(const LaunchLine& line,
                                const std::map<std::string, std::string>& files,
                                DeviceClass device);

// A script that gives DeepSpeed its configuration by itself: its ZeRO stage where a dict in it says
// one, -1 where it does not. Absent: it does no such thing, or only where an argument asks for it,
// and the line does not.
std::optional<int> OwnZeroStage(const LaunchLine& line,
                                const std::map<std::string, std::string>& files);

// A script that sets CUDA_VISIBLE_DEVICES itself escapes the devices the job gets.
std::optional<Finding> DevicesSetIn(const LaunchLine& line,
                                    const std::map<std::string, std::string>& files);

}  // namespace launch
