// Who has a lock or a port, as far as links below a directory like /proc say it.
#include "agent/runner/resource_holders.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

class HoldersTest : public ::testing::Test {
 protected:
  HoldersTest() {
    fs::remove_all(root);
    fs::create_directories(root / "locks");
    for (const char* const name : {"gpu-a.lock", "gpu-b.lock"}) std::ofstream(Lock(name)) << "";
  }
  ~HoldersTest() override { fs::remove_all(root); }

  std::string Lock(const std::string& name) const { return (root / "locks" / name).string(); }
  void AddProcess(const std::string& pid, const std::string& name) const {
    for (const char* const part : {"fd", "fdinfo"})
      fs::create_directories(root / "proc" / pid / part);
    std::ofstream(root / "proc" / pid / "comm") << name << "\n";
  }
  // No file needs to be there: what is behind a link is never looked at.
  void Open(const std::string& pid, const std::string& fd, const std::string& target,
            const std::string& inode = "1") const {
    fs::create_symlink(target, root / "proc" / pid / "fd" / fd);
    std::ofstream(root / "proc" / pid / "fdinfo" / fd)
        << "pos:\t0\nmnt_id:\t9\nino:\t" << inode << "\n";
  }
  HolderSearch Search(std::chrono::seconds within = std::chrono::minutes(1)) const {
    return {cancel, std::chrono::steady_clock::now() + within, (root / "proc").string()};
  }

  const fs::path root = fs::path(testing::TempDir()) / ("holders-" + std::to_string(::getpid()));
  std::atomic<bool> cancel = false;
};

TEST_F(HoldersTest, FindsTheHoldersOfAllLocksInOneWalk) {
  AddProcess("41", "python3");
  Open("41", "3", Lock("gpu-b.lock"));
  Open("41", "4", Lock("gpu-b.lock"));  // the same once more
  Open("41", "5", Lock("gpu-a.lock"));
  AddProcess("42", "other");
  Open("42", "3", "/nowhere/gpu-c.lock");
  const auto lines = LockHolders({Lock("gpu-a.lock"), Lock("gpu-b.lock")}, Search());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].starts_with(Lock("gpu-a.lock") + ": process 41 (python3 of ")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with(Lock("gpu-b.lock") + ": process 41 (python3 of ")) << lines[1];
}

TEST_F(HoldersTest, AContainerHasTheLockAtAnotherPlace) {
  struct stat info {};
  ASSERT_EQ(::stat(Lock("gpu-a.lock").c_str(), &info), 0);
  AddProcess("41", "agent");
  Open("41", "3", "/locks/gpu-a.lock", std::to_string(info.st_ino));
  AddProcess("42", "other");
  Open("42", "3", "/home/ana/gpu-a.lock", std::to_string(info.st_ino + 1));
  const auto lines = LockHolders({Lock("gpu-a.lock")}, Search());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("process 41 (agent"), std::string::npos) << lines[0];
}

TEST_F(HoldersTest, ASearchWhoseTimeIsOverSaysWhatItHas) {
  AddProcess("41", "python3");
  Open("41", "3", Lock("gpu-a.lock"));
  Open("41", "4", "socket:[77]");
  EXPECT_TRUE(LockHolders({Lock("gpu-a.lock")}, Search(std::chrono::seconds(0))).empty());
  cancel = true;
  EXPECT_TRUE(LockHolders({Lock("gpu-a.lock")}, Search()).empty());
  cancel = false;
  fs::create_directories(root / "proc/net");
  std::ofstream(root / "proc/net/tcp") << "  0: 00000000:4E21 00000000:0000 0A 00000000:00000000 "
                                          "00:00000000 00000000 54321 0 77 1\n";
  auto lines = PortHolders({20001, 1}, Search());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(lines[0].starts_with("port 20001: process 41 (python3 of ")) << lines[0];
  lines = PortHolders({20001, 1}, Search(std::chrono::seconds(0)));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "port 20001: a process of uid 54321") << "the table says that much";
}

TEST_F(HoldersTest, ANameOfAProcessMakesNoLinesAndNoColours) {
  AddProcess("41", "a\x1b[2J\nport 1");
  Open("41", "3", Lock("gpu-a.lock"));
  const auto lines = LockHolders({Lock("gpu-a.lock")}, Search());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("(a?[2J?port 1 of "), std::string::npos) << lines[0];
}

}  // namespace
}  // namespace launch::agent
