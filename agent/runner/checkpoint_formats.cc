#include "agent/runner/checkpoint_formats.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace launch::agent {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeader = std::uint64_t{100} << 20;
constexpr std::uint32_t kZipEnd = 0x06054b50;
constexpr std::uint32_t kZip64End = 0x06064b50;
constexpr std::uint32_t kZip64Locator = 0x07064b50;
constexpr std::uint32_t kZipEntry = 0x02014b50;

template <class T>
T LoadAt(const std::string& bytes, std::size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string ReadRange(std::ifstream& in, std::uint64_t at, std::uint64_t size) {
  std::string bytes(size, '\0');
  in.clear();
  in.seekg(static_cast<std::streamoff>(at));
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  return bytes;
}

std::uint64_t SizeOf(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : size;
}

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

std::optional<Json> ReadJson(const fs::path& path) {
  std::ifstream in(path);
  Json value = Json::parse(in, nullptr, false);
  if (value.is_discarded()) return std::nullopt;
  return value;
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

// Weights of a Hugging Face or accelerate directory.
std::string WhyWeightsIncomplete(const fs::path& directory) {
  std::vector<fs::path> safetensors;
  std::vector<fs::path> torch;
  for (const fs::path& path : Entries(directory)) {
    const std::string name = path.filename().string();
    if (name.ends_with(".index.json")) return WhyShardsIncomplete(path);
    if (path.extension() == ".safetensors") safetensors.push_back(path);
    const bool state = name.starts_with("optimizer") || name.starts_with("scheduler") ||
                       name.starts_with("training_args") || name.starts_with("rng_state");
    if (IsTorchFile(path) && !state) torch.push_back(path);
  }
  for (const fs::path& path : safetensors) {
    if (auto why = WhySafetensorsIncomplete(path); !why.empty()) return why;
  }
  if (!safetensors.empty()) return {};
  for (const fs::path& path : torch) {
    if (auto why = WhyTorchIncomplete(path); !why.empty()) return why;
  }
  return torch.empty() ? "no weights" : std::string();
}

void ReadHuggingFace(const fs::path& directory, CheckpointFound& found) {
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
  found.why = WhyWeightsIncomplete(directory);
  // What resuming needs beside the weights must be whole where it is there.
  for (const fs::path& path : Entries(directory)) {
    if (found.why.empty() && IsTorchFile(path) && path.filename() != "training_args.bin") {
      found.why = WhyTorchIncomplete(path);
    }
  }
  found.complete = found.why.empty();
}

void ReadDcp(const fs::path& directory, CheckpointFound& found) {
  found.format = "dcp";
  std::error_code error;
  if (!fs::exists(directory / ".metadata", error)) {
    found.why = ".metadata is missing: the save did not finish";
    return;
  }
  for (const fs::path& path : Entries(directory)) {
    if (path.extension() == ".distcp" && SizeOf(path) == 0) {
      found.why = path.filename().string() + " is empty";
      return;
    }
  }
  found.complete = true;
}

void ReadDeepSpeed(const fs::path& directory, CheckpointFound& found) {
  found.format = "deepspeed";
  std::ifstream in(directory / "latest");
  std::string tag;
  in >> tag;
  if (tag.empty() || tag.find("..") != std::string::npos) {
    found.why = "`latest` names no tag";
    return;
  }
  found.step = StepIn(tag);
  const fs::path folder = directory / tag;
  int models = 0;
  int optimizers = 0;
  std::set<std::int64_t> data_ranks;
  for (const fs::path& path : Entries(folder)) {
    const std::string name = path.filename().string();
    const bool model = name.ends_with("_model_states.pt");
    const bool optimizer = name.ends_with("_optim_states.pt");
    if (!model && !optimizer) continue;
    if (auto why = WhyTorchIncomplete(path); !why.empty()) {
      found.why = tag + "/" + why;
      return;
    }
    models += model ? 1 : 0;
    optimizers += optimizer ? 1 : 0;
    const std::size_t rank = name.find("zero_pp_rank_");
    if (optimizer && rank != std::string::npos) {
      data_ranks.insert(std::strtoll(name.c_str() + rank + 13, nullptr, 10));
    }
  }
  if (models == 0) {
    found.why = tag + " has no model states";
  } else if (optimizers == 0) {
    found.why = tag + " has no optimizer states";
  } else if (!data_ranks.empty() &&
             *data_ranks.rbegin() + 1 != static_cast<std::int64_t>(data_ranks.size())) {
    found.why = tag + " lacks the optimizer states of a rank";
  }
  found.complete = found.why.empty();
}

void ReadAccelerate(const fs::path& directory, CheckpointFound& found) {
  found.format = "accelerate";
  found.why = WhyWeightsIncomplete(directory);
  bool states = false;
  for (const fs::path& path : Entries(directory)) {
    states = states || path.filename().string().starts_with("random_states_");
  }
  if (found.why.empty() && !states) found.why = "no random_states_R.pkl";
  found.complete = found.why.empty();
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

// Absent = this directory is not a checkpoint of a known format.
std::optional<CheckpointFound> ReadDirectory(const fs::path& path, const std::string& marker) {
  CheckpointFound found{.path = path.string()};
  const std::string name = path.filename().string();
  found.step = StepIn(name);
  found.modified = WallMs(ModifiedMs(path));
  std::error_code error;
  if (!marker.empty()) {
    if (found.step == 0 && !fs::exists(path / marker, error)) return std::nullopt;
    found.format = "marker";
    found.complete = fs::exists(path / marker, error);
    if (!found.complete) found.why = marker + " is missing";
    return found;
  }
  if (name.starts_with("checkpoint-")) {
    ReadHuggingFace(path, found);
  } else if (fs::exists(path / "latest", error)) {
    ReadDeepSpeed(path, found);
  } else if (HasEntry(path, ".distcp")) {
    ReadDcp(path, found);
  } else if (name.starts_with("checkpoint_") || HasStart(path, "random_states_")) {
    ReadAccelerate(path, found);
  } else {
    return std::nullopt;
  }
  return found;
}

}  // namespace

std::string WhySafetensorsIncomplete(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const std::uint64_t size = SizeOf(path);
  std::ifstream in(path, std::ios::binary);
  const auto length = LoadAt<std::uint64_t>(ReadRange(in, 0, 8), 0);
  if (size < 8 || length > kMaxHeader || 8 + length > size) return name + " is cut short";
  const Json header = Json::parse(ReadRange(in, 8, length), nullptr, false);
  if (!header.is_object()) return name + " has no header";
  std::uint64_t end = 0;
  for (const auto& [tensor, facts] : header.items()) {
    if (tensor == "__metadata__") continue;
    if (!facts.is_object() || !facts.contains("data_offsets") ||
        !facts["data_offsets"].is_array() || facts["data_offsets"].size() != 2 ||
        !facts["data_offsets"][1].is_number_unsigned()) {
      return name + " has no header";
    }
    end = std::max(end, facts["data_offsets"][1].get<std::uint64_t>());
  }
  if (8 + length + end != size) return name + " is cut short";
  return {};
}

std::string WhyTorchIncomplete(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const std::uint64_t size = SizeOf(path);
  std::ifstream in(path, std::ios::binary);
  if (size < 22 || LoadAt<std::uint32_t>(ReadRange(in, 0, 4), 0) != 0x04034b50) {
    return name + " is not a complete torch.save file";
  }
  // The end record is last; a comment may follow it, torch writes none.
  const std::uint64_t window = std::min<std::uint64_t>(size, 65557 + 76);
  const std::string tail = ReadRange(in, size - window, window);
  std::size_t end = std::string::npos;
  for (std::size_t at = tail.size() - 22;; --at) {
    if (LoadAt<std::uint32_t>(tail, at) == kZipEnd &&
        at + 22 + LoadAt<std::uint16_t>(tail, at + 20) == tail.size()) {
      end = at;
      break;
    }
    if (at == 0) break;
  }
  if (end == std::string::npos) return name + " has no end record: it is cut short";
  std::uint64_t entries = LoadAt<std::uint16_t>(tail, end + 10);
  std::uint64_t length = LoadAt<std::uint32_t>(tail, end + 12);
  std::uint64_t offset = LoadAt<std::uint32_t>(tail, end + 16);
  if (end >= 20 && LoadAt<std::uint32_t>(tail, end - 20) == kZip64Locator) {
    const std::string big = ReadRange(in, LoadAt<std::uint64_t>(tail, end - 20 + 8), 56);
    if (LoadAt<std::uint32_t>(big, 0) != kZip64End) return name + " has a broken end record";
    entries = LoadAt<std::uint64_t>(big, 32);
    length = LoadAt<std::uint64_t>(big, 40);
    offset = LoadAt<std::uint64_t>(big, 48);
  }
  if (length > kMaxHeader || offset > size || offset + length > size) {
    return name + " has a broken central directory";
  }
  const std::string directory = ReadRange(in, offset, length);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < entries; ++i) {
    if (at + 46 > directory.size() || LoadAt<std::uint32_t>(directory, at) != kZipEntry) {
      return name + " has a broken central directory";
    }
    const std::uint32_t stored = LoadAt<std::uint32_t>(directory, at + 20);
    const std::uint32_t begins = LoadAt<std::uint32_t>(directory, at + 42);
    const bool wide = stored == 0xFFFFFFFFu || begins == 0xFFFFFFFFu;
    if (!wide && std::uint64_t{begins} + 30 + stored > offset) {
      return name + " has an entry beyond its end";
    }
    at += 46u + LoadAt<std::uint16_t>(directory, at + 28) +
          LoadAt<std::uint16_t>(directory, at + 30) + LoadAt<std::uint16_t>(directory, at + 32);
  }
  return at == directory.size() ? std::string() : name + " has a broken central directory";
}

std::vector<CheckpointFound> ReadCheckpoints(const std::string& directory,
                                             const std::string& marker) {
  std::vector<CheckpointFound> all;
  std::error_code error;
  const fs::path top(directory);
  if (!fs::is_directory(top, error)) return all;
  const bool itself =
      marker.empty() && (fs::exists(top / "latest", error) || HasEntry(top, ".distcp") ||
                         HasStart(top, "random_states_"));
  if (itself) {
    if (auto found = ReadDirectory(top, marker)) all.push_back(std::move(*found));
    return all;
  }
  for (const fs::path& path : Entries(top)) {
    if (fs::is_directory(path, error)) {
      if (auto found = ReadDirectory(path, marker)) all.push_back(std::move(*found));
      continue;
    }
    if (!marker.empty() || !IsTorchFile(path)) continue;
    CheckpointFound found{.path = path.string()};
    found.step = StepOf(path.filename().string());
    found.format = path.extension() == ".ckpt" ? "lightning" : "torch";
    found.why = WhyTorchIncomplete(path);
    found.complete = found.why.empty();
    found.modified = WallMs(ModifiedMs(path));
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace launch::agent
