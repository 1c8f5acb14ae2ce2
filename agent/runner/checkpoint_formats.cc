#include "agent/runner/checkpoint_formats.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "agent/runner/checkpoint_dcp.h"
#include "agent/runner/checkpoint_files.h"
#include "agent/runner/checkpoint_json.h"
#include "agent/runner/checkpoint_loose.h"
#include "agent/runner/checkpoint_names.h"
#include "agent/runner/checkpoint_pickle.h"
#include "common/foreign_file.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

std::int64_t ModifiedMs(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1000 + info.st_mtim.tv_nsec / 1000000;
}

bool IsTorchFile(const fs::path& path) {
  static constexpr const char* kEnds[] = {".pt", ".pth", ".ckpt", ".bin"};
  const std::string end = path.extension().string();
  return std::ranges::any_of(kEnds, [&end](const char* known) { return end == known; });
}

// One search: what it may still list and read. Behind the end of that nothing is complete, for what
// was not seen may be what is missing; a directory that is too large itself spoils no other.
class Search {
 public:
  explicit Search(const std::atomic<bool>* cancel) : cancel_(cancel) {}

  // What is looked at from here on is another checkpoint.
  void Begin() { cut_ = false; }

  // Sorted. The same directory again costs nothing.
  std::vector<fs::path> Entries(const fs::path& directory) {
    if (Ended()) return {};
    if (directory == listed_) return entries_;
    listed_.clear();
    entries_.clear();
    bool cut = false;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end && !Ended();
         at.increment(error)) {
      over_ = left_ == 0;
      cut = entries_.size() >= kMostInDirectory;
      if (over_ || cut) break;
      --left_;
      entries_.push_back(at->path());
    }
    cut_ = cut_ || cut;
    std::ranges::sort(entries_);
    if (!cut && !Ended()) listed_ = directory;
    return entries_;
  }
  std::string WhyTorch(const fs::path& path) { return Why(path, WhyTorchIncomplete); }
  std::string WhySafetensors(const fs::path& path) { return Why(path, WhySafetensorsIncomplete); }
  std::string WhyDcp(const fs::path& directory, int world) {
    const std::vector<fs::path> entries = Entries(directory);
    return Ended() ? WhyEnded() : Counted(WhyDcpIncomplete(directory, entries, world, &budget_));
  }
  bool HoldsOptimizer(const fs::path& model_states) {
    return !Ended() && OptimizerIsBeside(model_states.string(), &budget_) == false;
  }
  std::string Text(const fs::path& path) {
    std::string text;
    if (Ended()) return text;
    if (auto read = ReadAll(path.string(), kMostText)) text = std::move(*read);
    budget_.bytes -= std::min<std::uint64_t>(budget_.bytes, text.size());
    return text;
  }

  // Of how many ranks an accelerate checkpoint has the state.
  void NoteRanks(const std::string& checkpoint, std::int64_t ranks) {
    ranks_of_[checkpoint] = ranks;
  }
  std::int64_t RanksOf(const std::string& checkpoint) const {
    const auto noted = ranks_of_.find(checkpoint);
    return noted == ranks_of_.end() ? 0 : noted->second;
  }

  // Empty while all that was asked for was looked at.
  std::string WhyEnded() const {
    if (cancel_ != nullptr && *cancel_) return "the search was given up";
    return over_ || cut_ || budget_.bytes == 0 ? "there is more in this directory than is looked at"
                                               : "";
  }

 private:
  static constexpr std::size_t kMostInDirectory = 100'000;
  static constexpr std::size_t kMostEntries = 1'000'000;
  static constexpr std::size_t kMostText = std::size_t{64} << 20;

  bool Ended() const { return over_ || (cancel_ != nullptr && *cancel_); }
  std::string Why(const fs::path& path, std::string (*why)(const std::string&, ReadBudget*)) {
    if (Ended()) return WhyEnded();
    return Counted(why(path.string(), &budget_));
  }
  std::string Counted(std::string said) {
    if (budget_.bytes < kReadAtOnce) over_ = true;
    return said;
  }

  static constexpr std::uint64_t kReadAtOnce = std::uint64_t{101} << 20;  // of one file at most
  const std::atomic<bool>* cancel_;
  std::size_t left_ = kMostEntries;
  ReadBudget budget_;
  bool over_ = false;
  bool cut_ = false;  // a directory of this checkpoint was not listed to its end
  fs::path listed_;   // whose entries these are
  std::vector<fs::path> entries_;
  std::map<std::string, std::int64_t> ranks_of_;
};

