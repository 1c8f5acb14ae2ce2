// What runs on a node and should not, or without its record: left alone, said, ended by a person.
#include <algorithm>

#include "controller/core/draft.h"
#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Strangers : testing::Test {
  Strangers() {
    core.Attach("gpu1", 1);
    core.Ignore();
  }
  void Back(const AllocationStatus& status) {
    from_node::Hello hello;
    hello.allocations = {status};
    core.Detach("gpu1");
    core.Attach(MakeInventory("gpu1", 1), hello);
  }
  Result<reply::Quarantined> Ask(QuarantineAction action, const std::string& what) {
    const RequestId request{next_++};
    core.Post(event::Quarantine{request, {UserName{"root"}, true}, action, what});
    return core.Answer<reply::Quarantined>(request);
  }
  TestCore core;
  std::uint64_t next_ = 700;
};

TEST_F(Strangers, WithoutGpusKeepTheNodeFromJobsAndAreEndedByAVerb) {
  const Key key{JobId{50}, Attempt{2}};
  Back({.key = key, .digest = "?", .phase = AllocationPhase::kStarted});
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  EXPECT_EQ(core.Node("gpu1").reason, "runs 50.2, of no job here: launch quarantine release 50.2");
  const JobId job = core.Submitted(GpuJob(1, 1));
  EXPECT_TRUE(core.View(job).attempts.empty()) << "not beside it";
  const auto rows = Ask(QuarantineAction::kList, "");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->gpus.size(), 1u);
  EXPECT_EQ(rows->gpus[0].key, key);
  ASSERT_TRUE(Ask(QuarantineAction::kRetest, "50.2"));
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  ASSERT_TRUE(Ask(QuarantineAction::kRelease, "50.2"));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  EXPECT_TRUE(core.HasEvent("allocation.ended"));
  EXPECT_FALSE(core.Node("gpu1").schedulable) << "until it is gone";
  core.Release("gpu1", key);
  EXPECT_EQ(core.Told<to_node::Forget>("gpu1").key, key);
  EXPECT_TRUE(core.Node("gpu1").schedulable);
  EXPECT_EQ(core.View(job).attempts.size(), 1u);
}

TEST_F(Strangers, OnGpusAreEndedWithTheReleaseOfTheGpu) {
  const Key key{JobId{50}, Attempt{1}};
  AllocationStatus status{.key = key, .digest = "?", .phase = AllocationPhase::kStarted};
  status.gpus = {GpuUuid{"GPU-gpu1-0"}};
  Back(status);
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  ASSERT_TRUE(Ask(QuarantineAction::kRelease, "GPU-gpu1-0"));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
}

TEST_F(Strangers, ThatBeginByTheWordOfTheStoreOfBeforeAreLeftAlone) {
  const Key key{JobId{50}, Attempt{1}};
  AllocationStatus status{.key = key, .digest = "?", .phase = AllocationPhase::kReady};
  status.gpus = {GpuUuid{"GPU-gpu1-0"}};
  Back(status);
  core.Say("gpu1", from_node::Started{.key = key, .pids = {{0, 4711}}});
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  EXPECT_EQ(core.state.quarantine.size(), 1u);
}

TEST_F(Strangers, AreForgottenWhereTheyNeverBegan) {
  const Key key{JobId{50}, Attempt{1}};
  Back({.key = key, .digest = "?", .phase = AllocationPhase::kDropped});
  EXPECT_EQ(core.Told<to_node::Forget>("gpu1").key, key);
}

TEST_F(Strangers, AreNotEndedByUsers) {
  const Key key{JobId{50}, Attempt{1}};
  Back({.key = key, .digest = "?", .phase = AllocationPhase::kStarted});
  core.Post(event::Quarantine{
      RequestId{800}, {UserName{"ana"}, false}, QuarantineAction::kRelease, "50.1"});
  EXPECT_FALSE(core.Answer<reply::Quarantined>(RequestId{800}));
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
}

// The store is of before they began: a backup, or a copy of its disk.
struct NewerAttempt : Strangers {
  NewerAttempt() {
    core.Detach("gpu1");
    key = Key{core.Submitted(GpuJob(1, 1)), Attempt{1}};
    hello.allocations = {{.key = key, .digest = "?", .phase = AllocationPhase::kStarted}};
    hello.allocations[0].gpus = {GpuUuid{"GPU-gpu1-0"}};
  }
  void Return() { core.Attach(MakeInventory("gpu1", 1), hello); }
  std::size_t Attempts() { return core.View(key.job).attempts.size(); }
  void Requeue() {
    core.Post(event::Change{
        RequestId{820}, {UserName{"ana"}, false}, {key.job}, {.action = JobAction::kRequeue}});
    ASSERT_TRUE(core.Answer<reply::Changed>(RequestId{820}));
  }
  // What a controller that begins with these records makes of them; false: it does not.
  bool StartAgain(State& state) {
    const PlanDecoder decode = [](std::string_view, const std::string&) -> Result<StoredPlan> {
      return StoredPlan{};
    };
    return controller::Start(state, decode, "x", core.now).has_value();
  }
  Key key;
  from_node::Hello hello;
};

