#include "planner/line/own_launchers.h"

#include <algorithm>
#include <array>
#include <string>

#include "planner/line/launcher_words.h"

namespace launch {
namespace {

constexpr std::array<OwnLauncher, 16> kOwnLaunchers = {{
    {"llamafactory-cli", ""},
    {"axolotl", "num_processes", true},
    {"composer", "n"},
    {"colossalai", ""},
    {"fabric", "devices"},
    {"lightning", "devices"},
    {"swift", ""},
    {"megatron", ""},
    {"trl", "num_processes", true},
    {"tune", ""},
    {"xtuner", ""},
    {"nnUNetv2_train", "num_gpus", false, "-num_gpus"},
    {"yolo", "", false, "device="},
    {"torchx", "j"},
    {"ray", "", false, "start"},
    {"fairseq-hydra-train", "", true, "distributed_training.distributed_world_size="},
}};

}  // namespace

const OwnLauncher* OwnLauncherOf(std::string_view program) {
  const auto* const found =
      std::find_if(kOwnLaunchers.begin(), kOwnLaunchers.end(),
                   [&](const OwnLauncher& one) { return one.program == program; });
  return found == kOwnLaunchers.end() ? nullptr : found;
}

bool StartsRanksItself(std::string_view program) { return OwnLauncherOf(program) != nullptr; }

bool StartsRanksItself(const std::vector<ShellWord>& words, std::size_t at) {
  const OwnLauncher* own = OwnLauncherOf(ProgramOf(words[at]));
  if (own == nullptr || at + 1 >= words.size()) return false;
  const auto behind = words.begin() + static_cast<std::ptrdiff_t>(at) + 1;
  const auto last = behind + std::min<std::ptrdiff_t>(256, words.end() - behind);
  return own->sign.empty() || std::any_of(behind, last, [&](const ShellWord& word) {
           return word.value.starts_with(own->sign) &&
                  (own->sign != "device=" || word.value.find(',') != std::string::npos) &&
                  word.value != std::string(own->sign) + "1";
         });
}

}  // namespace launch
