// In place or from copies of the working directory: what the nodes are told while they stage.
#include <algorithm>

#include "common/pki.h"
#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

StagingFacts Facts(bool workdir_ok, bool from_snapshot) {
  StagingFacts facts;
  facts.paths = {
      {.what = "workdir", .path = "/proj", .ok = workdir_ok, .why = "no such directory"}};
  facts.reach = {{"127.0.0.1", true, "lo", ""}, {"10.0.0.1", true, "eth0", ""}};
  facts.from_snapshot = from_snapshot;
  return facts;
}

struct Copies : TwoNodes {
  Copies() {
    core.context.snapshot = Sha256Hex("root");
    core.context.snapshot_bytes = 1000;
  }
};

TEST_F(Copies, WhereEveryNodeSeesTheDirectoryTheJobRunsInPlace) {
  const Key key = Accepted(GpuJob(2, 1));
  EXPECT_FALSE(core.Told<to_node::Stage>("gpu1").use_snapshot);
  core.Ready("gpu1", key, Facts(true, false));
  EXPECT_FALSE(core.Told<to_node::Stage>("gpu2").use_snapshot);
  core.Ready("gpu2", key, Facts(true, false));
  EXPECT_TRUE(core.WasTold<to_node::Go>("gpu1"));
  EXPECT_TRUE(core.WasTold<to_node::Go>("gpu2"));
}

TEST_F(Copies, WhereOneDoesNotAllRunFromCopies) {
  const Key key = Accepted(GpuJob(2, 1));
  EXPECT_FALSE(core.Told<to_node::Stage>("gpu1").marker.empty());
  core.Ready("gpu1", key, Facts(true, false));
  EXPECT_FALSE(core.Told<to_node::Stage>("gpu2").use_snapshot);
  core.Ready("gpu2", key, Facts(false, false));
  for (const char* node : {"gpu1", "gpu2"}) {  // both at once: there is no marker to wait for
    const auto stage = core.Told<to_node::Stage>(node);
    EXPECT_TRUE(stage.use_snapshot);
    EXPECT_TRUE(stage.marker.empty());
    EXPECT_FALSE(core.WasTold<to_node::Go>(node));
  }
  core.Ready("gpu1", key, Facts(true, false));  // of before, said once more
  core.Ready("gpu2", key, Facts(true, true));
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu2"));
  core.Ready("gpu1", key, Facts(true, true));
  EXPECT_TRUE(core.WasTold<to_node::Go>("gpu1"));
  EXPECT_TRUE(core.WasTold<to_node::Go>("gpu2"));
}

TEST_F(Copies, ANodeThatCannotMakeACopyEndsTheAttempt) {
  const Key key = Accepted(GpuJob(2, 1));
  core.Ready("gpu1", key, Facts(true, false));
  core.Ready("gpu2", key, Facts(false, false));
  core.Ready("gpu1", key, Facts(true, true));
  core.Ready("gpu2", key, Facts(false, true));
  const JobView view = core.View(key.job);
  EXPECT_EQ(view.state, JobState::kFailed);
  EXPECT_EQ(view.sub_reason, "PREFLIGHT");
}

TEST_F(Copies, WithoutACopyAMissingDirectoryEndsTheAttempt) {
  core.context.snapshot.clear();
  const Key key = Accepted(GpuJob(2, 1));
  core.Ready("gpu1", key, Facts(true, false));
  core.Ready("gpu2", key, Facts(false, false));
  EXPECT_EQ(core.View(key.job).state, JobState::kFailed);
}

TEST_F(Copies, AskedForNothingIsStagedInPlace) {
  JobSpec spec = GpuJob(2, 1);
  spec.snapshot = true;
  const Key key = Accepted(spec);
  for (const char* node : {"gpu1", "gpu2"}) {
    EXPECT_TRUE(core.Told<to_node::Stage>(node).use_snapshot);
  }
  core.Ready("gpu1", key, Facts(true, true));
  core.Ready("gpu2", key, Facts(true, true));
  EXPECT_TRUE(core.WasTold<to_node::Go>("gpu1"));
}

TEST_F(Copies, AskedForAndNotUploadedIsRefused) {
  core.context.snapshot.clear();
  JobSpec spec = GpuJob(1, 1);
  spec.snapshot = true;
  const auto answer = core.Answer<reply::Submitted>(core.Submit(spec));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Copies, TheOwnerSeesCommitAndDiff) {
  core.context.git_commit = "abc";
  core.context.git_diff = "-lr = 1\n+lr = 2\n";
  const JobId job = core.Submitted(GpuJob(1, 1));
  const JobView view = core.View(job);
  EXPECT_EQ(view.git_commit, "abc");
  EXPECT_EQ(view.git_diff, core.context.git_diff);
}

}  // namespace
}  // namespace launch::controller
