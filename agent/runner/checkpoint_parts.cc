#include "agent/runner/checkpoint_parts.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "agent/runner/checkpoint_names.h"
#include "common/foreign_file.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIterationStart = "iter_";
constexpr std::string_view kModelRankStart = "mp_rank_";
constexpr const char* kTracker = "latest_checkpointed_iteration.txt";
constexpr const char* kNotFinished = ": the save did not finish";

constexpr const char* kModelOfOlmo = "model_and_optim";
constexpr const char* kLastOfOlmo = ".metadata.json";
constexpr const char* kWeightsOfNemo = "weights";
constexpr const char* kTrainerOfOlmo = "train";

bool StartsWith(const fs::path& path, std::string_view start) {
  return path.filename().native().starts_with(start);
}

// Names first: of thousands of files in a directory none is asked for what it is.
template <class IsName>
std::vector<fs::path> DirectoriesIn(CheckpointSearch& search, const fs::path& directory,
                                    const IsName& is_name) {
  std::vector<fs::path> found = search.Entries(directory);
  std::erase_if(found, [&](const fs::path& path) {
    std::error_code error;
    return !is_name(path) || !fs::is_directory(path, error);
  });
  return found;
}

// Directories with a number, and one of the last or the best, are checkpoints themselves.
bool IsPartName(const fs::path& path) {
  const std::string name = path.filename().string();
  const FileRole role = RoleNamedBy(name);
  return name.find('.') == std::string::npos && role != FileRole::kLast &&
         role != FileRole::kResult && StepNamedBy(name).counted == Counted::kNothing;
}

bool IsVisible(const fs::path& path) { return !StartsWith(path, "."); }

// The iteration whose save was done last; absent = the file names none.
std::optional<std::int64_t> TrackedIteration(const fs::path& tracker) {
  std::string text = ReadHead(tracker.string(), 64);
  text.erase(0, text.find_first_not_of(" \t\r\n"));
  std::int64_t iteration = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), iteration);
  return error == std::errc() && iteration >= 0 ? std::optional(iteration) : std::nullopt;
}

// All ranks have written before rank 0 writes the tracker.
std::string WhyBehindTracker(const fs::path& directory, std::int64_t step) {
  const auto last = TrackedIteration(directory.parent_path() / kTracker);
  if (!last || *last >= step) return {};
  return std::string(kTracker) + " names iteration " + std::to_string(*last) + kNotFinished;
}

// The ranks in "mp_rank_01_002": of the tensors, then of the pipeline, the experts or both.
std::vector<std::int64_t> ModelRankOf(const fs::path& directory) {
  std::vector<std::int64_t> ranks;
  const std::string name = directory.filename().string();
  const char* at = name.data() + kModelRankStart.size();
  const char* const end = name.data() + name.size();
  while (at < end) {
    std::int64_t rank = 0;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error != std::errc() || rank < 0 || (next != end && *next != '_')) return {};
    ranks.push_back(rank);
    at = next == end ? end : next + 1;
  }
  return ranks;
}

// Each rank up to the highest one has a directory. Not each pair of ranks has: where there are
// fewer ranks of experts than of tensors, each file is written once.
bool LacksModelRank(const std::vector<fs::path>& directories) {
  std::vector<std::set<std::int64_t>> seen;
  for (const fs::path& directory : directories) {
    const auto ranks = ModelRankOf(directory);
    seen.resize(std::max(seen.size(), ranks.size()));
    for (std::size_t i = 0; i < ranks.size(); ++i) seen[i].insert(ranks[i]);
  }
  return std::ranges::any_of(seen, [](const std::set<std::int64_t>& ranks) {
    return !std::cmp_equal(*ranks.rbegin(), ranks.size() - 1);
  });
}

std::vector<fs::path> ModelRanksIn(CheckpointSearch& search, const fs::path& directory) {
  return DirectoriesIn(search, directory, [](const fs::path& path) {
    return StartsWith(path, kModelRankStart) && !ModelRankOf(path).empty();
  });
}

