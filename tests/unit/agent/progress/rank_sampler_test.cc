#include "agent/progress/rank_sampler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace launch::agent {
namespace {

class RankOnDisk : public testing::Test {
 protected:
  RankOnDisk() {
    std::string pattern = testing::TempDir() + "/rankXXXXXX";
    dir_ = mkdtemp(pattern.data());
    Append("out", "");
  }
  ~RankOnDisk() override { std::filesystem::remove_all(dir_); }
  void Append(const std::string& file, const std::string& text) {
    std::ofstream(dir_ + "/" + file, std::ios::app) << text;
  }
  RankSample Look(std::int64_t boot_ms, const std::string& regex = "") {
    const RunningRank rank{.key = {JobId{1}, Attempt{1}},
                           .rank = 3,
                           .pid = getpid(),
                           .directory = dir_,
                           .progress_regex = regex};
    return sampler_.Sample({rank}, {}, BootMs(boot_ms)).at(0);
  }
  std::string dir_;
  RankSampler sampler_{"/proc"};
};

TEST_F(RankOnDisk, FollowsTheStepAsTheLogGrows) {
  EXPECT_EQ(Look(1000).step, std::nullopt);
  Append("out", "step 1/10\nstep 2/");
  EXPECT_EQ(Look(2000).step, 1);
  Append("out", "10\n");
  const RankSample sample = Look(3000);
  EXPECT_EQ(sample.step, 2);
  EXPECT_EQ(sample.steps, 10);
  EXPECT_EQ(sample.rank, 3);
}

TEST_F(RankOnDisk, LooksOnceMoreAtARankThatEnded) {
  RankSampler sampler("/proc");
  const RunningRank watched{.key = {JobId{1}, Attempt{1}}, .rank = 0, .pid = 0, .directory = dir_};
  Append("out", "step 8/10\n");
  EXPECT_EQ(sampler.Sample({watched}, {}, BootMs(1000)).at(0).step, 8);
  Append("out", "step 10/10\n");
  const std::vector<RankSample> last = sampler.Sample({}, {watched}, BootMs(2000));
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].step, 10);
  EXPECT_EQ(last[0].seconds_per_step, 0.5);
  EXPECT_TRUE(sampler.Sample({}, {}, BootMs(3000)).empty());
  // One that ran for less than a sampling period was never watched, and is read all the same.
  RunningRank brief = watched;
  brief.rank = 1;
  EXPECT_EQ(sampler.Sample({}, {brief}, BootMs(4000)).at(0).step, 10);
}

TEST_F(RankOnDisk, BarsOnAStderrOfItsOwnCountToo) {
  Append("err", "\r 17%|#6  | 20/120 [1:30:00<7:30:00, 270.00s/it]\r");
  EXPECT_EQ(Look(1000).eta_s, 27'000.0);
}

TEST_F(RankOnDisk, ReadsOnlyTheNewestOfALongLog) {
  for (int i = 0; i < 20'000; ++i) Append("out", "some other line of the log\n");
  Append("out", "step 5/10\n");
  EXPECT_EQ(Look(1000).step, 5);
}

TEST_F(RankOnDisk, TheProgressFileIsRead) {
  Append("progress.jsonl", "{\"step\": 4, \"steps\": 8}\n");
  EXPECT_EQ(Look(1000).steps, 8);
}

TEST_F(RankOnDisk, OutputAgesUntilItGrows) {
  (void)Look(100'000);
  EXPECT_GE(Look(107'000).output_age_ms, 7000);
  Append("out", "x");
  EXPECT_EQ(Look(109'000).output_age_ms, 0);
  EXPECT_EQ(Look(110'500).output_age_ms, 1500);
}

TEST_F(RankOnDisk, ALogThatTheJobEmptiedIsReadFromItsStart) {
  Append("out", "some lines before\nstep 5/10\nhalf a li");
  EXPECT_EQ(Look(1000).step, 5);
  std::ofstream(dir_ + "/out", std::ios::trunc) << "step 6/10\n";
  const RankSample sample = Look(9000);
  EXPECT_EQ(sample.step, 6);
  EXPECT_EQ(sample.output_age_ms, 0);
}

TEST_F(RankOnDisk, ABadPatternCountsAsNone) {
  Append("out", "step 5/10\n");
  EXPECT_EQ(Look(1000, "(").step, 5);
}

TEST_F(RankOnDisk, MemoryOfALiveProcessIsPlausibleAndOfADeadOneZero) {
  EXPECT_GT(UseOfTree("/proc", getpid()).rss_bytes, 1u << 20);
  EXPECT_LT(UseOfTree("/proc", getpid()).rss_bytes, std::uint64_t{64} << 30);
  EXPECT_EQ(UseOfTree(dir_, 1).rss_bytes, 0u);
}

TEST_F(RankOnDisk, AMissingDirectoryIsNoProgress) {
  std::filesystem::remove_all(dir_);
  EXPECT_EQ(Look(1000).step, std::nullopt);
}

}  // namespace
}  // namespace launch::agent