bool HasEntry(Search& search, const fs::path& directory, const std::string& end) {
  return std::ranges::any_of(search.Entries(directory), [&end](const fs::path& path) {
    return path.filename().string().ends_with(end);
  });
}

bool HasStart(Search& search, const fs::path& directory, const std::string& start) {
  return std::ranges::any_of(search.Entries(directory), [&start](const fs::path& path) {
    return path.filename().string().starts_with(start);
  });
}

// DeepSpeed's own; a link of that name to the newest checkpoint is somebody else's.
bool HasLatest(const fs::path& directory) {
  std::error_code error;
  return fs::is_regular_file(directory / "latest", error);
}

// The shards an index names, each complete.
std::string WhyShardsIncomplete(Search& search, const fs::path& index) {
  const auto shards = ShardsOf(search.Text(index));
  if (!shards) return index.filename().string() + " does not parse";
  if (shards->empty()) return index.filename().string() + " names no file";
  for (const std::string& shard : *shards) {
    if (shard.find('/') != std::string::npos) return index.filename().string() + " names a path";
    const fs::path path = index.parent_path() / shard;
    std::error_code error;
    if (!fs::exists(path, error)) return "weights " + shard + " are missing";
    const std::string why =
        path.extension() == ".safetensors" ? search.WhySafetensors(path) : search.WhyTorch(path);
    if (!why.empty()) return why;
  }
  return {};
}

// What trainers keep beside the weights.
bool IsState(const std::string& name) {
  static constexpr const char* kStarts[] = {"optimizer", "scheduler",      "training_args",
                                            "rng_state", "random_states_", "sampler",
                                            "scaler"};
  return std::ranges::any_of(kStarts, [&](const char* start) { return name.starts_with(start); });
}

// Files of weights directly in a Hugging Face or accelerate directory.
std::string WhyWeightsIncomplete(Search& search, const fs::path& directory) {
  bool weights = false;
  for (const fs::path& path : search.Entries(directory)) {
    const std::string name = path.filename().string();
    if (name.ends_with(".index.json")) return WhyShardsIncomplete(search, path);
    if (path.extension() != ".safetensors") continue;
    weights = true;
    if (auto why = search.WhySafetensors(path); !why.empty()) return why;
  }
  for (const fs::path& path : search.Entries(directory)) {
    weights = weights || (IsTorchFile(path) && !IsState(path.filename().string()));
  }
  return weights ? std::string() : "no weights";
}

// What `latest` names; empty = nothing.
std::string TagOf(const fs::path& directory) {
  std::istringstream words(ReadHead((directory / "latest").string(), 4096));
  std::string tag;
  words >> tag;
  return tag.find("..") == std::string::npos ? tag : std::string();
}