TEST_F(NewerAttempt, RunsOnAndItsJobDoesNotStartBesideIt) {
  Return();
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  ASSERT_EQ(core.state.quarantine.size(), 1u);
  core.Attach("gpu2", 1);
  EXPECT_EQ(Attempts(), 0u) << "not on another node either";
  const std::string why = core.View(key.job).reason.evidence;
  EXPECT_NE(why.find("gpu1 runs " + ToString(key)), std::string::npos) << why;
  core.Detach("gpu1");
  EXPECT_EQ(Attempts(), 0u) << "a silent node runs it still";
  Return();
  core.Release("gpu1", key);
  EXPECT_TRUE(core.state.quarantine.empty());
  EXPECT_EQ(Attempts(), 1u);
}

TEST_F(NewerAttempt, KeepsItsNodeFromBeingForgottenUntilThatIsFenced) {
  Return();
  core.Detach("gpu1");
  const auto forget = [&](std::uint64_t request) {
    core.Post(event::ForgetNode{RequestId{request}, {UserName{"root"}, true}, NodeId{"gpu1"}});
    return core.Answer<reply::Done>(RequestId{request}).has_value();
  };
  EXPECT_FALSE(forget(810)) << "its job would begin beside it";
  core.Attach("gpu2", 1);
  EXPECT_EQ(Attempts(), 0u);
  core.Post(event::FenceNode{RequestId{811}, {UserName{"root"}, true}, NodeId{"gpu1"}});
  ASSERT_TRUE(core.Answer<reply::Done>(RequestId{811}));
  EXPECT_TRUE(forget(812));
  EXPECT_EQ(Attempts(), 1u);
}

TEST_F(NewerAttempt, IsRecalledByARestartOfTheController) {
  Return();
  State again;
  for (const auto& [id, record] : core.state.jobs) Apply(again, Put{record});
  for (const auto& [id, record] : core.state.specs) Apply(again, Put{record});
  for (const auto& [id, record] : core.state.quarantine) Apply(again, Put{record});
  ASSERT_TRUE(StartAgain(again));
  EXPECT_TRUE(again.live.unknown.contains(key));
}

TEST_F(NewerAttempt, IsStoppedWithItsJob) {
  Return();
  core.Cancel(key.job);
  const auto stop = core.Told<to_node::Stop>("gpu1");
  EXPECT_EQ(stop.key, key);
  EXPECT_GT(stop.grace, Millis{0});
  core.Ignore();
  core.Detach("gpu1");
  Return();
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key) << "its node was away when it was cancelled";
}

TEST_F(NewerAttempt, IsStoppedByThePersonWhoReleasesItsGpu) {
  Return();
  ASSERT_TRUE(Ask(QuarantineAction::kRelease, ToString(key)));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  EXPECT_EQ(Attempts(), 0u) << "until it is gone";
}

TEST_F(NewerAttempt, OnANodeThatIsRefusedForItKeepsItsJobToo) {
  hello.seen = {core.state.cluster.incarnation, core.state.cluster.epoch, 71};
  hello.boot_id = core.boot["gpu1"];
  hello.machine.install_id = "install-gpu1";
  hello.inventory = MakeInventory("gpu1", 1);
  core.Post(event::NodeAttached{SessionId{901}, NodeId{"gpu1"}, hello, "", 70});
  EXPECT_TRUE(core.Closed(SessionId{901}));
  EXPECT_NE(core.Node("gpu1").reason.find("went back in time"), std::string::npos);
  core.Attach("gpu2", 1);
  EXPECT_EQ(Attempts(), 0u);
  EXPECT_NE(core.View(key.job).reason.evidence.find("gpu1 runs"), std::string::npos);
}

