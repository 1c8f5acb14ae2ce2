#include "agent/runner/checkpoint_formats.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
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

#include "agent/runner/checkpoint_deepspeed.h"
#include "agent/runner/checkpoint_json.h"
#include "agent/runner/checkpoint_loose.h"
#include "agent/runner/checkpoint_names.h"
#include "agent/runner/checkpoint_parts.h"
#include "agent/runner/checkpoint_search.h"
#include "common/foreign_file.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

std::int64_t ModifiedMs(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1000 + info.st_mtim.tv_nsec / 1000000;
}

using Search = CheckpointSearch;

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
                                            "scaler",    "dl_state_dict"};
  return std::ranges::any_of(kStarts, [&](const char* start) { return name.starts_with(start); });
}

// "model-00001-of-00003.safetensors"
bool IsShard(const std::string& name) {
  const std::size_t of = name.find("-of-");
  return of != std::string::npos && of > 0 &&
         std::isdigit(static_cast<unsigned char>(name[of - 1]));
}

constexpr const char* kNoWeights = "no weights";

// Files of weights directly in a Hugging Face or accelerate directory.
std::string WhyWeightsIncomplete(Search& search, const fs::path& directory) {
  bool weights = false;
  std::string shard;
  for (const fs::path& path : search.Entries(directory)) {
    const std::string name = path.filename().string();
    std::string why;
    if (name.ends_with(".index.json")) {
      why = WhyShardsIncomplete(search, path);
    } else if (path.extension() == ".safetensors") {
      why = search.WhySafetensors(path);
    } else if (!IsTorchName(path) || IsState(name)) {
      continue;
    }
    if (!why.empty()) return why;
    weights = true;
    if (IsShard(name)) shard = name;
  }
  if (!shard.empty() && !HasEntry(search, directory, ".index.json")) {
    return shard + " is one of several, and the index that names them is missing";
  }
  return weights ? std::string() : kNoWeights;
}

// Models that save_pretrained wrote into directories of their own, as unet/ and unet_ema/ of
// diffusers or an adapter of PEFT that has a name. What DeepSpeed keeps in such a one is none.
std::string WhyModelsBelowIncomplete(Search& search, const fs::path& directory) {
  std::string all = kNoWeights;
  for (const fs::path& path : search.Entries(directory)) {
    std::error_code error;
    if (!fs::is_directory(path, error) || HasEntry(search, path, "_states.pt")) continue;
    std::string why = WhyWeightsIncomplete(search, path);
    if (why == kNoWeights) continue;
    for (const fs::path& file : search.Entries(path)) {
      if (why.empty() && IsTorchName(file)) why = search.WhyTorch(file);
    }
    if (!why.empty()) return path.filename().string() + "/" + why;
    all.clear();
  }
  return all;
}

bool IsSharded(Search& search, const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  const std::string name = path.filename().string();
  return name.starts_with("pytorch_model_fsdp") || name.starts_with("optimizer_") ||
         HoldsDcp(search, path);
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
    } else if (IsTorchName(path) && name != "training_args.bin") {
      if (auto why = search.WhyTorch(path); !why.empty()) return why;
    }
  }
  if (NamesTag(directory)) {
    if (auto why = WhyDeepSpeedIncomplete(search, directory, world); !why.empty()) return why;
    sharded = true;
  }
  const std::string why = WhyWeightsIncomplete(search, directory);
  if (why != kNoWeights) return why;
  return sharded ? std::string() : WhyModelsBelowIncomplete(search, directory);
}

// Weights alone: the first that either of both writes.
bool MayBeAccelerates(Search& search, const fs::path& directory) {
  const bool told = std::ranges::any_of(search.Entries(directory), [](const fs::path& path) {
    const std::string name = path.filename().string();
    return IsState(name) || name.ends_with("config.json");
  });
  return !told && (WhyWeightsIncomplete(search, directory) != kNoWeights ||
                   WhyModelsBelowIncomplete(search, directory) != kNoWeights);
}

