// A git repository for tests, with a home of its own so that nobody's configuration counts.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace launch {

// Sets variables of this process until the end of the scope; absent = unset.
class ScopedVariables {
 public:
  void Set(const std::string& name, const std::optional<std::string>& value) {
    const char* before = std::getenv(name.c_str());
    before_.try_emplace(name,
                        before == nullptr ? std::nullopt : std::optional<std::string>(before));
    Put(name, value);
  }
  ScopedVariables() = default;
  ScopedVariables(const ScopedVariables&) = delete;
  ScopedVariables& operator=(const ScopedVariables&) = delete;
  ~ScopedVariables() {
    for (const auto& [name, value] : before_) Put(name, value);
  }

 private:
  static void Put(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
  std::map<std::string, std::optional<std::string>> before_;
};

class GitTreeTest : public testing::Test {
 protected:
  GitTreeTest() {
    std::string name = (std::filesystem::temp_directory_path() / "git-tree-XXXXXX").string();
    above_ = std::filesystem::canonical(::mkdtemp(name.data()));
    home_ = above_ / "home";
    dir_ = above_ / "repository";
    std::filesystem::create_directories(home_);
    std::filesystem::create_directories(dir_);
    variables_.Set("HOME", home_.string());
    for (const char* unset : {"XDG_CONFIG_HOME", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}) {
      variables_.Set(unset, std::nullopt);
    }
    std::ofstream(home_ / ".gitconfig") << "[user]\nname = t\nemail = t@example.org\n";
  }
  ~GitTreeTest() override { std::filesystem::remove_all(above_); }

  void SetUp() override {
    if (std::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "git is not installed";
    Shell("git init -q .");
  }

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((dir_ / path).parent_path());
    std::ofstream(dir_ / path, std::ios::binary) << text;
  }

  // What a command prints in the repository; it has to succeed.
  std::string Shell(const std::string& command) const { return ShellIn(dir_, command); }
  static std::string ShellIn(const std::filesystem::path& directory, const std::string& command) {
    std::FILE* pipe = ::popen(("cd '" + directory.string() + "' && " + command).c_str(), "r");
    std::string text;
    char buffer[4096];
    for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
      text.append(buffer, got);
    }
    EXPECT_EQ(::pclose(pipe), 0) << command;
    return text;
  }

  static std::vector<std::string> Split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(separator, at), text.size());
      parts.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return parts;
  }

  std::filesystem::path above_;
  std::filesystem::path home_;
  std::filesystem::path dir_;

 private:
  ScopedVariables variables_;
};

}  // namespace launch