// Every rank of `world` writes its part of the optimizer, some the model too. Without ZeRO the
// optimizer stands beside the model in the same file.
std::string WhyDeepSpeedIncomplete(Search& search, const fs::path& directory, int world) {
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

bool IsSharded(Search& search, const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  const std::string name = path.filename().string();
  return name.starts_with("pytorch_model_fsdp") || name.starts_with("optimizer_") ||
         HasEntry(search, path, ".distcp");
}

// All that the trainers of Hugging Face put into one directory: files of weights, what FSDP and
// DeepSpeed keep in shards, and the state beside them.
std::string WhyPartsIncomplete(Search& search, const fs::path& directory, int world) {
  bool sharded = false;
  for (const fs::path& path : search.Entries(directory)) {
    const std::string name = path.filename().string();
    if (IsSharded(search, path)) {
      if (auto why = search.WhyDcp(path, world); !why.empty()) return name + "/" + why;
      sharded = sharded || !IsState(name);
    } else if (IsTorchFile(path) && name != "training_args.bin") {
      if (auto why = search.WhyTorch(path); !why.empty()) return why;
    }
  }
  if (HasLatest(directory)) {
    if (auto why = WhyDeepSpeedIncomplete(search, directory, world); !why.empty()) return why;
    sharded = true;
  }
  const std::string why = WhyWeightsIncomplete(search, directory);
  return sharded && why == "no weights" ? std::string() : why;
}

void ReadHuggingFace(Search& search, const fs::path& directory, int world, CheckpointFound& found) {
  found.format = "hf";
  const fs::path state = directory / "trainer_state.json";
  std::error_code error;
  if (!fs::exists(state, error)) {
    found.why = "trainer_state.json is missing";
    return;
  }
  const auto step = GlobalStepOf(search.Text(state));
  if (!step) {
    found.why = "trainer_state.json does not parse";
    return;
  }
  if (*step != found.step) {
    found.why = "trainer_state.json is of step " + std::to_string(*step);
    return;
  }
  found.why = WhyPartsIncomplete(search, directory, world);
}

// One random_states_R.pkl a rank: the others write theirs while rank 0 still writes the optimizer.
std::string WhyRandomStatesIncomplete(Search& search, const fs::path& directory) {
  constexpr std::string_view kStart = "random_states_";
  std::set<std::int64_t> ranks;
  for (const fs::path& path : search.Entries(directory)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kStart)) continue;
    std::error_code error;
    if (fs::file_size(path, error) == 0 || error) return name + " is empty";
    ranks.insert(std::strtoll(name.c_str() + kStart.size(), nullptr, 10));
  }
  if (ranks.empty()) return "no random_states_R.pkl";
  const auto count = static_cast<std::int64_t>(ranks.size());
  search.NoteRanks(directory.string(), count);
  return *ranks.rbegin() + 1 == count ? std::string() : "random_states_R.pkl of a rank is missing";
}

void ReadAccelerate(Search& search, const fs::path& directory, int world, CheckpointFound& found) {
  found.format = "accelerate";
  found.why = WhyPartsIncomplete(search, directory, world);
  if (found.why.empty()) found.why = WhyRandomStatesIncomplete(search, directory);
}

// Weights in a directory of a step, as a script of the user's own writes them: what belongs to it
// only the user knows.
bool HoldsWeights(Search& search, const fs::path& directory) {
  return std::ranges::any_of(search.Entries(directory), [](const fs::path& path) {
    return IsTorchFile(path) || path.extension() == ".safetensors";
  });
}

// Absent = this directory is not a checkpoint.
std::optional<CheckpointFound> ReadDirectory(Search& search, const fs::path& path,
                                             const CheckpointRules& rules) {
  search.Begin();
  CheckpointFound found{.path = path.string()};
  const std::string name = path.filename().string();
  found.step = StepNamedBy(name).value;
  found.modified = WallMs(ModifiedMs(path));
  std::error_code error;
  if (!rules.marker.empty()) {
    if (found.step == 0 && !fs::exists(path / rules.marker, error)) return std::nullopt;
    found.format = "marker";
    if (!fs::exists(path / rules.marker, error)) found.why = rules.marker + " is missing";
  } else if (name.starts_with("checkpoint-")) {
    ReadHuggingFace(search, path, rules.world, found);
  } else if (name.starts_with("checkpoint_") || HasStart(search, path, "random_states_")) {
    ReadAccelerate(search, path, rules.world, found);
  } else if (HasLatest(path)) {
    found.format = "deepspeed";
    found.modified = WallMs(ModifiedMs(path / "latest"));  // logs may be written beside it
    found.why = WhyDeepSpeedIncomplete(search, path, rules.world);
    if (const std::int64_t step = StepNamedBy(TagOf(path)).value; step > 0) found.step = step;
  } else if (HasEntry(search, path, ".distcp")) {
    found.format = "dcp";
    if (const auto at = ModifiedMs(path / ".metadata"); at != 0) found.modified = WallMs(at);
    found.why = search.WhyDcp(path, rules.world);
  } else if (HasEntry(search, path, "_model_states.pt")) {
    found.format = "deepspeed";
    found.why = "no file `latest` beside it names it: the save did not finish";
  } else if (found.step > 0 && HoldsWeights(search, path)) {
    found.format = "torch";
    found.why =
        "what makes this directory complete is not known: name a file that is written last "
        "as checkpoint.complete_marker";
  } else {
    return std::nullopt;
  }
  if (found.why.empty()) found.why = search.WhyEnded();
  found.complete = found.why.empty();
  return found;
}

