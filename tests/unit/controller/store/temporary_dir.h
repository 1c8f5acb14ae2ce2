// A directory that goes away with its owner.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/error.h"

namespace launch {

class TemporaryDir {
 public:
  explicit TemporaryDir(
      const std::filesystem::path& base = std::filesystem::temp_directory_path()) {
    std::string name = base / "launch-test-XXXXXX";
    LAUNCH_CHECK(::mkdtemp(name.data()) != nullptr, "make " + name);
    path_ = name;
  }
  ~TemporaryDir() { std::filesystem::remove_all(path_); }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace launch
