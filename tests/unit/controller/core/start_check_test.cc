// `launch check JOB`: a job that goes as far as a start does without its ranks.
#include <gtest/gtest.h>

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct StartCheck : TwoNodes {
  Key AcceptedCheck() {
    JobSpec spec = GpuJob(2, 1);
    spec.check_only = true;
    return Accepted(std::move(spec));
  }
};

TEST_F(StartCheck, EndsWhereItsRanksWouldBeStarted) {
  const Key key = AcceptedCheck();
  core.Ready("gpu1", key);
  core.Ready("gpu2", key);
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu1"));
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu2"));
  const JobView view = core.View(key.job);
  EXPECT_EQ(view.state, JobState::kSucceeded);
  EXPECT_NE(view.outcome.find("not to be started"), std::string::npos) << view.outcome;
  EXPECT_EQ(view.kind, "check");
}

TEST_F(StartCheck, IsRefusedAsTheStartWouldBe) {
  const Key key = AcceptedCheck();
  StagingFacts facts;
  facts.paths = {{.what = "script", .path = "train.py", .ok = false, .why = "gone", .inode = 0}};
  core.Ready("gpu1", key, facts);
  core.Ready("gpu2", key);
  const JobView view = core.View(key.job);
  EXPECT_EQ(view.state, JobState::kFailed);
  EXPECT_EQ(view.sub_reason, "PREFLIGHT");
  ASSERT_FALSE(view.findings.empty());
  EXPECT_EQ(view.findings[0].code, "command_missing");
}

}  // namespace
}  // namespace launch::controller