TEST_F(NewerAttempt, KeepsAJobThatIsDoneHereFromBeginningBesideItWhenItIsRequeued) {
  core.Attach("gpu1", 1);
  ASSERT_EQ(core.Run(key.job), key);
  core.Exit("gpu1", key, 0, Exited{0});
  core.Release("gpu1", key);
  ASSERT_EQ(core.View(key.job).state, JobState::kSucceeded);
  const Key newer{key.job, Attempt{2}};
  core.Detach("gpu1");
  hello.allocations[0].key = newer;
  Return();
  core.Attach("gpu2", 1);
  Requeue();
  EXPECT_EQ(Attempts(), 1u);
  EXPECT_NE(core.View(key.job).reason.evidence.find("gpu1 runs " + ToString(newer)),
            std::string::npos);
  core.Detach("gpu1");
  Return();
  EXPECT_EQ(Attempts(), 1u);
  core.Release("gpu1", newer);
  EXPECT_EQ(Attempts(), 2u);
}

TEST_F(NewerAttempt, OfAJobThatWasCancelledBeforeItIsLeftAlone) {
  core.Attach("gpu1", 1);
  ASSERT_EQ(core.Run(key.job), key);
  core.Cancel(key.job);
  core.Release("gpu1", key);
  ASSERT_EQ(core.View(key.job).state, JobState::kCancelled);
  core.state.live.cancelled
      .clear();  // by the controller before, whose store is of before a requeue
  core.Detach("gpu1");
  hello.allocations[0].key = Key{key.job, Attempt{2}};
  core.Ignore();
  Return();
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  EXPECT_EQ(core.state.quarantine.size(), 1u);
}

TEST_F(NewerAttempt, IsNotStoppedByACancelThatTheStoreCouldNotTake) {
  core.Attach("gpu1", 1);
  ASSERT_EQ(core.Run(key.job), key);
  core.Cancel(key.job);
  core.state.live.cancelled.clear();  // by the controller before
  const Key newer{key.job, Attempt{2}};
  hello.allocations[0].key = newer;
  const auto is_stopped = [&] {
    return std::ranges::any_of(core.effects, [&](const Effect& effect) {
      const auto* send = std::get_if<effect::Send>(&effect);
      const auto* stop = send == nullptr ? nullptr : std::get_if<to_node::Stop>(&send->message);
      return stop != nullptr && stop->key == newer;
    });
  };
  const auto come_back = [&] {
    core.Detach("gpu1");
    core.Ignore();
    Return();
  };
  const event::Cancel cancel{RequestId{841}, {UserName{"ana"}, false}, {key.job}};
  Undo(core.state, Decide(core.state, cancel, core.now));
  come_back();
  EXPECT_FALSE(is_stopped());
  core.Cancel(key.job);
  EXPECT_TRUE(is_stopped());
  Undo(core.state, Decide(core.state, cancel, core.now));
  come_back();
  EXPECT_TRUE(is_stopped()) << "the cancel before it was taken";
}

TEST_F(NewerAttempt, HoldsItsGpuAndItsJobWhileItIsStopped) {
  Return();
  core.Detach("gpu1");
  core.Cancel(key.job);
  core.Ignore();
  Return();
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  ASSERT_EQ(core.state.quarantine.size(), 1u);
  core.Attach("gpu2", 1);
  Requeue();
  EXPECT_EQ(Attempts(), 0u) << "not beside what dies";
  core.Release("gpu1", key);
  EXPECT_TRUE(core.state.quarantine.empty());
  ASSERT_EQ(Attempts(), 1u);
  EXPECT_EQ(core.View(key.job).attempts.at(0).attempt, Attempt{2}) << "numbers are given once";
}

TEST_F(NewerAttempt, WhoseGpusAreNotHereKeepsItsNodeFromJobs) {
  hello.allocations[0].key = Key{JobId{60}, Attempt{1}};
  hello.allocations[0].gpus = {GpuUuid{"GPU-gone"}};
  Return();
  EXPECT_FALSE(core.Node("gpu1").schedulable);
  EXPECT_TRUE(Ask(QuarantineAction::kRelease, "60.1")) << "as its event says";
}

TEST_F(NewerAttempt, OnASilentNodeNamesTheFence) {
  Return();
  core.Detach("gpu1");
  core.Attach("gpu2", 1);
  const std::string why = core.View(key.job).reason.evidence;
  EXPECT_NE(why.find("launch node fence gpu1"), std::string::npos) << why;
}

TEST_F(NewerAttempt, StaysAwaitedAfterAFenceThatTheStoreCouldNotTake) {
  Return();
  core.Detach("gpu1");
  core.Attach("gpu2", 1);
  const event::FenceNode fence{RequestId{830}, {UserName{"root"}, true}, NodeId{"gpu1"}};
  Undo(core.state, Decide(core.state, fence, core.now));
  core.Beat("gpu2");
  EXPECT_EQ(Attempts(), 0u);
}