// Where others of the same trainer have the state to resume from, one without it was cut off.
void AskForStateOfOthers(std::vector<CheckpointFound>& all) {
  static constexpr const char* kNames[] = {"optimizer.pt", "optimizer.bin", "optimizer_0",
                                           "scheduler.pt", "scheduler.bin"};
  std::error_code error;
  for (const char* const name : kNames) {
    std::map<std::string, std::string> having;  // format -> the first that has it
    std::vector<CheckpointFound*> lacking;
    for (CheckpointFound& one : all) {
      if (one.format != "hf" && one.format != "accelerate") continue;
      if (fs::exists(fs::path(one.path) / name, error)) {
        having.emplace(one.format, fs::path(one.path).filename().string());
      } else if (one.complete) {
        lacking.push_back(&one);
      }
    }
    for (CheckpointFound* const one : lacking) {
      const auto other = having.find(one->format);
      if (other == having.end()) continue;
      one->complete = false;
      one->why = std::string(name) + " is missing, " + other->second + " has it";
    }
  }
}

// The newest of fewer ranks than the job and the save before it have: the last ones had not written
// theirs. Only the newest can be cut off, and where the one before is as short, the job had fewer
// ranks then and goes on from what it has.
void AskForRanksOfOlder(const Search& search, int world, std::vector<CheckpointFound>& all) {
  const auto newest = std::ranges::max_element(all, {}, &CheckpointFound::step);
  if (newest == all.end() || !newest->complete) return;
  const std::int64_t ranks = search.RanksOf(newest->path);
  if (ranks == 0 || ranks >= world) return;
  const CheckpointFound* before = nullptr;
  for (const CheckpointFound& one : all) {
    if (one.step >= newest->step || search.RanksOf(one.path) == 0) continue;
    if (before == nullptr || one.step > before->step) before = &one;
  }
  if (before == nullptr || search.RanksOf(before->path) <= ranks) return;
  newest->complete = false;
  newest->why = "random_states_R.pkl of " + std::to_string(ranks) + " ranks, " +
                fs::path(before->path).filename().string() + " has " +
                std::to_string(search.RanksOf(before->path));
}

}  // namespace

std::vector<CheckpointFound> ReadCheckpoints(const std::string& directory,
                                             const CheckpointRules& rules,
                                             const std::atomic<bool>* cancel) {
  std::vector<CheckpointFound> all;
  std::error_code error;
  Search search(cancel);
  const fs::path top(directory);
  if (!fs::is_directory(top, error)) return all;
  const bool itself = rules.marker.empty() && (HasLatest(top) || HasEntry(search, top, ".distcp") ||
                                               HasStart(search, top, "random_states_"));
  if (itself) {
    if (auto found = ReadDirectory(search, top, rules)) all.push_back(std::move(*found));
    return all;
  }
  std::vector<fs::path> loose;
  for (const fs::path& path : search.Entries(top)) {
    if (fs::is_directory(path, error)) {
      const bool alias =
          fs::is_symlink(path, error) && StepNamedBy(path.filename().string()).value == 0;
      if (alias) continue;  // "latest": to one that is here under its own name
      if (auto found = ReadDirectory(search, path, rules)) all.push_back(std::move(*found));
    } else if (rules.marker.empty() && IsTorchFile(path) && !IsState(path.filename().string())) {
      loose.push_back(path);
    }
  }
  AskForStateOfOthers(all);
  AskForRanksOfOlder(search, rules.world, all);
  // What a trainer with directories of its own leaves beside them is its result.
  const bool trainers = std::ranges::any_of(all, [](const CheckpointFound& one) {
    return one.format == "hf" || one.format == "accelerate";
  });
  if (trainers) return all;
  std::vector<LooseFile> files;
  for (const fs::path& path : loose) {
    search.Begin();
    CheckpointFound found{.path = path.string()};
    found.format = path.extension() == ".ckpt" ? "lightning" : "torch";
    found.why = search.WhyTorch(path);
    if (found.why.empty()) found.why = search.WhyEnded();
    found.complete = found.why.empty();
    found.modified = WallMs(ModifiedMs(path));
    const auto bytes = fs::file_size(path, error);
    files.push_back({.found = std::move(found), .bytes = error ? 0 : bytes});
  }
  std::ranges::move(ChooseLoose(std::move(files)), std::back_inserter(all));
  return all;
}

}  // namespace launch::agent
