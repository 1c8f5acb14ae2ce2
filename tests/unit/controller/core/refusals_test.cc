#include "controller/core/refusals.h"

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

constexpr const char* kAway = "ReqNodeNotAvail";

event::Drain Drained(const std::string& node) {
  return {RequestId{9'000}, {UserName{"root"}, true}, NodeId{node}};
}

JobSpec Elements(const std::string& indices) {
  JobSpec spec = GpuJob(1, 1);
  spec.array = *ParseArray(indices);
  return spec;
}

// Three elements that wait for a drained node, and what the first of them was told.
struct Refused : testing::Test {
  Refused() {
    core.Attach("gpu1", 1);
    core.Post(Drained("gpu1"));
    core.Ignore();
    first = core.Answer<reply::Submitted>(core.Submit(Elements("0-2")))->first;
    refusals.Note(core.state.jobs.at(first), away);
  }
  JobRecord Sibling() const { return core.state.jobs.at(JobId{first.value + 1}); }
  TestCore core;
  JobId first;
  const WaitReason away{kAway, "only with nodes that are drained"};
  Refusals refusals{core.state};
};

TEST_F(Refused, HoldsForWhatAsksForTheSame) {
  ASSERT_NE(refusals.Find(Sibling()), nullptr);
  EXPECT_EQ(*refusals.Find(Sibling()), away);
  refusals.Clear();
  EXPECT_EQ(refusals.Find(Sibling()), nullptr);
}

TEST_F(Refused, HoldsForNoOtherOwnerOrNodes) {
  JobRecord other = Sibling();
  other.owner = UserName{"ben"};
  EXPECT_EQ(refusals.Find(other), nullptr);
  other = Sibling();
  other.excluded_nodes["gpu2"] = "failed there";
  EXPECT_EQ(refusals.Find(other), nullptr);
  other = Sibling();
  other.request_digest = "another request";
  EXPECT_EQ(refusals.Find(other), nullptr);
}

TEST_F(Refused, HoldsForNoJobThatWasChangedSince) {
  SpecRecord spec = core.state.specs.at(Sibling().id);
  spec.spec.nodes = {2, 2, false};
  Apply(core.state, Put{spec});
  EXPECT_EQ(refusals.Find(Sibling()), nullptr);
}

TEST_F(Refused, IsNotKnownOfARequestWithoutDigest) {
  JobRecord old = core.state.jobs.at(first);
  old.request_digest.clear();
  refusals.Note(old, away);
  EXPECT_EQ(refusals.Find(old), nullptr);
}

TEST(Queue, TellsAllElementsTheSameAndJudgesAChangedOneByItself) {
  TestCore core;
  core.Attach("gpu1", 4);
  core.Post(Drained("gpu1"));
  core.Attach("gpu2");
  core.Ignore();
  const JobId first = core.Answer<reply::Submitted>(core.Submit(Elements("0-3")))->first;
  const JobId third{first.value + 2};
  SpecRecord spec = core.state.specs.at(third);
  spec.spec.nodes = {2, 2, false};
  Apply(core.state, Put{spec});
  const JobId behind = core.Submitted(CpuJob(1));
  const WaitReason reason = core.View(first).reason;
  EXPECT_EQ(reason.code, kAway);
  EXPECT_NE(reason.evidence.find("gpu1"), std::string::npos) << reason.evidence;
  EXPECT_EQ(core.View(JobId{first.value + 1}).reason, reason);
  EXPECT_EQ(core.View(JobId{first.value + 3}).reason, reason);
  EXPECT_EQ(core.View(third).reason.code, "NeverFits");
  EXPECT_EQ(core.View(behind).state, JobState::kStarting) << "they hold up nobody";
}

}  // namespace
}  // namespace launch::controller