TEST_F(Strangers, AFenceThatTheStoreCouldNotTakeEndsNothingThatIsPrepared) {
  const Key key{core.Submitted(GpuJob(1, 1)), Attempt{1}};
  ASSERT_EQ(core.Phase(key), AttemptPhase::kPreparing);
  core.Detach("gpu1");
  const event::FenceNode fence{RequestId{831}, {UserName{"root"}, true}, NodeId{"gpu1"}};
  const Decision refused = Decide(core.state, fence, core.now);
  ASSERT_NE(core.Phase(key), AttemptPhase::kPreparing);
  Undo(core.state, refused);
  EXPECT_TRUE(core.state.live.attempts.at(key).lost.empty());
  core.Attach("gpu2", 1);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kPreparing);
}

TEST_F(NewerAttempt, EndsWhatTheStoreTakesForTheNewestWithoutBlame) {
  core.Attach("gpu1", 1);
  ASSERT_EQ(core.Run(key.job), key);
  core.Detach("gpu1");
  const Key newer{key.job, Attempt{2}};
  hello.allocations[0].key = newer;
  Return();
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key) << "of the newer one there is none";
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  core.Release("gpu1", key);
  const JobView view = core.View(key.job);
  EXPECT_EQ(view.state, JobState::kRequeued);
  EXPECT_TRUE(core.state.jobs.at(key.job).excluded_nodes.empty());
  EXPECT_TRUE(core.state.jobs.at(key.job).retries.empty());
  EXPECT_NE(view.reason.evidence.find("gpu1 runs " + ToString(newer)), std::string::npos)
      << view.reason.evidence;
}

TEST_F(NewerAttempt, IsAwaitedAfterEachStartOfAStoreThatWentBack) {
  Return();
  State again;
  ClusterRecord cluster = core.state.cluster;
  cluster.incarnation = 2;
  Apply(again, Put{cluster});
  for (const auto& [id, record] : core.state.nodes) Apply(again, Put{record});
  for (const auto& [id, record] : core.state.jobs) Apply(again, Put{record});
  for (const auto& [id, record] : core.state.specs) Apply(again, Put{record});
  ASSERT_TRUE(StartAgain(again));
  EXPECT_NE(again.live.reasons.at(key.job).evidence.find("gpu1"), std::string::npos);
  EXPECT_EQ(NextDeadline(again), core.now.boot + kReturnTime);
  Now later = core.now;
  later.boot += kReturnTime;
  Decide(again, event::Tick{}, later);
  EXPECT_EQ(again.live.reasons.at(key.job).evidence.find("tells what it runs"), std::string::npos);
}

TEST_F(NewerAttempt, OfANodeThatComesWhileItsJobIsPreparedEndsThat) {
  core.Attach("gpu2", 1);
  core.Ignore();
  EXPECT_EQ(core.Phase(key), AttemptPhase::kPreparing);
  hello.allocations[0].key = Key{key.job, Attempt{2}};
  Return();
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").key, key);
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
}

TEST_F(NewerAttempt, IsNotJoinedByWhatWasPreparedAfterAHelloThatTheStoreCouldNotTake) {
  core.Attach("gpu2", 1);
  ASSERT_EQ(core.Phase(key), AttemptPhase::kPreparing);
  event::NodeAttached back{SessionId{900}, NodeId{"gpu1"}, hello};
  back.hello.allocations[0].key = Key{key.job, Attempt{2}};
  back.hello.boot_id = core.boot.at("gpu1");
  back.hello.machine.install_id = "install-gpu1";
  back.hello.inventory = MakeInventory("gpu1", 1);
  Undo(core.state, Decide(core.state, back, core.now));
  core.session["gpu1"] = back.session;
  ASSERT_EQ(core.Phase(key), AttemptPhase::kPreparing);
  core.Ignore();
  core.Accept("gpu2", key);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").key, key);
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu2"));
}

// An agent that was installed anew found the processes, and no record of theirs.
TEST_F(Strangers, RanksOfThisAttemptWithoutTheirRecordRunOn) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  for (int times = 0; times < 3; ++times) {
    Back({.key = key, .digest = "", .phase = AllocationPhase::kStarted});
    EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
    EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  }
  EXPECT_EQ(std::ranges::count(core.rows, "allocation.unrecorded", &EventRow::kind), 1);
  ASSERT_EQ(core.View(job).findings.size(), 1U);
  EXPECT_EQ(core.View(job).findings.front().code, "record_lost");
  core.Cancel(job);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key) << "who knows says so";
}

