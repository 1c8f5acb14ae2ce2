// Checkpoints made small by hand, for the tests of what finds them.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "agent/runner/checkpoint_finder.h"

namespace launch::agent {

// As the controller chooses on one node, which they are sorted for; null: none is complete. Points
// into `found`.
inline const CheckpointFound* NewestComplete(const std::vector<CheckpointFound>& found) {
  const auto at = std::ranges::find(found, true, &CheckpointFound::complete);
  return at == found.end() ? nullptr : &*at;
}

template <class T>
void Put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A stored zip with one member, as torch.save writes it.
inline std::string Zip(const std::string& content) {
  const std::string name = "archive/data.pkl";
  const auto size = static_cast<std::uint32_t>(content.size());
  const auto name_size = static_cast<std::uint16_t>(name.size());
  std::string bytes;
  Put<std::uint32_t>(bytes, 0x04034b50);
  bytes.append(14, '\0');
  Put(bytes, size);
  Put(bytes, size);
  Put(bytes, name_size);
  Put<std::uint16_t>(bytes, 0);
  bytes += name + content;
  const auto directory = static_cast<std::uint32_t>(bytes.size());
  Put<std::uint32_t>(bytes, 0x02014b50);
  bytes.append(16, '\0');
  Put(bytes, size);
  Put(bytes, size);
  Put(bytes, name_size);
  bytes.append(12, '\0');
  Put<std::uint32_t>(bytes, 0);
  bytes += name;
  const auto length = static_cast<std::uint32_t>(bytes.size() - directory);
  Put<std::uint32_t>(bytes, 0x06054b50);
  Put<std::uint32_t>(bytes, 0);
  Put<std::uint16_t>(bytes, 1);
  Put<std::uint16_t>(bytes, 1);
  Put(bytes, length);
  Put(bytes, directory);
  Put<std::uint16_t>(bytes, 0);
  return bytes;
}

inline std::string Safetensors(std::size_t data_bytes) {
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,)" + std::to_string(data_bytes) + "]}}";
  std::string bytes;
  Put<std::uint64_t>(bytes, header.size());
  return bytes + header + std::string(data_bytes, 'd');
}

// A string as pickle's protocol 2 writes it, and as 4 does.
inline std::string Pickled(const std::string& text) {
  std::string bytes = "X";
  Put(bytes, static_cast<std::uint32_t>(text.size()));
  return bytes + text;
}
inline std::string PickledShort(const std::string& text) {
  return std::string("\x8c") + static_cast<char>(text.size()) + text;
}

// A directory of checkpoints, gone with the test.
class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "launch-ckpt-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~CheckpointTest() override { std::filesystem::remove_all(dir_); }
  void Write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(dir_ + "/" + name).parent_path());
    std::ofstream(dir_ + "/" + name, std::ios::binary) << bytes;
  }
  void WriteHf(int step) const {
    const std::string name = "checkpoint-" + std::to_string(step) + "/";
    Write(name + "trainer_state.json", "{\"global_step\": " + std::to_string(step) + "}");
    Write(name + "model.safetensors", Safetensors(64));
    Write(name + "optimizer.pt", Zip("state"));
  }
  std::vector<CheckpointFound> Find(const std::string& marker = {}) const {
    return FindCheckpoints({.directory = dir_, .marker = marker});
  }
  void WriteDcp(const std::string& name) const {
    Write(name + "/__0_0.distcp", "x");
    Write(name + "/.metadata", "m.");
  }
  void WriteDeepSpeed(const std::string& name, const std::string& tag) const {
    Write(name + "/" + tag + "/mp_rank_00_model_states.pt", Zip("m"));
    Write(name + "/" + tag + "/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", Zip("o"));
    Write(name + "/latest", tag);
  }
  std::vector<CheckpointFound> FindOf(const std::string& format, const std::string& in = {}) const {
    return FindCheckpoints({.directory = dir_ + in, .marker = {}, .format = format});
  }
  std::vector<CheckpointFound> FindFor(int world) const {
    return FindCheckpoints({.directory = dir_, .world = world});
  }

  std::string dir_;
};

}  // namespace launch::agent