void ReadHuggingFace(Search& search, const fs::path& directory, int world, CheckpointFound& found) {
  found.format = "hf";
  const fs::path state = directory / "trainer_state.json";
  std::error_code error;
  if (!fs::exists(state, error)) {
    found.why = MayBeAccelerates(search, directory)
                    ? "neither trainer_state.json nor accelerate's random_states_R.pkl is there"
                    : "trainer_state.json is missing";
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
// What the script registered comes behind them.
std::string WhyRandomStatesIncomplete(Search& search, const fs::path& directory) {
  constexpr std::string_view kStart = "random_states_";
  std::set<std::int64_t> ranks;
  for (const fs::path& path : search.Entries(directory)) {
    if (path.extension() != ".pkl") continue;
    const std::string name = path.filename().string();
    const std::string head = ReadHead(path.string(), 2);
    if (head.empty()) return name + " is empty";
    if (head == "PK") {
      if (auto why = search.WhyTorch(path); !why.empty()) return why;
    }
    if (name.starts_with(kStart)) {
      ranks.insert(std::strtoll(name.c_str() + kStart.size(), nullptr, 10));
    }
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

void ReadDeepSpeed(Search& search, const fs::path& directory, int world, CheckpointFound& found) {
  found.format = "deepspeed";
  if (!NamesTag(directory)) {
    found.why = "no file `latest` beside it names it: the save did not finish";
    return;
  }
  found.modified = WallMs(ModifiedMs(directory / "latest"));  // logs may be written beside it
  found.why = WhyDeepSpeedIncomplete(search, directory, world);
  if (const auto step = StepNamedBy(TagOf(directory)).value; step > 0) found.step = step;
}

// Lightning's FSDP writes it behind the shards, into a directory that its trainer calls *.ckpt.
// Source: lightning_fabric 2.6.6, strategies/fsdp.py, FSDPStrategy.save_checkpoint.
constexpr const char* kMetaOfLightning = "meta.pt";

void ReadDcp(Search& search, const fs::path& directory, int world, CheckpointFound& found) {
  found.format = "dcp";
  if (!HoldsDcp(search, directory)) {
    found.why = WhyDcpBelowIncomplete(search, directory, world);
    return;
  }
  if (const auto at = ModifiedMs(directory / ".metadata"); at != 0) found.modified = WallMs(at);
  found.why = WhyDcpFilesIncomplete(search, directory, world);
  std::error_code error;
  if (found.why.empty() && directory.extension() == ".ckpt" &&
      !fs::exists(directory / kMetaOfLightning, error)) {
    found.why = std::string(kMetaOfLightning) + " is missing: the save did not finish";
  }
}

// Weights in a directory of a step, as a script of the user's own writes them: what belongs to it
// only the user knows.
bool HoldsWeights(Search& search, const fs::path& directory) {
  return std::ranges::any_of(search.Entries(directory), [](const fs::path& path) {
    return IsTorchName(path) || path.extension() == ".safetensors";
  });
}

// What accelerate calls DeepSpeed's tag: random_states_R.pkl of each rank come behind it.
// Source: accelerate 1.15, Accelerator.save_state.
bool IsTagOfAccelerate(const std::string& tag) { return tag.starts_with("pytorch_model"); }

bool HoldsAccelerate(Search& search, const fs::path& directory) {
  return HasStart(search, directory, "random_states_") ||
         (NamesTag(directory) && IsTagOfAccelerate(TagOf(directory)));
}

// Where the random states, which come last, are not there yet: accelerate calls so what the trainer
// of Hugging Face calls *.pt, or writes behind training_args.bin.
// Source: accelerate 1.15, checkpointing.py, save_accelerator_state.
bool BeginsAccelerate(Search& search, const fs::path& directory) {
  return HasStart(search, directory, "custom_checkpoint_") ||
         std::ranges::any_of(search.Entries(directory), [](const fs::path& path) {
           return path.extension() == ".bin" && IsState(path.filename().string());
         });
}

// Its trainer writes training_args.bin with the weights, before anything of DeepSpeed's, and
// trainer_state.json last. Source: transformers 4.36 and 5.23, Trainer._save_checkpoint.
bool HoldsHuggingFace(const fs::path& directory) {
  std::error_code error;
  return fs::exists(directory / "trainer_state.json", error) ||
         (directory.filename().string().starts_with("checkpoint-") &&
          fs::exists(directory / "training_args.bin", error));
}

// What the trainers of Hugging Face wrote, whatever they left to others to write there.
std::string_view TrainerOf(Search& search, const fs::path& directory, std::int64_t step) {
  const bool hf_name = directory.filename().string().starts_with("checkpoint-");
  const bool hf = (hf_name || step > 0) && HoldsHuggingFace(directory);
  // The scripts of diffusers save with accelerate into checkpoint-N.
  if (!(hf_name && hf) && HoldsAccelerate(search, directory)) return "accelerate";
  return hf ? "hf" : "";
}

// Whether there are weights in `directory` or in one directly below it.
bool HoldsWeightsSomewhere(Search& search, const fs::path& directory) {
  if (HoldsWeights(search, directory)) return true;
  return std::ranges::any_of(search.Entries(directory), [&search](const fs::path& path) {
    std::error_code error;
    return fs::is_directory(path, error) && (IsSharded(search, path) || HoldsWeights(search, path));
  });
}

// The trainer whose name a directory has; empty also where it is one of plots or logs, which has
// neither a number nor weights.
std::string_view NamedAfter(Search& search, const fs::path& directory) {
  const std::string name = directory.filename().string();
  const bool hf = name.starts_with("checkpoint-");
  if (!hf && !name.starts_with("checkpoint_")) return "";
  if (StepNamedBy(name).counted == Counted::kNothing && !HoldsWeightsSomewhere(search, directory)) {
    return "";
  }
  return hf && !BeginsAccelerate(search, directory) ? "hf" : "accelerate";
}

// By what is in a directory of no trainer; by its name only where that says nothing yet.
std::string_view ContentOf(Search& search, const fs::path& directory, std::int64_t step) {
  if (HoldsDcp(search, directory)) return "dcp";
  if (HoldsMegatron(search, directory)) return "megatron";
  if (HoldsDcpBelow(search, directory, step)) return "dcp";
  if (HasEntry(search, directory, "_model_states.pt")) return "deepspeed";
  if (const auto named = NamedAfter(search, directory); !named.empty()) return named;
  return step > 0 && HoldsWeights(search, directory) ? "torch" : "";
}

std::int64_t StepOf(const fs::path& directory) {
  return StepNamedBy(directory.filename().string()).value;
}

// Whether there are checkpoints in `directory` that no tag of DeepSpeed is.
bool HoldsOthers(Search& search, const fs::path& directory) {
  if (HoldsDcp(search, directory)) return true;
  return std::ranges::any_of(search.Entries(directory), [&search](const fs::path& path) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      return IsTorchName(path) && !IsState(path.filename().string());
    }
    if (fs::is_symlink(path, error)) return false;
    return !TrainerOf(search, path, StepOf(path)).empty() ||
           !ContentOf(search, path, StepOf(path)).empty() || LatestOf(search, path) == Latest::kTag;
  });
}

// Whether `directory` is DeepSpeed's. Where the tag that `latest` names is lost, no older one in
// its place is taken: `latest` is what its trainer reads.
bool IsOfDeepSpeed(Search& search, const fs::path& directory) {
  switch (LatestOf(search, directory)) {
    case Latest::kTag:
    case Latest::kLostTag:
      return true;
    case Latest::kLost:
      return !TrainerOf(search, directory, StepOf(directory)).empty() ||
             !HoldsOthers(search, directory);
    case Latest::kNone:
    case Latest::kOther:
      break;
  }
  return false;
}

// Empty = no checkpoint.
std::string_view FormatOf(Search& search, const fs::path& directory, std::int64_t step) {
  if (const auto trainer = TrainerOf(search, directory, step); !trainer.empty()) return trainer;
  if (IsOfDeepSpeed(search, directory)) return "deepspeed";
  return ContentOf(search, directory, step);
}

// Whether `directory` is what the user calls checkpoint.format `asked`: one of DeepSpeed may be
// that of another trainer too, all of whose files belong to it then.
bool IsAskedFor(Search& search, const fs::path& directory, std::string_view asked,
                std::string_view format) {
  const auto starts = [&](const char* start) {
    return directory.filename().string().starts_with(start);
  };
  if (asked.empty() || asked == format) return true;
  if (asked == "deepspeed") {
    return NamesTag(directory) || HasEntry(search, directory, "_model_states.pt");
  }
  if (asked == "dcp") {
    return HoldsDcp(search, directory) ||
           std::ranges::any_of(search.Entries(directory),
                               [&](const fs::path& path) { return IsSharded(search, path); });
  }
  if (asked == "megatron") return format == "dcp" && starts("iter_");
  if (asked == "lightning") return directory.extension() == ".ckpt";
  if (asked == "hf") return starts("checkpoint-") || HoldsHuggingFace(directory);
  return asked == "accelerate" && (starts("checkpoint_") || HoldsAccelerate(search, directory));
}

void ReadAs(Search& search, std::string_view format, const fs::path& directory, int world,
            CheckpointFound& found) {
  if (format == "hf") return ReadHuggingFace(search, directory, world, found);
  if (format == "accelerate") return ReadAccelerate(search, directory, world, found);
  if (format == "deepspeed") return ReadDeepSpeed(search, directory, world, found);
  if (format == "dcp") return ReadDcp(search, directory, world, found);
  if (format == "megatron") {
    found.format = "megatron";
    found.why = WhyMegatronIncomplete(search, directory, found.step);
    return;
  }
  found.format = "torch";
  found.why =
      "what makes this directory complete is not known: name a file that is written last "
      "as checkpoint.complete_marker";
}

// Absent = this directory is not a checkpoint.
std::optional<CheckpointFound> ReadDirectory(Search& search, const fs::path& path,
                                             const CheckpointRules& rules) {
  search.Begin();
  CheckpointFound found{.path = path.string()};
  found.step = StepNamedBy(path.filename().string()).value;
  found.modified = WallMs(ModifiedMs(path));
  std::error_code error;
  if (!rules.marker.empty()) {
    if (found.step == 0 && !fs::exists(path / rules.marker, error)) return std::nullopt;
    found.format = "marker";
    if (!fs::exists(path / rules.marker, error)) found.why = rules.marker + " is missing";
  } else {
    std::string_view format = FormatOf(search, path, found.step);
    if (format.empty() || !IsAskedFor(search, path, rules.format, format)) return std::nullopt;
    if (rules.format == "hf" || rules.format == "accelerate") format = rules.format;
    ReadAs(search, format, path, rules.world, found);
    if (found.why.empty()) found.why = WhyMarkedUnfinished(path);
  }
  if (found.why.empty()) found.why = search.WhyEnded();
  found.complete = found.why.empty();
  return found;
}

// One part of the state, under each name that one has it by.
struct StatePart {
  std::vector<std::string_view> names;
  bool optimizer = false;
};

// Empty = `directory` has it under none of the names. A tag of DeepSpeed has the optimizer.
std::string_view NameOfPart(const StatePart& part, const fs::path& directory) {
  std::error_code error;
  for (const std::string_view name : part.names) {
    if (fs::exists(directory / name, error)) return name;
  }
  return part.optimizer && NamesTag(directory) ? "latest" : "";
}

// Those that are compared with each other. DeepSpeed may have the scheduler in its tag, which does
// not tell whether it has.
std::string GroupOf(const CheckpointFound& one, const StatePart& part) {
  return !part.optimizer && NamesTag(one.path) ? one.format + " of DeepSpeed" : one.format;
}

// Where others of the same trainer have the state to resume from, one without it was cut off. A job
// whose plan changed goes on from another layout: FSDP's optimizer is optimizer.bin or
// optimizer_0/.
void AskForStateOfOthers(std::vector<CheckpointFound>& all) {
  static const std::vector<StatePart> kParts = {
      {.names = {"optimizer.pt", "optimizer.bin", "optimizer_0"}, .optimizer = true},
      {.names = {"scheduler.pt", "scheduler.bin"}},
      {.names = {"custom_checkpoint_0.pkl"}},
      {.names = {kMetaOfLightning}}};
  for (const StatePart& part : kParts) {
    std::map<std::string, std::pair<std::string, std::string>> having;  // name, the first with it
    std::vector<CheckpointFound*> lacking;
    for (CheckpointFound& one : all) {
      const bool trainers = one.format == "hf" || one.format == "accelerate";
      if (!trainers && (one.format != "dcp" || part.names.front() != kMetaOfLightning)) continue;
      const std::string_view name = NameOfPart(part, one.path);
      if (!name.empty()) {
        having.try_emplace(GroupOf(one, part), name, fs::path(one.path).filename().string());
      } else if (one.complete) {
        lacking.push_back(&one);
      }
    }
    for (CheckpointFound* const one : lacking) {
      const auto other = having.find(GroupOf(*one, part));
      if (other == having.end()) continue;
      one->complete = false;
      one->why = other->second.first + " is missing, " + other->second.second + " has it";
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

// Under a name as best_step_80, beside those that a script resumes from.
void LeaveOutResults(std::vector<CheckpointFound>& all) {
  const auto is_resumed_from = [](const CheckpointFound& one) {
    const FileRole role = RoleNamedBy(fs::path(one.path).filename().string());
    return role == FileRole::kResume || role == FileRole::kLast;
  };
  const bool whole = std::ranges::any_of(all, [&](const CheckpointFound& one) {
    return one.complete && one.step > 0 && is_resumed_from(one);
  });
  if (whole) std::erase_if(all, [&](const CheckpointFound& one) { return !is_resumed_from(one); });
}

CheckpointFound Unfinished(CheckpointFound found) {
  found.complete = false;
  found.why = "its name is that of a save that did not finish";
  return found;
}

// Whether `path` is one checkpoint, and not where they lie.
bool IsOneCheckpoint(Search& search, const fs::path& path, const CheckpointRules& rules) {
  if (!rules.marker.empty()) return false;
  const bool holds = (rules.format != "dcp" && IsOfDeepSpeed(search, path)) ||
                     HasEntry(search, path, ".distcp") || HasStart(search, path, "random_states_");
  return holds && (rules.format.empty() || IsAskedFor(search, path, rules.format, ""));
}

std::optional<LooseFile> ReadLoose(Search& search, const fs::path& path) {
  if (!IsTorchName(path) || IsState(path.filename().string())) return std::nullopt;
  search.Begin();
  LooseFile file{.found = {.path = path.string()}};
  file.found.format = path.extension() == ".ckpt" ? "lightning" : "torch";
  file.found.why = search.WhyTorch(path);
  if (file.found.why.empty()) file.found.why = WhyMarkedUnfinished(path);
  if (file.found.why.empty()) file.found.why = search.WhyEnded();
  file.found.complete = file.found.why.empty();
  file.found.modified = WallMs(ModifiedMs(path));
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (!error) file.bytes = bytes;
  return file;
}

// What trainers with directories of their own leave beside them is their result.
bool KeepsDirectories(const std::vector<CheckpointFound>& all) {
  return std::ranges::any_of(all, [](const CheckpointFound& one) {
    const bool whole = one.complete && (one.format == "dcp" || one.format == "deepspeed" ||
                                        one.format == "megatron");
    return whole || one.format == "hf" || one.format == "accelerate";
  });
}

std::vector<CheckpointFound> ReadAllLoose(Search& search, const std::vector<fs::path>& paths,
                                          const CheckpointRules& rules) {
  std::vector<LooseFile> files;
  std::vector<CheckpointFound> unfinished;
  for (const fs::path& path : paths) {
    auto file = ReadLoose(search, path);
    if (!file || (rules.format == "lightning" && file->found.format != "lightning")) continue;
    const std::string name = path.filename().string();
    if (IsNameOfUnfinished(name)) {
      file->found.step = StepNamedBy(StemOf(path.string())).value;
      unfinished.push_back(Unfinished(std::move(file->found)));
    } else {
      files.push_back(std::move(*file));
    }
  }
  std::vector<CheckpointFound> found = ChooseLoose(std::move(files), rules.world);
  std::ranges::move(unfinished, std::back_inserter(found));
  return found;
}

// Every checkpoint directly in `top`, or `top` itself.
std::vector<CheckpointFound> ReadPlace(Search& search, const fs::path& top,
                                       const CheckpointRules& rules) {
  std::vector<CheckpointFound> all;
  std::error_code error;
  if (!fs::is_directory(top, error)) return all;
  if (IsOneCheckpoint(search, top, rules)) {
    if (auto found = ReadDirectory(search, top, rules)) all.push_back(std::move(*found));
    return all;
  }
  std::vector<fs::path> loose;
  std::vector<CheckpointFound> unfinished;
  for (const fs::path& path : search.Entries(top)) {
    const std::string name = path.filename().string();
    if (!fs::is_directory(path, error)) {
      loose.push_back(path);
      continue;
    }
    const bool alias = fs::is_symlink(path, error) && StepNamedBy(name).value == 0;
    if (alias) continue;  // "latest": to one that is here under its own name
    auto found = ReadDirectory(search, path, rules);
    if (!found) continue;
    const bool staged = rules.marker.empty() && IsNameOfUnfinished(name);
    (staged ? unfinished : all).push_back(std::move(*found));
  }
  AskForStateOfOthers(all);
  AskForPartsOfOthers(search, rules.world, all);
  AskForRanksOfOlder(search, rules.world, all);
  if (rules.marker.empty()) LeaveOutResults(all);
  const bool torch = rules.format == "torch" || rules.format == "lightning";
  if (rules.marker.empty() && (torch || (rules.format.empty() && !KeepsDirectories(all)))) {
    std::ranges::move(ReadAllLoose(search, loose, rules), std::back_inserter(all));
  }
  for (CheckpointFound& one : unfinished) all.push_back(Unfinished(std::move(one)));
  return all;
}

// Absent: no number of a version.
std::optional<std::int64_t> VersionOf(const fs::path& directory) {
  constexpr std::string_view kStart = "version_";
  const std::string name = directory.filename().string();
  std::int64_t version = 0;
  if (!name.starts_with(kStart)) return std::nullopt;
  const char* const last = name.data() + name.size();
  const auto [end, failed] = std::from_chars(name.data() + kStart.size(), last, version);
  return failed == std::errc() && end == last ? std::optional(version) : std::nullopt;
}

// Where trainers make directories of their own for checkpoints, below the one that they are given:
// accelerate's automatic_checkpoint_naming, and Lightning for each run that it logs. Of its
// versions the last ones: a directory may have seen any number of runs. Source: accelerate 1.15,
// Accelerator.save_state; lightning 2.6.6, ModelCheckpoint.
std::vector<fs::path> PlacesBelow(Search& search, const fs::path& top) {
  constexpr std::size_t kMostVersions = 100;
  std::map<std::int64_t, fs::path> versions;
  for (const fs::path& path : search.Entries(top / "lightning_logs")) {
    if (const auto version = VersionOf(path)) versions[*version] = path / "checkpoints";
  }
  while (versions.size() > kMostVersions) versions.erase(versions.begin());
  std::vector<fs::path> places{top / "checkpoints"};
  for (const auto& [version, path] : versions) places.push_back(path);
  return places;
}

}  // namespace

std::vector<CheckpointFound> ReadCheckpoints(const std::string& directory,
                                             const CheckpointRules& rules,
                                             const std::atomic<bool>* cancel) {
  Search search(cancel);
  const fs::path top(directory);
  std::vector<CheckpointFound> all = ReadPlace(search, top, rules);
  if (!all.empty()) return all;
  for (const fs::path& place : PlacesBelow(search, top)) {
    std::ranges::move(ReadPlace(search, place, rules), std::back_inserter(all));
  }
  return all;
}

}  // namespace launch::agent
