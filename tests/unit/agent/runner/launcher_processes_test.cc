// What a launcher wrote of its processes, in a directory that the job's account may write to.
#include "agent/runner/launcher_processes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace launch::agent {
namespace {

class LauncherProcesses : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/launcher_processes_XXXXXX";
    root_ = ::mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string Put(const std::string& text) const {
    const std::string path = root_ + "/processes.jsonl";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string root_;
};

TEST_F(LauncherProcesses, EachHasItsRankPidAndEnd) {
  Put("{\"rank\": 3, \"local_rank\": 1, \"pid\": 41, \"exit_code\": 33, \"error\": "
      "\"torch.OutOfMemoryError\"}\n"
      "{\"rank\": 2, \"local_rank\": 0, \"pid\": 40, \"signal\": 15, \"error\": \"\"}\n"
      "{\"rank\": 4, \"local_rank\": 2, \"pid\": 42}\n"
      "{\"rank\": 5, \"local_rank\": 3, \"pid\": 0, \"exit_code\": 0}\n");
  const std::vector<LauncherProcess> wanted = {
      {.rank = 2, .local_rank = 0, .pid = 40, .end = Signalled{15, false}, .error = ""},
      {.rank = 3, .local_rank = 1, .pid = 41, .end = Exited{33}, .error = "torch.OutOfMemoryError"},
      {.rank = 4, .local_rank = 2, .pid = 42, .end = std::nullopt, .error = ""},
      {.rank = 5, .local_rank = 3, .pid = 0, .end = Exited{0}, .error = ""},
  };
  EXPECT_EQ(LauncherProcessesIn(root_), wanted);
  // As lines of an exit report they come back as they were.
  for (const LauncherProcess& process : wanted) EXPECT_EQ(ProcessIn(LineOf(process)), process);
  EXPECT_EQ(LineOf(wanted[1]),
            "launcher's process: rank 3, local rank 1, pid 41, exit 33, torch.OutOfMemoryError");
  for (const char* other : {"", "flight recorder: rank 3", "launcher's process: rank x",
                            "launcher's process: rank 1, local rank -1, pid 4"})
    EXPECT_FALSE(ProcessIn(other)) << other;
}

TEST_F(LauncherProcesses, WhatNoLauncherWritesIsLeftOut) {
  Put("[1]\nnot json\n{\"rank\": -1, \"local_rank\": 0}\n{\"rank\": 99999999, \"local_rank\": 0}\n"
      "{\"rank\": 1.5, \"local_rank\": 0}\n{\"local_rank\": 0}\n{\"rank\": 1e300, \"local_rank\": "
      "0}\n"
      "{\"rank\": 18446744073709551617, \"local_rank\": 0}\n" +
      std::string(9'000, '[') + "\n\n" +
      "{\"rank\": 1, \"local_rank\": 0, \"pid\": -7, \"exit_code\": 300, \"signal\": 0, "
      "\"error\": \"Error: password \\u001b[31m\"}");
  const std::vector<LauncherProcess> wanted = {
      {.rank = 1, .local_rank = 0, .pid = 0, .end = std::nullopt, .error = ""}};
  EXPECT_EQ(LauncherProcessesIn(root_), wanted);
}

TEST_F(LauncherProcesses, TheirNumberAndTheFileAreBounded) {
  std::string text;
  for (int rank = 0; rank < 1'000; ++rank)
    text += "{\"rank\": " + std::to_string(rank) + ", \"local_rank\": 0}\n";
  Put(text);
  EXPECT_EQ(LauncherProcessesIn(root_).size(), 32u);
  Put(text + std::string(1 << 20, ' '));
  EXPECT_TRUE(LauncherProcessesIn(root_).empty());
}

TEST_F(LauncherProcesses, OnlyAFileOfItsOwnIsRead) {
  EXPECT_TRUE(LauncherProcessesIn(root_ + "/absent").empty());
  std::ofstream(root_ + "/other") << "{\"rank\": 1, \"local_rank\": 0}\n";
  const std::string path = root_ + "/processes.jsonl";
  std::filesystem::create_symlink(root_ + "/other", path);
  EXPECT_TRUE(LauncherProcessesIn(root_).empty());
  std::filesystem::remove(path);
  std::filesystem::create_hard_link(root_ + "/other", path);
  EXPECT_TRUE(LauncherProcessesIn(root_).empty());
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);  // nobody writes: must not wait
  EXPECT_TRUE(LauncherProcessesIn(root_).empty());
}

}  // namespace
}  // namespace launch::agent