// An agent that was installed anew and says nothing of what the one before it ran.
struct InstalledAnew : Strangers {
  static constexpr const char* kOurs = "/sys/fs/cgroup/launch-gpu1-0a1b2c3d";
  static constexpr const char* kNone = "";
  Key RunIn(const std::string& cgroups) {
    core.Attach(MakeInventory("gpu1", 1), {.cgroups = cgroups});
    return core.Run(core.Submitted(GpuJob(1, 1)));
  }
  void Return(const std::string& cgroups) {
    core.Detach("gpu1");
    core.state.nodes.at(NodeId{"gpu1"}).machine = MachineIdentity{};  // its certificate is new
    from_node::Hello hello;
    hello.machine.install_id = "install-anew";
    hello.cgroups = cgroups;
    core.Attach(MakeInventory("gpu1", 1), hello);
  }
};

TEST_F(InstalledAnew, WithoutControlGroupsProvesNoEnd) {
  const Key key = RunIn(kNone);
  for (int times = 0; times < 3; ++times) {
    Return(kNone);
    EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
    EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  }
  EXPECT_EQ(std::ranges::count(core.rows, "allocation.unseen", &EventRow::kind), 1);
  ASSERT_EQ(core.View(key.job).findings.size(), 1U);
  EXPECT_EQ(core.View(key.job).findings.front().code, "record_lost");
  core.Cancel(key.job);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key) << "who knows says so";
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(key.job).state, JobState::kCancelled);
}

