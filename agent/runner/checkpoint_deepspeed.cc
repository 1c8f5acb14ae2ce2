#include "agent/runner/checkpoint_deepspeed.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <sstream>
#include <vector>

#include "agent/runner/checkpoint_names.h"
#include "common/foreign_file.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

// With ZeRO it is copied beside the tags. Source: deepspeed 0.19.8, runtime/engine.py,
// _copy_recovery_script.
constexpr const char* kRecoveryScript = "zero_to_fp32.py";

// Whether DeepSpeed wrote into `directory`, whatever became of the tag that `latest` names.
bool HoldsTags(CheckpointSearch& search, const fs::path& directory) {
  std::error_code error;
  if (fs::exists(directory / kRecoveryScript, error)) return true;
  return std::ranges::any_of(search.Entries(directory), [&](const fs::path& path) {
    return fs::is_directory(path, error) && HoldsDeepSpeedStates(search, path);
  });
}

}  // namespace

std::string TagOf(const fs::path& directory) {
  std::istringstream words(ReadHead((directory / "latest").string(), 4096));
  std::string tag;
  words >> tag;
  return tag.find("..") == std::string::npos ? tag : std::string();
}

bool NamesTag(const fs::path& directory) {
  std::error_code error;
  return fs::is_regular_file(directory / "latest", error) && !IsTorchName(TagOf(directory));
}

bool HoldsDeepSpeedStates(CheckpointSearch& search, const fs::path& directory) {
  return std::ranges::any_of(search.Entries(directory), [](const fs::path& path) {
    const std::string name = path.filename().string();
    return name.ends_with("model_states.pt") || name.ends_with("optim_states.pt");
  });
}

Latest LatestOf(CheckpointSearch& search, const fs::path& directory) {
  if (!NamesTag(directory)) return Latest::kNone;
  if (const std::string tag = TagOf(directory); !tag.empty()) {
    if (HoldsDeepSpeedStates(search, directory / tag)) return Latest::kTag;
    if (!search.Entries(directory / tag).empty()) return Latest::kOther;
  }
  return HoldsTags(search, directory) ? Latest::kLostTag : Latest::kLost;
}

// Every rank of `world` writes its part of the optimizer, some the model too. Without ZeRO the
// optimizer stands beside the model in the same file.
std::string WhyDeepSpeedIncomplete(CheckpointSearch& search, const fs::path& directory, int world) {
  const std::string tag = TagOf(directory);
  if (tag.empty()) return "`latest` names no tag";
  std::vector<fs::path> models;
  int optimizers = 0;
  std::set<std::int64_t> data_ranks;
  for (const fs::path& path : search.Entries(directory / tag)) {
    const std::string name = path.filename().string();
    const bool model = name.ends_with("_model_states.pt");
    const bool optimizer = name.ends_with("_optim_states.pt");
    if (!model && !optimizer) continue;
    if (auto why = search.WhyTorch(path); !why.empty()) return tag + "/" + why;
    if (model) models.push_back(path);
    optimizers += optimizer ? 1 : 0;
    const std::size_t rank = name.find("zero_pp_rank_");
    if (optimizer && rank != std::string::npos) {
      data_ranks.insert(std::strtoll(name.c_str() + rank + 13, nullptr, 10));
    }
  }
  if (models.empty()) return tag + " has no model states";
  if (optimizers == 0) {
    const bool held = std::ranges::all_of(
        models, [&search](const fs::path& path) { return search.HoldsOptimizer(path); });
    return held ? std::string() : tag + " has no optimizer states";
  }
  const auto ranks = static_cast<std::int64_t>(data_ranks.size());
  if (ranks == 0) return {};
  if (*data_ranks.rbegin() + 1 != ranks) return tag + " lacks the optimizer states of a rank";
  if (optimizers >= world) return {};
  return tag + " has the optimizer states of " + std::to_string(optimizers) +
         " ranks, the job has " + std::to_string(world);
}

}  // namespace launch::agent