// Of the model of a Megatron-LM checkpoint that has these parts.
std::size_t ModelRanksOf(const std::vector<std::string>& parts) {
  std::set<std::string> directories;
  for (const std::string& part : parts) directories.insert(part.substr(0, part.find('/')));
  return directories.size();
}

// The files in `directory` that have a form of their own.
std::string WhyFilesIncomplete(CheckpointSearch& search, const fs::path& directory) {
  for (const fs::path& path : search.Entries(directory)) {
    std::string why;
    if (path.extension() == ".safetensors") {
      why = search.WhySafetensors(path);
    } else if (IsTorchName(path)) {
      why = search.WhyTorch(path);
    }
    if (!why.empty()) return why;
  }
  return {};
}

// Of a directory that was made and not written into yet.
bool IsNamedForState(const fs::path& directory) {
  return StartsWith(directory, "model") || StartsWith(directory, "optim") ||
         StartsWith(directory, kWeightsOfNemo);
}

std::string WhyOlmoIncomplete(const fs::path& directory) {
  std::error_code error;
  for (const fs::path& part :
       {fs::path(kModelOfOlmo), fs::path(kTrainerOfOlmo) / "rank0.pt", fs::path(kLastOfOlmo)}) {
    if (!fs::exists(directory / part, error)) return part.string() + " is missing" + kNotFinished;
  }
  return {};
}

bool IsOfOlmo(const fs::path& directory) {
  std::error_code error;
  return fs::is_directory(directory / kModelOfOlmo, error) ||
         fs::exists(directory / kTrainerOfOlmo / "rank0.pt", error);
}

}  // namespace

bool HoldsDcp(CheckpointSearch& search, const fs::path& directory) {
  std::error_code error;
  if (fs::exists(directory / ".metadata", error)) return true;
  return std::ranges::any_of(search.Entries(directory),
                             [](const fs::path& path) { return path.extension() == ".distcp"; });
}

bool HoldsDcpBelow(CheckpointSearch& search, const fs::path& directory, std::int64_t step) {
  std::error_code error;
  for (const char* const name : {kWeightsOfNemo, kModelOfOlmo}) {
    const fs::path part = directory / name;
    if (fs::is_directory(part, error) && HoldsDcp(search, part)) return true;
  }
  if (step == 0) return false;
  if (IsOfOlmo(directory)) return true;
  // None is listed for this question: there may be any number of them, with any number of files.
  const auto parts = DirectoriesIn(search, directory, IsPartName);
  return std::ranges::any_of(parts, [&error](const fs::path& part) {
    return fs::exists(part / ".metadata", error) || fs::exists(part / "__0_0.distcp", error);
  });
}

bool HoldsMegatron(CheckpointSearch& search, const fs::path& directory) {
  return StartsWith(directory, kIterationStart) && !ModelRanksIn(search, directory).empty();
}

// megatron.core's writes common.pt before the shards, and metadata.json, without which it does not
// load, behind them. Source: Megatron-LM 0057095, core/dist_checkpointing/serialization.py, save.
std::string WhyDcpFilesIncomplete(CheckpointSearch& search, const fs::path& directory, int world) {
  if (auto why = search.WhyDcp(directory, world); !why.empty()) return why;
  if (auto why = WhyFilesIncomplete(search, directory); !why.empty()) return why;
  std::error_code error;
  if (fs::exists(directory / "common.pt", error) &&
      !fs::exists(directory / "metadata.json", error)) {
    return std::string("metadata.json is missing") + kNotFinished;
  }
  if (!StartsWith(directory, kIterationStart)) return {};
  return WhyBehindTracker(directory, StepNamedBy(directory.filename().string()).value);
}

