#include "agent/runner/checkpoint_formats.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "agent/runner/checkpoint_files.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::int64_t ModifiedMs(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1000 + info.st_mtim.tv_nsec / 1000000;
}

// Last run of digits in a name: "checkpoint-120" and "step=120.ckpt" are 120.
std::int64_t StepIn(const std::string& name) {
  const std::size_t end = name.find_last_of("0123456789");
  if (end == std::string::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  if (end - begin >= 18) return 0;
  return std::stoll(name.substr(begin, end - begin + 1));
}

// "epoch=1-step=120.ckpt" names its step; otherwise the last number does.
std::int64_t StepOf(std::string name) {
  if (const std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0) {
    name.resize(dot);
  }
  const std::size_t step = name.rfind("step");
  if (step != std::string::npos) {
    const std::size_t begin = name.find_first_of("0123456789", step);
    if (begin != std::string::npos) {
      return StepIn(name.substr(begin, name.find_first_not_of("0123456789", begin) - begin));
    }
  }
  return StepIn(name);
}

bool IsTorchFile(const fs::path& path) {
  static constexpr const char* kEnds[] = {".pt", ".pth", ".ckpt", ".bin"};
  const std::string end = path.extension().string();
  return std::ranges::any_of(kEnds, [&end](const char* known) { return end == known; });
}

std::vector<fs::path> Entries(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  std::ranges::sort(entries);
  return entries;
}

// Opened only where it is a file: a FIFO would wait for its writer.
std::optional<std::ifstream> OpenFile(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  return std::ifstream(path);
}

std::optional<Json> ReadJson(const fs::path& path) {
  auto in = OpenFile(path);
  if (!in) return std::nullopt;
  Json value = Json::parse(*in, nullptr, false);
  if (value.is_discarded()) return std::nullopt;
  return value;
}

bool HasEntry(const fs::path& directory, const std::string& end) {
  return std::ranges::any_of(Entries(directory), [&end](const fs::path& path) {
    return path.filename().string().ends_with(end);
  });
}

bool HasStart(const fs::path& directory, const std::string& start) {
  return std::ranges::any_of(Entries(directory), [&start](const fs::path& path) {
    return path.filename().string().starts_with(start);
  });
}

// DeepSpeed's own; a link of that name to the newest checkpoint is somebody else's.
bool HasLatest(const fs::path& directory) {
  std::error_code error;
  return fs::is_regular_file(directory / "latest", error);
}

// The shards an index names, each complete.
std::string WhyShardsIncomplete(const fs::path& index) {
  const auto value = ReadJson(index);
  if (!value || !value->contains("weight_map") || !(*value)["weight_map"].is_object()) {
    return index.filename().string() + " does not parse";
  }
  std::set<std::string> shards;
  for (const auto& [name, shard] : (*value)["weight_map"].items()) {
    if (shard.is_string()) shards.insert(shard.get<std::string>());
  }
  if (shards.empty()) return index.filename().string() + " names no file";
  for (const std::string& shard : shards) {
    if (shard.find('/') != std::string::npos) return index.filename().string() + " names a path";
    const fs::path path = index.parent_path() / shard;
    std::error_code error;
    if (!fs::exists(path, error)) return "weights " + shard + " are missing";
    const std::string why = path.extension() == ".safetensors" ? WhySafetensorsIncomplete(path)
                                                               : WhyTorchIncomplete(path);
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
std::string WhyWeightsIncomplete(const fs::path& directory) {
  bool weights = false;
  for (const fs::path& path : Entries(directory)) {
    const std::string name = path.filename().string();
    if (name.ends_with(".index.json")) return WhyShardsIncomplete(path);
    if (path.extension() != ".safetensors") continue;
    weights = true;
    if (auto why = WhySafetensorsIncomplete(path); !why.empty()) return why;
  }
  for (const fs::path& path : Entries(directory)) {
    weights = weights || (IsTorchFile(path) && !IsState(path.filename().string()));
  }
  return weights ? std::string() : "no weights";
}

std::string WhyDcpIncomplete(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory / ".metadata", error)) {
    return ".metadata is missing: the save did not finish";
  }
  for (const fs::path& path : Entries(directory)) {
    if (path.extension() == ".distcp" && fs::file_size(path, error) == 0) {
      return path.filename().string() + " is empty";
    }
  }
  return {};
}

// What `latest` names; empty = nothing.
std::string TagOf(const fs::path& directory) {
  std::string tag;
  if (auto in = OpenFile(directory / "latest")) *in >> tag;
  return tag.find("..") == std::string::npos ? tag : std::string();
}

// Every rank of `world` writes its part of the optimizer, some the model too.
std::string WhyDeepSpeedIncomplete(const fs::path& directory, int world) {
  const std::string tag = TagOf(directory);
  if (tag.empty()) return "`latest` names no tag";
  int models = 0;
  int optimizers = 0;
  std::set<std::int64_t> data_ranks;
  for (const fs::path& path : Entries(directory / tag)) {
    const std::string name = path.filename().string();
    const bool model = name.ends_with("_model_states.pt");
    const bool optimizer = name.ends_with("_optim_states.pt");
    if (!model && !optimizer) continue;
    if (auto why = WhyTorchIncomplete(path); !why.empty()) return tag + "/" + why;
    models += model ? 1 : 0;
    optimizers += optimizer ? 1 : 0;
    const std::size_t rank = name.find("zero_pp_rank_");
    if (optimizer && rank != std::string::npos) {
      data_ranks.insert(std::strtoll(name.c_str() + rank + 13, nullptr, 10));
    }
  }
  if (models == 0) return tag + " has no model states";
  if (optimizers == 0) return tag + " has no optimizer states";
  const auto ranks = static_cast<std::int64_t>(data_ranks.size());
  if (ranks == 0) return {};
  if (*data_ranks.rbegin() + 1 != ranks) return tag + " lacks the optimizer states of a rank";
  if (optimizers >= world) return {};
  return tag + " has the optimizer states of " + std::to_string(optimizers) +
         " ranks, the job has " + std::to_string(world);
}

bool IsSharded(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  const std::string name = path.filename().string();
  return name.starts_with("pytorch_model_fsdp") || name.starts_with("optimizer_") ||
         HasEntry(path, ".distcp");
}

// All that the trainers of Hugging Face put into one directory: files of weights, what FSDP and
// DeepSpeed keep in shards, and the state beside them.
std::string WhyPartsIncomplete(const fs::path& directory, int world) {
  bool sharded = false;
  for (const fs::path& path : Entries(directory)) {
    const std::string name = path.filename().string();
    if (IsSharded(path)) {
      if (auto why = WhyDcpIncomplete(path); !why.empty()) return name + "/" + why;
      sharded = sharded || !IsState(name);
    } else if (IsTorchFile(path) && name != "training_args.bin") {
      if (auto why = WhyTorchIncomplete(path); !why.empty()) return why;
    }
  }
  if (HasLatest(directory)) {
    if (auto why = WhyDeepSpeedIncomplete(directory, world); !why.empty()) return why;
    sharded = true;
  }
  const std::string why = WhyWeightsIncomplete(directory);
  return sharded && why == "no weights" ? std::string() : why;
}

void ReadHuggingFace(const fs::path& directory, int world, CheckpointFound& found) {
  found.format = "hf";
  const fs::path state = directory / "trainer_state.json";
  std::error_code error;
  if (!fs::exists(state, error)) {
    found.why = "trainer_state.json is missing";
    return;
  }
  const auto value = ReadJson(state);
  if (!value || !value->is_object() || !value->contains("global_step") ||
      !(*value)["global_step"].is_number_integer()) {
    found.why = "trainer_state.json does not parse";
    return;
  }
  if ((*value)["global_step"].get<std::int64_t>() != found.step) {
    found.why = "trainer_state.json is of step " + (*value)["global_step"].dump();
    return;
  }
  found.why = WhyPartsIncomplete(directory, world);
}

// One random_states_R.pkl a rank: the others write theirs while rank 0 still writes the optimizer.
std::string WhyRandomStatesIncomplete(const fs::path& directory) {
  constexpr std::string_view kStart = "random_states_";
  std::set<std::int64_t> ranks;
  for (const fs::path& path : Entries(directory)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kStart)) continue;
    std::error_code error;
    if (fs::file_size(path, error) == 0 || error) return name + " is empty";
    ranks.insert(std::strtoll(name.c_str() + kStart.size(), nullptr, 10));
  }
  if (ranks.empty()) return "no random_states_R.pkl";
  const auto count = static_cast<std::int64_t>(ranks.size());
  return *ranks.rbegin() + 1 == count ? std::string() : "random_states_R.pkl of a rank is missing";
}