TEST_F(InstalledAnew, EndsWhatAnyUserRequeues) {
  core.user = UserName{"restore"};
  const Key key = RunIn(kNone);
  Return(kNone);
  JobChange change;
  change.action = JobAction::kRequeue;
  core.Post(event::Change{RequestId{9'001}, {core.user, false}, {key.job}, change});
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
}

// A failing peer, a limit or a hang ends an attempt as well: none of them says that these ranks
// ended.
TEST_F(InstalledAnew, KeepsTheAttemptUntilSomebodySaysThatItsRanksEnded) {
  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  core.Attach("gpu3", 2);
  JobSpec spec = GpuJob(2, 1);
  spec.retry.max = 2;
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  ASSERT_TRUE(core.state.allocs.at(key).contains(NodeId{"gpu1"}));
  Return(kNone);
  ASSERT_TRUE(core.HasEvent("allocation.unseen"));
  core.Ignore();
  const auto& [other, part] = *std::ranges::find_if(
      core.state.allocs.at(key), [](const auto& entry) { return entry.first.value != "gpu1"; });
  const std::string peer = other.value;
  core.Exit(peer, key, part.ranks.front(), Exited{1});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  core.Release(peer, key);
  for (int times = 0; times < 3; ++times) {
    core.Pass(Millis{60'000});
    core.Beat("gpu1");
    Return(kNone);
  }
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  EXPECT_EQ(core.View(job).reason.code, "RanksUnseen");
  EXPECT_EQ(core.View(job).attempts.size(), 1U);
  EXPECT_EQ(core.state.gpu_owner.at(GpuUuid{"GPU-gpu1-0"}), key) << "nobody else gets it";
  core.Cancel(job);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
}

TEST_F(InstalledAnew, IsNotToldToStartWhatMayRunAlready) {
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key{job, Attempt{1}};
  core.Accept("gpu1", key);
  core.Ready("gpu1", key);
  ASSERT_EQ(core.Phase(key), AttemptPhase::kLaunching);
  core.Ignore();
  Return(kNone);
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu1"));
  EXPECT_FALSE(core.WasTold<to_node::Prepare>("gpu1"));
}

// The ranks are those of the agent before: nobody prolongs their lease.
TEST_F(InstalledAnew, LetsALeaseEndWhatItCannotSee) {
  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  JobSpec spec = GpuJob(1, 1);
  spec.requeue_after = Millis{600'000};
  spec.retry.max = 2;
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  ASSERT_TRUE(core.state.allocs.at(key).contains(NodeId{"gpu1"}));
  Return(kNone);
  const auto wait = [&](Millis time) {
    for (Millis passed{0}; passed < time; passed += Millis{1'000}) {
      core.Pass(Millis{1'000});
      core.Beat("gpu1");
      core.Beat("gpu2");
    }
  };
  wait(Millis{628'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  wait(Millis{4'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kEnded);
  EXPECT_EQ(core.View(job).attempts.at(0).outcome, "node_fail");
  EXPECT_FALSE(core.state.live.nodes.at(NodeId{"gpu1"}).silent) << "the node itself is well";
}

TEST_F(InstalledAnew, LetsALeaseEndThemAgainWhereTheStoreCouldNotTakeIt) {
  core.Attach(MakeInventory("gpu1", 1), {.cgroups = kNone});
  JobSpec spec = GpuJob(1, 1);
  spec.requeue_after = Millis{60'000};
  const Key key = core.Run(core.Submitted(spec));
  Return(kNone);
  core.now.boot += Millis{100'000};
  core.Beat("gpu1");
  const Decision refused = Decide(core.state, event::Tick{}, core.now);
  ASSERT_EQ(core.Phase(key), AttemptPhase::kEnded);
  Undo(core.state, refused);
  ASSERT_EQ(core.Phase(key), AttemptPhase::kRunning);
  Decide(core.state, event::Tick{}, core.now);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kEnded);
}

// Its ranks have ended, and that was told: nobody need look.
TEST_F(InstalledAnew, GivesBackWhatHasEndedBefore) {
  const Key key = RunIn(kNone);
  core.Exit("gpu1", key, 0, Exited{0});
  ASSERT_EQ(core.View(key.job).state, JobState::kSucceeded);
  core.Ignore();
  Return(kNone);
  EXPECT_FALSE(core.HasEvent("allocation.unseen"));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
}

// The Stop had not reached the agent before; who asked then did not know that nobody sees them.
TEST_F(InstalledAnew, IsNotWhatWasAskedForBefore) {
  const Key key = RunIn(kNone);
  core.Cancel(key.job);
  core.Ignore();
  for (int times = 0; times < 2; ++times) {
    Return(kNone);
    EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
    EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
    EXPECT_EQ(core.View(key.job).reason.code, "RanksUnseen");
  }
  core.Cancel(key.job);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(key.job).state, JobState::kCancelled);
}

TEST_F(InstalledAnew, KeepsAGpuThatWasHeldForWhatItCannotSee) {
  const Key key = RunIn(kNone);
  core.Cancel(key.job);
  core.Release("gpu1", key, {{GpuUuid{"GPU-gpu1-0"}, "D state"}});
  ASSERT_EQ(core.View(key.job).state, JobState::kCancelled);
  Return(kNone);
  EXPECT_EQ(core.state.quarantine.size(), 1u);
  ASSERT_TRUE(Ask(QuarantineAction::kRelease, "gpu1"));
  EXPECT_TRUE(core.state.quarantine.empty());
}

TEST_F(InstalledAnew, KeepsGpusOfAttemptsThatAreNotKnownHere) {
  const Key key{JobId{50}, Attempt{1}};
  AllocationStatus status{.key = key, .digest = "?", .phase = AllocationPhase::kStarted};
  status.gpus = {GpuUuid{"GPU-gpu1-0"}};
  Back(status);
  Return(kNone);
  ASSERT_EQ(core.state.quarantine.size(), 1u) << "a process that nobody sees may have it";
  const auto rows = Ask(QuarantineAction::kList, "");
  ASSERT_TRUE(rows);
  EXPECT_NE(rows->gpus.at(0).why.find("installed anew"), std::string::npos);
  Return(kNone);
  EXPECT_EQ(core.state.quarantine.size(), 1u) << "also when that one says Hello again";
  ASSERT_TRUE(Ask(QuarantineAction::kRelease, "gpu1"));
  EXPECT_TRUE(core.state.quarantine.empty());
}

TEST_F(InstalledAnew, KeepsTheJobOfAnAttemptThatIsNotKnownHereToo) {
  core.Detach("gpu1");
  const Key key{core.Submitted(GpuJob(1, 1)), Attempt{1}};
  AllocationStatus status{.key = key, .digest = "?", .phase = AllocationPhase::kStarted};
  status.gpus = {GpuUuid{"GPU-gpu1-0"}};
  Back(status);
  Return(kNone);
  core.Attach("gpu2", 1);
  EXPECT_TRUE(core.View(key.job).attempts.empty()) << "it may run there still";
  core.Release("gpu1", key);
  EXPECT_EQ(core.state.quarantine.size(), 1u) << "who cannot see it proves nothing of it";
  EXPECT_TRUE(core.View(key.job).attempts.empty());
  ASSERT_TRUE(Ask(QuarantineAction::kRelease, ToString(key)));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  core.Release("gpu1", key);
  ASSERT_EQ(core.View(key.job).attempts.size(), 1u);
  EXPECT_EQ(core.View(key.job).attempts.at(0).attempt, Attempt{2});
}

TEST_F(InstalledAnew, TakesNoWordThatTheStoreCouldNotKeep) {
  const Key key = RunIn(kNone);
  Return(kNone);
  const event::Cancel cancel{RequestId{840}, {UserName{"ana"}, false}, {key.job}};
  Undo(core.state, Decide(core.state, cancel, core.now));
  core.Ignore();
  Return(kNone);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
}

TEST_F(InstalledAnew, KeepsGpusOfWhichNobodyKnowsTheHolder) {
  from_node::Hello hello;
  hello.held = {{GpuUuid{"GPU-gpu1-0"}, "D state"}};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  ASSERT_EQ(core.state.quarantine.begin()->second.key, Key{});
  Return(kNone);
  EXPECT_EQ(core.state.quarantine.size(), 1u);
  core.Detach("gpu1");
  from_node::Hello booted;
  booted.machine.install_id = "install-anew";
  booted.boot_id = "the next boot";
  core.Attach(MakeInventory("gpu1", 1), booted);
  EXPECT_TRUE(core.state.quarantine.empty()) << "nothing lives on over a boot";
}

TEST_F(InstalledAnew, FreesAGpuOfWhichItSeesWhatHadIt) {
  core.Attach(MakeInventory("gpu1", 1), {.cgroups = kOurs});
  from_node::Hello hello;
  hello.cgroups = kOurs;
  hello.held = {{GpuUuid{"GPU-gpu1-0"}, "D state"}};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  ASSERT_EQ(core.state.quarantine.size(), 1u);
  Return(kOurs);
  EXPECT_TRUE(core.state.quarantine.empty());
}

TEST_F(InstalledAnew, IsForgottenWhenTheNodeWasBooted) {
  const Key key = RunIn(kNone);
  Return(kNone);
  ASSERT_TRUE(core.HasEvent("allocation.unseen"));
  core.Detach("gpu1");
  from_node::Hello hello;
  hello.machine.install_id = "install-anew";
  hello.boot_id = "the next boot";
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_NE(core.Phase(key), AttemptPhase::kRunning) << "nothing lives on over a boot";
}

TEST_F(InstalledAnew, FindsWhatIsInTheGroupsInWhichItLooked) {
  const Key key = RunIn(kOurs);
  Return(kOurs);
  EXPECT_FALSE(core.HasEvent("allocation.unseen"));
  EXPECT_NE(core.Phase(key), AttemptPhase::kRunning) << "nothing is left of it";
}

TEST_F(InstalledAnew, DoesNotFindWhatIsInGroupsElsewhere) {
  const Key key = RunIn(kOurs);
  Return("/sys/fs/cgroup/gpu/launch-gpu1-0a1b2c3d");
  EXPECT_TRUE(core.HasEvent("allocation.unseen"));
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
}

TEST_F(InstalledAnew, DoesNotFindWhatIsInGroupsThatAnotherAgentHas) {
  const Key key = RunIn(kOurs);
  Return(kNone);
  EXPECT_TRUE(core.HasEvent("allocation.unseen"));
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
}

TEST_F(Strangers, TheEndOfRanksWithoutARecordIsSeenWhenTheyAreGone) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  Back({.key = key, .digest = "", .phase = AllocationPhase::kStarted});
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).attempts[0].outcome, "node_fail");
  EXPECT_EQ(core.View(job).state, JobState::kRequeued);
  EXPECT_TRUE(core.state.ranks.at(key).at(0).exit.has_value()) << "unknown, but not missing";
}

// What is being stopped runs until it is proved gone, also for an agent without its record.
TEST_F(Strangers, RanksWithoutTheirRecordThatAreBeingStoppedHaveNotEnded) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  core.Cancel(job);
  core.Ignore();
  Back({.key = key, .digest = "", .phase = AllocationPhase::kStarted});
  EXPECT_FALSE(core.HasEvent("rank.exited"));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
  EXPECT_TRUE(core.state.ranks.at(key).at(0).exit.has_value());
}

TEST_F(Strangers, OfAnAttemptThatHasNoPartThereAreForgottenOnceTheyAreGone) {
  core.Attach("gpu2", 1);
  const Key key = core.Run(core.Submitted(GpuJob(1, 1)));
  const std::string other = core.state.allocs.at(key).contains(NodeId{"gpu1"}) ? "gpu2" : "gpu1";
  from_node::Hello hello;
  hello.allocations = {{.key = key, .digest = "x", .phase = AllocationPhase::kDropped}};
  core.Detach(other);
  core.Attach(MakeInventory(other, 1), hello);
  EXPECT_EQ(core.Told<to_node::Forget>(other).key, key);
}

// Its list of GPUs is lost with its record: all of the node are held, until it is gone.
TEST_F(Strangers, GpusHeldForADamagedRecordAreFreeWithItsEnd) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  from_node::Hello hello;
  hello.allocations = {{.key = key, .digest = "", .phase = AllocationPhase::kStarted}};
  hello.held = {{GpuUuid{"GPU-gpu1-0"}, "accept: cut short"}};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  EXPECT_EQ(core.state.quarantine.size(), 1u);
  core.Exit("gpu1", key, 0, Exited{0});
  EXPECT_EQ(core.View(job).state, JobState::kSucceeded);
  EXPECT_EQ(core.state.quarantine.size(), 1u) << "until the node has proved that nothing is left";
  core.Release("gpu1", key);
  EXPECT_TRUE(core.state.quarantine.empty());
}

TEST_F(Strangers, AGpuThatTwoDamagedRecordsMayNameIsNotFreeWithTheEndOfOne) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  from_node::Hello hello;
  hello.allocations = {{.key = key, .digest = "", .phase = AllocationPhase::kStarted},
                       {.key = Key{JobId{77}, Attempt{1}}, .digest = ""}};
  hello.held = {{GpuUuid{"GPU-gpu1-0"}, "accept: cut short"}};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  core.Exit("gpu1", key, 0, Exited{0});
  core.Release("gpu1", key);
  EXPECT_EQ(core.state.quarantine.size(), 1u);
  core.Release("gpu1", Key{JobId{77}, Attempt{1}});
  EXPECT_TRUE(core.state.quarantine.empty()) << "the last one has given it back";
}

// It was held for one that is over; what the node says now has another cause.
TEST_F(Strangers, AGpuIsFreeWithTheEndOfTheOneThatTheNewestHelloNames) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key before = core.Run(job);
  core.Cancel(job);
  core.Release("gpu1", before, {{GpuUuid{"GPU-gpu1-0"}, "D state"}});
  ASSERT_EQ(core.state.quarantine.at(GpuUuid{"GPU-gpu1-0"}).key, before);
  const Key damaged{JobId{77}, Attempt{1}};
  from_node::Hello hello;
  hello.allocations = {{.key = damaged, .digest = "", .phase = AllocationPhase::kStarted}};
  hello.held = {{GpuUuid{"GPU-gpu1-0"}, "accept: cut short"}};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_EQ(core.state.quarantine.size(), 1u);
  core.Release("gpu1", damaged);
  EXPECT_TRUE(core.state.quarantine.empty());
}

// While it is being stopped, an agent says of a damaged record no longer what it may hold.
TEST_F(Strangers, AGpuStaysHeldForADamagedRecordThatIsBeingStopped) {
  const Key key = core.Run(core.Submitted(GpuJob(1, 1)));
  const Key damaged{JobId{77}, Attempt{1}};
  from_node::Hello hello;
  hello.allocations = {{.key = key, .digest = "", .phase = AllocationPhase::kStarted},
                       {.key = damaged, .digest = "", .phase = AllocationPhase::kStarted}};
  hello.held = {{GpuUuid{"GPU-gpu1-0"}, "accept: cut short"}};
  const auto back = [&] {
    core.Detach("gpu1");
    core.Attach(MakeInventory("gpu1", 1), hello);
  };
  back();
  hello.held.clear();
  back();
  EXPECT_EQ(core.state.quarantine.size(), 1u);
  core.Release("gpu1", key);
  core.Release("gpu1", damaged);
  EXPECT_TRUE(core.state.quarantine.empty());
}

struct HeldGpu : Strangers {
  // Held by the running attempt, beside `others`, when the node is back; then by nobody's word.
  void ReturnAndRelease(const std::vector<Key>& others) {
    const Key key = core.Run(core.Submitted(GpuJob(1, 1)));
    from_node::Hello hello;
    hello.allocations = {{.key = key, .digest = "", .phase = AllocationPhase::kStarted}};
    for (const Key& other : others) hello.allocations.push_back({.key = other, .digest = ""});
    hello.held = {{GpuUuid{"GPU-gpu1-0"}, "accept: cut short"}};
    core.Detach("gpu1");
    core.Attach(MakeInventory("gpu1", 1), hello);
    core.Exit("gpu1", key, 0, Exited{0});
    core.Release("gpu1", key, {{GpuUuid{"GPU-gpu1-0"}, "process 12"}});
    core.Release("gpu1", key);
  }
};

TEST_F(HeldGpu, ThatTwoMayHoldIsNotFreeWithTheRetestOfTheOneThatSpokeFirst) {
  ReturnAndRelease({Key{JobId{77}, Attempt{1}}});
  EXPECT_EQ(core.state.quarantine.size(), 1u) << "77.1 may have it still";
}

TEST_F(HeldGpu, ThatOneAloneMayHoldIsFreeWithItsRetest) {
  ReturnAndRelease({});
  EXPECT_EQ(core.state.quarantine.size(), 0u);
}

TEST_F(Strangers, NothingAtAllOfARunningAttemptIsALossAsBefore) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  core.Detach("gpu1");
  core.Attach("gpu1", 1);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
}

}  // namespace
}  // namespace launch::controller
