// Warnings about memory while a job runs.
#include <algorithm>

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct MemoryWatch : testing::Test {
  MemoryWatch() {
    core.Attach("gpu1", 2);
    job = core.Submitted(GpuJob(1, 1));
    core.Run(job);
    core.Ignore();
  }
  // Shares of the job's GPU (80 GiB) and of the host (64 GiB).
  void Measure(double gpu, double host) {
    boot += Millis{200};
    from_node::Samples samples;
    samples.boot = boot;
    GpuSample sample;
    sample.uuid = core.state.allocs.at(Key{job, Attempt{1}}).at(NodeId{"gpu1"}).gpus.at(0);
    sample.used_bytes = static_cast<std::uint64_t>(gpu * 80 * (1ULL << 30));
    samples.gpus = {sample};
    samples.host.memory_available_bytes =
        static_cast<std::uint64_t>((1 - host) * 64 * (1ULL << 30));
    core.Say("gpu1", samples);
  }
  long Events(const std::string& kind) {
    return std::count_if(core.rows.begin(), core.rows.end(),
                         [&](const EventRow& row) { return row.kind == kind; });
  }
  bool Shows(const std::string& code) {
    const JobView view = core.View(job);
    return std::any_of(view.findings.begin(), view.findings.end(),
                       [&](const Finding& finding) { return finding.code == code; });
  }
  TestCore core;
  JobId job;
  BootTime boot = BootMs(5'000);
};

TEST_F(MemoryWatch, SaysOnceThatAGpuIsOverEightyPercent) {
  Measure(0.79, 0.1);
  EXPECT_EQ(Events("attempt.gpu_memory_high"), 0);
  for (const double share : {0.81, 0.85, 0.79, 0.82}) Measure(share, 0.1);
  EXPECT_EQ(Events("attempt.gpu_memory_high"), 1);
  EXPECT_TRUE(Shows("gpu_memory_high"));
  Measure(0.5, 0.1);
  EXPECT_FALSE(Shows("gpu_memory_high"));
  Measure(0.81, 0.1);
  EXPECT_EQ(Events("attempt.gpu_memory_high"), 2);
}

TEST_F(MemoryWatch, SaysOnceThatTheHostIsOverSeventyPercent) {
  Measure(0.1, 0.69);
  EXPECT_EQ(Events("attempt.host_memory_high"), 0);
  for (const double share : {0.71, 0.9, 0.69, 0.71}) Measure(0.1, share);
  EXPECT_EQ(Events("attempt.host_memory_high"), 1);
  EXPECT_TRUE(Shows("host_memory_high"));
}

TEST_F(MemoryWatch, SaysOnceThatAJobIsOverSeventyPercentOfItsOwnMemory) {
  JobSpec spec = CpuJob(1);
  spec.memory_bytes = Amount{.value = 1000, .at_least = false};
  const JobId limited = core.Submitted(spec);
  const Key key = core.Run(limited);
  core.Ignore();
  const auto hold = [&](const Key& whose, std::uint64_t bytes) {
    from_node::Samples samples;
    samples.boot = boot += Millis{200};
    RankSample sample;
    sample.key = whose;
    sample.rss_bytes = bytes;
    samples.ranks = {sample};
    core.Say("gpu1", samples);
  };
  hold(key, 690);
  hold(Key{job, Attempt{1}}, 1000);
  EXPECT_EQ(Events("attempt.host_memory_high"), 0) << "that one has no limit";
  for (const std::uint64_t bytes : {710, 900, 690, 710}) hold(key, bytes);
  EXPECT_EQ(Events("attempt.host_memory_high"), 1);
  const auto shown = core.View(limited).findings;
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_NE(shown[0].says.find("its own limit"), std::string::npos) << shown[0].says;
  EXPECT_FALSE(Shows("host_memory_high"));
  hold(key, 100);
  EXPECT_TRUE(core.View(limited).findings.empty());
}

TEST_F(MemoryWatch, ForeseesTheEndOfAGpuAndTouchesNothing) {
  for (int i = 0; i < 60; ++i) Measure(0.1 + 0.01 * i, 0.1);
  EXPECT_EQ(Events("attempt.memory_trend"), 1);
  EXPECT_TRUE(Shows("memory_trend"));
  EXPECT_EQ(core.View(job).state, JobState::kRunning);
  core.NothingElse();
}

TEST_F(MemoryWatch, MemoryOfGpusThatTheJobDoesNotHaveIsNotItsConcern) {
  from_node::Samples samples;
  samples.boot = boot;
  GpuSample sample;
  sample.uuid = GpuUuid{"GPU-gpu1-1"};
  sample.used_bytes = 79ULL << 30;
  samples.gpus = {sample};
  core.Say("gpu1", samples);
  EXPECT_EQ(Events("attempt.gpu_memory_high"), 0);
}

TEST_F(MemoryWatch, AnEndedJobShowsNoWarning) {
  Measure(0.9, 0.9);
  const Key key{job, Attempt{1}};
  core.Exit("gpu1", key, 0, Exited{0});
  core.Release("gpu1", key);
  EXPECT_FALSE(Shows("gpu_memory_high"));
}

}  // namespace
}  // namespace launch::controller