void ReadAccelerate(const fs::path& directory, int world, CheckpointFound& found) {
  found.format = "accelerate";
  found.why = WhyPartsIncomplete(directory, world);
  if (found.why.empty()) found.why = WhyRandomStatesIncomplete(directory);
}

// Weights in a directory of a step, as a script of the user's own writes them: what belongs to it
// only the user knows.
bool HoldsWeights(const fs::path& directory) {
  return std::ranges::any_of(Entries(directory), [](const fs::path& path) {
    return IsTorchFile(path) || path.extension() == ".safetensors";
  });
}

// Absent = this directory is not a checkpoint.
std::optional<CheckpointFound> ReadDirectory(const fs::path& path, const CheckpointRules& rules) {
  CheckpointFound found{.path = path.string()};
  const std::string name = path.filename().string();
  found.step = StepIn(name);
  found.modified = WallMs(ModifiedMs(path));
  std::error_code error;
  if (!rules.marker.empty()) {
    if (found.step == 0 && !fs::exists(path / rules.marker, error)) return std::nullopt;
    found.format = "marker";
    if (!fs::exists(path / rules.marker, error)) found.why = rules.marker + " is missing";
  } else if (name.starts_with("checkpoint-")) {
    ReadHuggingFace(path, rules.world, found);
  } else if (name.starts_with("checkpoint_") || HasStart(path, "random_states_")) {
    ReadAccelerate(path, rules.world, found);
  } else if (HasLatest(path)) {
    found.format = "deepspeed";
    found.modified = WallMs(ModifiedMs(path / "latest"));  // logs may be written beside it
    found.why = WhyDeepSpeedIncomplete(path, rules.world);
    if (const std::int64_t step = StepIn(TagOf(path)); step > 0) found.step = step;
  } else if (HasEntry(path, ".distcp")) {
    found.format = "dcp";
    if (const auto at = ModifiedMs(path / ".metadata"); at != 0) found.modified = WallMs(at);
    found.why = WhyDcpIncomplete(path);
  } else if (HasEntry(path, "_model_states.pt")) {
    found.format = "deepspeed";
    found.why = "no file `latest` beside it names it: the save did not finish";
  } else if (found.step > 0 && HoldsWeights(path)) {
    found.format = "torch";
    found.why =
        "what makes this directory complete is not known: name a file that is written last "
        "as checkpoint.complete_marker";
  } else {
    return std::nullopt;
  }
  found.complete = found.why.empty();
  return found;
}