// Source: OLMo-core 0672ddb, train/checkpoint.py, Checkpointer.save and dir_is_checkpoint.
std::string WhyDcpBelowIncomplete(CheckpointSearch& search, const fs::path& directory, int world) {
  std::vector<std::string> parts;
  for (const fs::path& part : DirectoriesIn(search, directory, IsVisible)) {
    const std::string name = part.filename().string();
    const bool shards = HoldsDcp(search, part);
    std::string why;
    if (shards) {
      why = WhyDcpFilesIncomplete(search, part, world);
    } else if (IsNamedForState(part) && search.Entries(part).empty()) {
      return name + " is empty" + kNotFinished;
    } else {
      why = WhyFilesIncomplete(search, part);
    }
    if (!why.empty()) return name + "/" + why;
    if (shards) parts.push_back(name);
  }
  search.NoteParts(directory.string(), std::move(parts));
  if (auto why = WhyFilesIncomplete(search, directory); !why.empty()) return why;
  return IsOfOlmo(directory) ? WhyOlmoIncomplete(directory) : std::string();
}

// Source: Megatron-LM 0032978, training/checkpointing.py, get_checkpoint_name and save_checkpoint.
std::string WhyMegatronIncomplete(CheckpointSearch& search, const fs::path& directory,
                                  std::int64_t step) {
  const std::vector<fs::path> ranks = ModelRanksIn(search, directory);
  std::vector<std::string> parts;
  for (const fs::path& rank : ranks) {
    const std::string name = rank.filename().string();
    if (auto why = WhyFilesIncomplete(search, rank); !why.empty()) return name + "/" + why;
    bool model = false;
    for (const fs::path& file : search.Entries(rank)) {
      if (!IsTorchName(file)) continue;
      model = model || StartsWith(file, "model");
      if (StartsWith(file, "layer_wise_optimizer_")) continue;  // one for each copy of the model
      parts.push_back(name + "/" + file.filename().string());
    }
    if (!model) return name + "/model_optim_rng.pt is missing" + kNotFinished;
  }
  if (LacksModelRank(ranks)) return "the mp_rank of a rank of the model is missing";
  search.NoteParts(directory.string(), std::move(parts));
  const fs::path tracker = directory.parent_path() / kTracker;
  std::error_code error;
  if (!fs::exists(tracker, error)) {
    return std::string(kTracker) + " is missing beside it" + kNotFinished;
  }
  if (!TrackedIteration(tracker)) return std::string(kTracker) + " names no iteration";
  return WhyBehindTracker(directory, step);
}

// Source: NeMo 0188707, lightning/pytorch/callbacks/model_checkpoint.py,
// format_checkpoint_unfinished_marker_path; the copy of averaged weights has that of the original.
// It is removed behind all that NeMo writes: context/ may be of the last of a training alone.
std::string WhyMarkedUnfinished(const fs::path& checkpoint) {
  std::string marker = checkpoint.string();
  for (const std::string_view end : {".ckpt", "-EMA"}) {
    if (marker.ends_with(end)) marker.resize(marker.size() - end.size());
  }
  marker += "-unfinished";
  std::error_code error;
  if (!fs::is_regular_file(marker, error)) return {};
  return fs::path(marker).filename().string() + " is beside it" + kNotFinished;
}

void AskForPartsOfOthers(const CheckpointSearch& search, int world,
                         std::vector<CheckpointFound>& all) {
  // Of each format each part, and the first that has it.
  std::map<std::string, std::map<std::string, std::string>> having;
  for (const CheckpointFound& one : all) {
    const std::vector<std::string>& parts = search.PartsOf(one.path);
    if (one.format == "megatron" && std::cmp_greater(ModelRanksOf(parts), world)) continue;
    for (const std::string& part : parts) {
      having[one.format].emplace(part, fs::path(one.path).filename().string());
    }
  }
  for (CheckpointFound& one : all) {
    const std::vector<std::string>& parts = search.PartsOf(one.path);
    if (!one.complete || parts.empty()) continue;
    const std::set<std::string> has(parts.begin(), parts.end());
    for (const auto& [part, other] : having[one.format]) {
      if (has.contains(part)) continue;
      one.complete = false;
      one.why = part + " is missing, " + other + " has it";
      break;
    }
  }
}

}  // namespace launch::agent
