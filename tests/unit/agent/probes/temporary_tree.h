// A directory of small files that stands for /proc, /sys or a tool's installation.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace launch::agent {

class TemporaryTree {
 public:
  TemporaryTree() {
    std::string pattern = ::testing::TempDir() + "probe-XXXXXX";
    root_ = std::filesystem::canonical(::mkdtemp(pattern.data())).string();
  }
  TemporaryTree(const TemporaryTree&) = delete;
  TemporaryTree& operator=(const TemporaryTree&) = delete;
  ~TemporaryTree() { std::filesystem::remove_all(root_); }

  const std::string& root() const { return root_; }
  std::string Path(const std::string& name) const { return root_ + "/" + name; }

  std::string Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  std::string Script(const std::string& name, const std::string& text) const {
    const std::string path = Write(name, "#!/bin/sh\n" + text);
    ::chmod(path.c_str(), 0755);
    return path;
  }
  void Directory(const std::string& name) const { std::filesystem::create_directories(Path(name)); }

 private:
  std::string root_;
};

}  // namespace launch::agent
