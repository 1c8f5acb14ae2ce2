// A fake driver whose JSON state a test edits while the code under test runs.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace launch::agent {

class FakeDriver : public ::testing::Test {
 protected:
  FakeDriver() {
    std::string pattern = ::testing::TempDir() + "nvml-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    ::setenv("FAKE_NVML_CONFIG", Path().c_str(), 1);
  }
  ~FakeDriver() override {
    ::unsetenv("FAKE_NVML_CONFIG");
    std::filesystem::remove_all(directory_);
  }

  static constexpr const char* kLibrary = LAUNCH_BINARY_DIR "/lib/libnvidia-ml.so.1";

  // One of the ready-made states of tests/fakes/nvml.
  void Load(const std::string& name) {
    std::ifstream file(LAUNCH_SOURCE_DIR "/tests/fakes/nvml/" + name + ".json");
    state = nlohmann::json::parse(file);
    Write();
  }
  // By rename, so that no reader sees half a file and the inode changes.
  void Write() const {
    std::ofstream(Path() + ".new") << state.dump();
    std::filesystem::rename(Path() + ".new", Path());
  }
  std::string Path() const { return directory_ + "/state.json"; }
  const std::string& directory() const { return directory_; }

  nlohmann::json state;

 private:
  std::string directory_;
};

}  // namespace launch::agent
