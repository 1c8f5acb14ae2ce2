#include "planner/line/own_launchers.h"

#include <algorithm>
#include <array>
#include <string>

#include "planner/line/launcher_words.h"
#include "planner/line/python_words.h"

namespace launch {
namespace {

constexpr std::array<OwnLauncher, 27> kOwnLaunchers = {{
    {.program = "llamafactory-cli"},
    {.program = "axolotl", .procs = "num_processes", .total = true, .launcher_behind = true},
    {.program = "composer",
     .procs = "n",
     .world = "world_size",
     .node_rank = "node_rank",
     .place_from_env = true},
    {.program = "colossalai"},
    {.program = "fabric", .procs = "devices", .node_rank = "node_rank"},
    {.program = "lightning", .procs = "devices", .node_rank = "node_rank", .module = true},
    {.program = "swift"},
    {.program = "megatron"},
    {.program = "trl", .procs = "num_processes", .total = true},
    {.program = "tune"},
    {.program = "xtuner"},
    {.program = "nnUNetv2_train", .procs = "num_gpus", .sign = "-num_gpus"},
    {.program = "yolo", .sign = "device="},
    {.program = "torchx", .procs = "j"},
    {.program = "ray", .sign = "start", .returns = true},
    {.program = "fairseq-hydra-train",
     .total = true,
     .sign = "distributed_training.distributed_world_size="},
    {.program = "paddle.distributed.launch", .procs = "gpus", .device_list = true, .module = true},
    {.program = "automodel"},
    {.program = "simpletuner"},
    {.program = "msrun",
     .procs = "local_worker_num",
     .world = "worker_num",
     .node_rank = "node_rank"},
    {.program = "ns-train", .procs = "machine.num_devices", .sign = "--machine.num-devices"},
    {.program = "rl", .sign = "@"},
    {.program = "trainer.distribute", .module = true},
    {.program = "dora", .sign = "-d"},
    {.program = "areal.launcher.local", .module = true},
    {.program = "areal.launcher.ray", .module = true},
    {.program = "areal.launcher.slurm", .module = true},
}};

}  // namespace

const OwnLauncher* OwnLauncherOf(std::string_view program) {
  const auto* const found =
      std::find_if(kOwnLaunchers.begin(), kOwnLaunchers.end(),
                   [&](const OwnLauncher& one) { return one.program == program; });
  return found == kOwnLaunchers.end() ? nullptr : found;
}

bool StartsRanksItself(std::string_view program) { return OwnLauncherOf(program) != nullptr; }

std::optional<OwnLauncherPlace> OwnLauncherAt(const std::vector<ShellWord>& words, std::size_t at) {
  OwnLauncherPlace place{OwnLauncherOf(ProgramOf(words[at])), at + 1};
  if (IsPython(words[at].value)) {
    const auto program = PythonProgramOf(words, at);
    if (!program || program->runs != PythonRuns::kModule) return std::nullopt;
    place = {OwnLauncherOf(program->name), program->behind};
    if (place.own != nullptr && !place.own->module) return std::nullopt;
  }
  if (place.own == nullptr || place.behind >= words.size()) return std::nullopt;
  const std::string_view sign = place.own->sign;
  const auto behind = words.begin() + static_cast<std::ptrdiff_t>(place.behind);
  const auto last = behind + std::min<std::ptrdiff_t>(256, words.end() - behind);
  const bool several = sign.empty() || std::any_of(behind, last, [&](const ShellWord& word) {
                         return word.value.starts_with(sign) &&
                                (sign != "device=" || word.value.find(',') != std::string::npos) &&
                                word.value != std::string(sign) + "1";
                       });
  return several ? std::optional(place) : std::nullopt;
}

bool IsServer(const std::vector<ShellWord>& words) {
  constexpr std::array<std::string_view, 4> kServes = {"vllm-serve", "rollout", "deploy", "serve"};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (OwnLauncherOf(ProgramOf(words[i])) != nullptr)
      return std::find(kServes.begin(), kServes.end(), words[i + 1].value) != kServes.end();
  }
  return false;
}

}  // namespace launch
