#include "controller/core/ownership.h"

#include "controller/core/draft.h"
#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

const Caller kOwner{UserName{"ana"}, false};
const Caller kOther{UserName{"an"}, false};  // the beginning of the owner's name is another's
const Caller kOperator{UserName{"op"}, true};

// Every cell, written out here a second time: w = owner, p = operator, o = any other user.
TEST(Ownership, EveryCellIsAsWritten) {
  const std::map<JobAct, std::string> cells = {
      {JobAct::kSeeInFull, "wp"}, {JobAct::kCancel, "wp"},  {JobAct::kHold, "wp"},
      {JobAct::kRelease, "wp"},   {JobAct::kRequeue, "wp"}, {JobAct::kUpdate, "wp"},
      {JobAct::kExec, "wp"},      {JobAct::kNoteProbe, "w"}};
  ASSERT_EQ(cells.size(), OwnershipTable().size());
  for (const auto& [act, may] : cells) {
    const auto is = [&](char who) { return may.find(who) != std::string::npos; };
    EXPECT_EQ(MayDo(act, kOwner, kOwner.user), is('w')) << NameOf(act);
    EXPECT_EQ(MayDo(act, kOperator, kOwner.user), is('p')) << NameOf(act);
    EXPECT_EQ(MayDo(act, kOther, kOwner.user), is('o')) << NameOf(act);
  }
}

// The same by what the core does, whatever asked it.
struct OthersJobs : testing::Test {
  OthersJobs() {
    core.Attach("gpu1", 1);
    job = core.Submitted(GpuJob(1, 1));
    core.Run(job);
    core.Ignore();
  }
  bool Changes(const Caller& caller, JobAction action) {
    JobChange change;
    change.action = action;
    if (action == JobAction::kUpdate) change.priority = 7;
    const RequestId request{next_++};
    core.Post(event::Change{request, caller, {job}, change});
    const auto answer = core.Answer<reply::Changed>(request);
    const std::optional<Error>& error = answer->results[0].error;
    return !error || error->code != ErrorCode::kPermissionDenied;
  }
  bool Cancels(const Caller& caller) {
    const RequestId request{next_++};
    core.Post(event::Cancel{request, caller, {job}});
    return !core.Answer<reply::Cancelled>(request)->results[0].error;
  }
  bool Execs(const Caller& caller) {
    const RequestId request{next_++};
    core.Post(event::OpenExec{request, caller, job, 0, std::string(32, 'a'), "true"});
    return core.Answer<reply::ExecOpened>(request).has_value();
  }
  bool Sees(const Caller& caller) {
    const RequestId request{next_++};
    core.Post(event::GetJob{request, caller, job});
    return core.Answer<JobView>(request)->spec.has_value();
  }
  bool Notes(const Caller& caller) {
    const RequestId request{next_++};
    core.Post(event::NoteProbe{request, caller, job, {}});
    const auto answer = core.Answer<reply::Done>(request);
    return answer || answer.error().code != ErrorCode::kNotFound;
  }
  TestCore core;
  JobId job;
  std::uint64_t next_ = 500;
};

TEST_F(OthersJobs, EachRequestFollowsTheTable) {
  for (const Caller& caller : {kOther, kOperator, kOwner}) {
    const auto may = [&](JobAct act) { return MayDo(act, caller, kOwner.user); };
    EXPECT_EQ(Sees(caller), may(JobAct::kSeeInFull)) << caller.user.value;
    EXPECT_EQ(Execs(caller), may(JobAct::kExec)) << caller.user.value;
    EXPECT_EQ(Notes(caller), may(JobAct::kNoteProbe)) << caller.user.value;
  }
  for (const Caller& caller : {kOther, kOperator, kOwner}) {  // these end the attempt
    const auto may = [&](JobAct act) { return MayDo(act, caller, kOwner.user); };
    EXPECT_EQ(Changes(caller, JobAction::kHold), may(JobAct::kHold)) << caller.user.value;
    EXPECT_EQ(Changes(caller, JobAction::kRelease), may(JobAct::kRelease)) << caller.user.value;
    EXPECT_EQ(Changes(caller, JobAction::kUpdate), may(JobAct::kUpdate)) << caller.user.value;
    EXPECT_EQ(Changes(caller, JobAction::kRequeue), may(JobAct::kRequeue)) << caller.user.value;
    EXPECT_EQ(Cancels(caller), may(JobAct::kCancel)) << caller.user.value;
  }
}

TEST_F(OthersJobs, ADenialIsAnEventOfTheJobAndNotTooMany) {
  core.Post(event::Denied{"user/ben", "may not cancel it", job});
  EXPECT_EQ(core.rows.back(),
            (EventRow{"access.denied", Subject(job), "user/ben may not cancel it"}));
  core.Post(event::Denied{"user/ben", "may not cancel it", JobId{99}});
  EXPECT_EQ(core.rows.back().subject, "user/ben");
  const std::size_t before = core.rows.size();
  for (int i = 0; i < 1'000; ++i) core.Post(event::Denied{"user/ben", "may not cancel it", job});
  EXPECT_LE(core.rows.size() - before, 128u);
}

}  // namespace
}  // namespace launch::controller
