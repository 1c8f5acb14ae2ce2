// How often a limit of processes was reached, as both versions of control groups count it.
#include "agent/runner/process_limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace launch::agent {
namespace {

class ProcessLimits : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/process_limits_XXXXXX";
    root_ = ::mkdtemp(name);
    Write("mounts", "none " + root_ + "/v1 cgroup rw,pids 0 0\nnone " + root_ +
                        "/v2 cgroup2 rw,relatime 0 0\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path at = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << text;
  }
  std::map<std::string, std::uint64_t> Hits(const std::vector<std::string>& groups = {}) {
    return ProcessLimitHits(7, groups, {root_ + "/proc", root_ + "/mounts"});
  }
  std::string root_;
};

TEST_F(ProcessLimits, CountsInEveryGroupUpToTheTop) {
  Write("proc/7/cgroup", "8:pids:/slice/job\n4:memory:/elsewhere\n0::/box\n");
  Write("v1/slice/job/pids.events", "max 2\n");
  Write("v1/slice/pids.events", "max 0\n");
  Write("v1/elsewhere/pids.events", "max 9\n");
  Write("v2/box/pids.events", "max 5\n");
  const std::map<std::string, std::uint64_t> expected = {
      {root_ + "/v1/slice/job", 2}, {root_ + "/v1/slice", 0}, {root_ + "/v2/box", 5}};
  EXPECT_EQ(Hits(), expected);
}

TEST_F(ProcessLimits, TellsOnlyWhatWasReachedSince) {
  Write("v2/launch/7.1/pids.events", "max 1\n");
  Write("v2/pids.events", "max 4\n");
  Write("v2/pids.max", "512\n");
  const auto before = Hits({root_ + "/v2/launch/7.1"});
  EXPECT_EQ(before.size(), 2u);
  EXPECT_TRUE(ProcessLimitHitsSince(before).empty());
  Write("v2/pids.events", "max 7\n");
  EXPECT_EQ(ProcessLimitHitsSince(before),
            std::vector<std::string>{"pids.max of " + root_ + "/v2 (512) was reached 3 times"});
  std::filesystem::remove_all(root_ + "/v2");
  EXPECT_TRUE(ProcessLimitHitsSince(before).empty()) << "the group is gone";
}

TEST_F(ProcessLimits, NoProcessAndNoControllerAreNothing) {
  EXPECT_TRUE(Hits().empty());
  Write("proc/7/cgroup", "8:pids\n:\nno colon\n0::/box\n");
  EXPECT_TRUE(Hits({"", "relative"}).empty());
}

}  // namespace
}  // namespace launch::agent