// Where others of the same trainer have the state to resume from, one without it was cut off.
void AskForStateOfOthers(std::vector<CheckpointFound>& all) {
  static constexpr const char* kNames[] = {"optimizer.pt", "optimizer.bin", "optimizer_0",
                                           "scheduler.pt", "scheduler.bin"};
  std::error_code error;
  for (const char* const name : kNames) {
    for (CheckpointFound& one : all) {
      if (!one.complete || (one.format != "hf" && one.format != "accelerate")) continue;
      if (fs::exists(fs::path(one.path) / name, error)) continue;
      const auto other = std::ranges::find_if(all, [&](const CheckpointFound& sibling) {
        return sibling.format == one.format && fs::exists(fs::path(sibling.path) / name, error);
      });
      if (other == all.end()) continue;
      one.complete = false;
      one.why = std::string(name) + " is missing, " + fs::path(other->path).filename().string() +
                " has it";
    }
  }
}

// last.ckpt: of the step of the newest file with a number that it is not older than.
void PlaceUnnumbered(std::vector<CheckpointFound>& files) {
  for (CheckpointFound& one : files) {
    const std::string name = fs::path(one.path).stem().string();
    if (name.find_first_of("0123456789") != std::string::npos) continue;
    for (const CheckpointFound& other : files) {
      if (other.modified <= one.modified) one.step = std::max(one.step, other.step);
    }
  }
}

}  // namespace

std::vector<CheckpointFound> ReadCheckpoints(const std::string& directory,
                                             const CheckpointRules& rules) {
  std::vector<CheckpointFound> all;
  std::error_code error;
  const fs::path top(directory);
  if (!fs::is_directory(top, error)) return all;
  const bool itself = rules.marker.empty() && (HasLatest(top) || HasEntry(top, ".distcp") ||
                                               HasStart(top, "random_states_"));
  if (itself) {
    if (auto found = ReadDirectory(top, rules)) all.push_back(std::move(*found));
    return all;
  }
  std::vector<fs::path> loose;
  for (const fs::path& path : Entries(top)) {
    if (fs::is_directory(path, error)) {
      const bool alias = fs::is_symlink(path, error) && StepIn(path.filename().string()) == 0;
      if (alias) continue;  // "latest": to one that is here under its own name
      if (auto found = ReadDirectory(path, rules)) all.push_back(std::move(*found));
    } else if (rules.marker.empty() && IsTorchFile(path) && !IsState(path.filename().string())) {
      loose.push_back(path);
    }
  }
  AskForStateOfOthers(all);
  // What a trainer with directories of its own leaves beside them is its result.
  const bool trainers = std::ranges::any_of(all, [](const CheckpointFound& one) {
    return one.format == "hf" || one.format == "accelerate";
  });
  if (trainers) return all;
  std::vector<CheckpointFound> files;
  for (const fs::path& path : loose) {
    CheckpointFound found{.path = path.string()};
    found.step = StepOf(path.filename().string());
    found.format = path.extension() == ".ckpt" ? "lightning" : "torch";
    found.why = WhyTorchIncomplete(path);
    found.complete = found.why.empty();
    found.modified = WallMs(ModifiedMs(path));
    files.push_back(std::move(found));
  }
  PlaceUnnumbered(files);
  std::ranges::move(files, std::back_inserter(all));
  return all;
}

}  // namespace launch::agent
