#include <algorithm>

#include "controller/core/draft.h"
#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Node : testing::Test {
  Node() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
    core.Ignore();
  }
  // What an agent says that still runs all its ranks.
  from_node::Hello Running(const std::string& node, Key key) {
    from_node::Hello hello;
    AllocationStatus status{key, core.Digest(node, key), AllocationPhase::kStarted, {}, {}, {}};
    for (const Rank rank : core.state.allocs.at(key).at(NodeId{node}).ranks) {
      status.ranks.push_back({rank, true, 200 + rank, std::nullopt});
    }
    hello.allocations = {status};
    return hello;
  }
  TestCore core;
};

TEST_F(Node, ThatIsSilentShowsThatItIsDrainedToo) {
  core.Pass(Millis{130'000});
  core.Beat("gpu1");
  ASSERT_EQ(core.Node("gpu2").state, "silent");
  core.Post(event::Drain{RequestId{901}, {UserName{"op"}, true}, NodeId{"gpu2"}, false, "bad fan"});
  EXPECT_EQ(core.Node("gpu2").state, "silent");
  EXPECT_TRUE(core.Node("gpu2").reason.starts_with("drained: bad fan; silent for "))
      << core.Node("gpu2").reason;
  EXPECT_TRUE(core.Node("gpu2").drained);
  core.Beat("gpu2");
  EXPECT_EQ(core.Node("gpu2").state, "drain");
  EXPECT_EQ(core.Node("gpu2").reason, "drained: bad fan");
  core.Post(event::Drain{RequestId{902}, {UserName{"op"}, true}, NodeId{"gpu2"}, true, ""});
  EXPECT_EQ(core.Node("gpu2").reason, "");
  EXPECT_FALSE(core.Node("gpu2").drained);
}

TEST_F(Node, SilenceStopsPlacementAndNothingElse) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.now.boot += Millis{3'000};
  core.Beat("gpu1");
  core.Pass(Millis{600});
  EXPECT_EQ(core.Node("gpu2").state, "silent");
  EXPECT_EQ(core.Node("gpu1").state, "alloc");
  EXPECT_EQ(core.View(job).state, JobState::kUnreachable);
  core.NothingElse();  // no Stop, no release, no replacement
  core.Pass(Millis{130'000});
  core.Beat("gpu1");
  EXPECT_EQ(core.Node("gpu2").reason, "silent for 2m10s: no beat");
  EXPECT_EQ(core.Node("gpu2").silent_ms, 130'000);
  EXPECT_EQ(core.View(job).reason.evidence, "gpu2 is silent for 2m10s; what it holds stays held");
  const JobId waits = core.Submitted(GpuJob(2, 1));
  EXPECT_TRUE(core.View(waits).reason.evidence.ends_with(": gpu2; gpu2 is silent for 2m10s"))
      << core.View(waits).reason.evidence;
  core.Pass(Millis{24LL * 3'600'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  core.Beat("gpu2");
  core.Beat("gpu1");
  EXPECT_EQ(core.View(job).state, JobState::kRunning);
}

TEST_F(Node, AGpuThatFailsUnderAJobIsToldOnceAndShown) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  core.Run(job);
  const NodeId node = core.View(job).nodelist.at(0);
  NodeInventory inventory = *core.state.inventories.at(node);
  EXPECT_TRUE(core.View(job).findings.empty());
  inventory.gpus[0].health = Health::kBad;
  inventory.gpus[0].why = "lost: the GPU has fallen off the bus";
  for (int i = 0; i < 2; ++i) {
    inventory.revision += 1;
    inventory.memory_bytes += 1;
    core.Say(node.value, from_node::InventoryChanged{inventory});
  }
  EXPECT_EQ(std::ranges::count_if(
                core.rows, [](const EventRow& row) { return row.kind == "attempt.gpu_failed"; }),
            1);
  const JobView view = core.View(job);
  ASSERT_EQ(view.findings.size(), 1u);
  EXPECT_EQ(view.findings[0].code, "gpu_failed");
  EXPECT_NE(view.findings[0].says.find("GPU 0"), std::string::npos);
  EXPECT_NE(view.findings[0].says.find("fallen off the bus"), std::string::npos);
  EXPECT_EQ(view.state, JobState::kRunning) << "the job is not touched";
}

TEST_F(Node, SaysWhatIsStagedOfItsOwnAttemptsOnly) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key{job, Attempt{1}};
  const NodeId own = core.state.allocs.at(key).begin()->first;
  const std::string other = own.value == "gpu1" ? "gpu2" : "gpu1";
  core.Accept(own.value, key);
  core.Say(other, from_node::Staging{key, "setup", "log in again at http://evil"});
  EXPECT_TRUE(core.state.live.attempts.at(key).staging.empty());
  core.Say(own.value, from_node::Staging{key, "setup", "pip install"});
  EXPECT_EQ(core.state.live.attempts.at(key).staging.at(own).line, "pip install");
}

TEST_F(Node, ThatTakesAnOrderOfAnEndedAttemptForANewOneIsStopped) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Cancel(job);
  for (const std::string node : {"gpu1", "gpu2"}) core.Release(node, key);
  core.Ignore();
  core.Accept("gpu1", key);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").cause, StopCause::kStale);
  core.Release("gpu1", key);
  EXPECT_EQ(core.Told<to_node::Forget>("gpu1").key, key) << "nothing is left there";
}

TEST_F(Node, IsSilentTooWhenItDoesNotHearUs) {
  core.Beat("gpu1", 5'000);
  EXPECT_EQ(core.Node("gpu1").state, "silent");
  EXPECT_NE(core.Node("gpu1").reason.find("one-way"), std::string::npos);
  core.Beat("gpu1", 900);
  EXPECT_EQ(core.Node("gpu1").state, "idle");
}

// Over a connection whose packets nobody acknowledges the beat that would tell does not come.
TEST_F(Node, IsSilentWhenItDoesNotSayThatAPongCame) {
  core.Beat("gpu1", 0, 1);
  core.Heard("gpu1", 1);
  core.Pass(Millis{1'000});
  core.Beat("gpu1", 1'000, 2);
  EXPECT_EQ(NextDeadline(core.state), core.now.boot + Millis{2'301});
  core.Pass(Millis{2'300});
  EXPECT_EQ(core.Node("gpu1").state, "idle") << "a pause of two seconds is no silence";
  core.Pass(Millis{1});
  EXPECT_EQ(core.Node("gpu1").state, "silent");
  EXPECT_NE(core.Node("gpu1").reason.find("one-way"), std::string::npos);
  core.Beat("gpu1", 3'301, 3);
  core.Heard("gpu1", 1);
  EXPECT_EQ(core.Node("gpu1").state, "silent") << "what it heard before tells nothing of now";
  core.Heard("gpu1", 2);
  EXPECT_EQ(core.Node("gpu1").state, "idle");
}

// Both ways again after nothing that it sends arrived: what TCP held up comes at once.
TEST_F(Node, IsNotTakenForDeafByBeatsThatACutLinkHeldUp) {
  core.Beat("gpu1", 0, 1);
  core.Heard("gpu1", 1);
  core.Pass(Millis{6'000});
  ASSERT_EQ(core.Node("gpu1").state, "silent");
  for (std::uint64_t n = 2; n <= 7; ++n) {
    core.Beat("gpu1", 1'000 * static_cast<std::int64_t>(n - 1), n);
    EXPECT_EQ(core.Node("gpu1").state, "idle") << n;
  }
  for (std::uint64_t n = 2; n <= 7; ++n) core.Heard("gpu1", n);
  EXPECT_EQ(core.Node("gpu1").state, "idle");
}

TEST_F(Node, OfAnOlderVersionThatNeverSaysWhatItHeardIsJudgedByItsBeats) {
  for (std::uint64_t n = 1; n <= 20; ++n) {
    core.Beat("gpu1", 1'000, n);
    core.Pass(Millis{1'000});
    ASSERT_EQ(core.Node("gpu1").state, "idle") << n;
  }
  core.Beat("gpu1", 3'501, 21);
  EXPECT_EQ(core.Node("gpu1").state, "silent");
}

TEST_F(Node, OnASlowNetworkIsGivenTheTimeThatItUsuallyTakes) {
  for (std::uint64_t n = 1; n <= 30; ++n) {
    core.Beat("gpu1", 0, n);
    core.Pass(Millis{1'000});
    if (n > 2) core.Heard("gpu1", n - 2);  // three seconds there and back
    ASSERT_EQ(core.Node("gpu1").state, "idle") << n;
  }
  core.Pass(Millis{3'200});
  EXPECT_EQ(core.Node("gpu1").state, "idle");
}

TEST_F(Node, WhoseAnswersTakeLongerNowAndThenIsGivenMoreTime) {
  for (std::uint64_t n = 1; n <= 40; ++n) {
    core.Beat("gpu1", 0, n);
    core.Pass(Millis{n % 4 == 0 ? 2'000 : 100});
    core.Heard("gpu1", n);
    ASSERT_EQ(core.Node("gpu1").state, "idle") << n;
  }
  core.Beat("gpu1", 0, 41);
  core.Pass(Millis{3'400});
  EXPECT_EQ(core.Node("gpu1").state, "idle") << "a beat is waited for as long";
}

TEST_F(Node, IsNotBlamedByAWordThatWaitedWhileWeStoodStill) {
  core.Beat("gpu1", 0, 1);
  core.Heard("gpu1", 1);
  core.Beat("gpu1", 0, 2);
  core.Beat("gpu1", 0, 3);
  core.now.boot += Millis{5'000};
  core.Post(event::NodeHeard{core.session["gpu1"], NodeId{"gpu1"}, 2, true});
  EXPECT_EQ(core.Node("gpu1").state, "idle") << "the word of the third may wait behind it";
}

TEST_F(Node, WhatItHeardOverAnEarlierStreamDoesNotCount) {
  core.Beat("gpu1", 0, 1);
  core.Heard("gpu1", 1);
  const SessionId old = core.session["gpu1"];
  core.Attach("gpu1", 1);
  for (std::uint64_t n = 1; n <= 2; ++n) {
    core.Beat("gpu1", 0, n);
    if (n == 1) core.Heard("gpu1", 1);
  }
  core.Pass(Millis{2'301});
  ASSERT_EQ(core.Node("gpu1").state, "silent");
  core.Post(event::NodeHeard{old, NodeId{"gpu1"}, 2});
  EXPECT_EQ(core.Node("gpu1").state, "silent");
}

TEST_F(Node, IsNotBlamedForAPongThatWeDidNotSendInAPauseOfOurs) {
  core.Beat("gpu1", 0, 1);
  core.Heard("gpu1", 1);
  core.Beat("gpu1", 0, 2);
  core.now.boot += Millis{30'000};
  core.Post(event::NodeBeat{core.session["gpu1"], NodeId{"gpu1"}, 0, 3, true});
  EXPECT_EQ(core.Node("gpu1").state, "idle");
  core.Pass(Millis{2'301});
  EXPECT_EQ(core.Node("gpu1").state, "silent") << "but for those of after it";
}

TEST_F(Node, TheNewerStreamOfAnAgentWins) {
  const SessionId old = core.session["gpu1"];
  core.Attach("gpu1", 1);
  EXPECT_TRUE(core.Closed(old));
  core.Post(event::NodeDetached{old, NodeId{"gpu1"}, "closed"});
  EXPECT_EQ(core.Node("gpu1").state, "idle");
}

TEST_F(Node, MessagesOfAClosedSessionAreDropped) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  const SessionId old = core.session["gpu1"];
  core.Attach(MakeInventory("gpu1", 1), Running("gpu1", key));
  ExitReport report;
  report.key = key;
  report.cause = Exited{1};
  core.Post(event::NodeSaid{old, NodeId{"gpu1"}, from_node::RankExited{report}});
  EXPECT_EQ(core.View(job).state, JobState::kRunning);
}

// A Prepare that was given twice meets an allocation that is being stopped.
TEST_F(Node, ARefusalToAcceptWhatItAcceptedBeforeFreesNothing) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  const NodeId node = core.state.attempts.at(key).nodes.front();
  core.Cancel(job);
  for (const char* stage : {"accept again", "accept"}) {  // the second by an older agent
    core.Say(node.value, from_node::Refused{key, core.Digest(node.value, key), stage,
                                            "stale_attempt", "was stopped here", std::nullopt});
    EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping) << stage;
    EXPECT_EQ(core.state.gpu_owner.size(), 1u) << stage;
  }
  core.Release(node.value, key);
  EXPECT_TRUE(core.state.gpu_owner.empty());
}

TEST_F(Node, AnotherMachineUnderALiveNameIsRefused) {
  const SessionId first = core.session["gpu1"];
  from_node::Hello clone;
  clone.machine.install_id = "another";
  core.Attach(MakeInventory("gpu1", 1), clone);
  EXPECT_TRUE(core.Closed(core.session["gpu1"]));
  EXPECT_FALSE(core.Closed(first));
  core.Post(event::NodeBeat{first, NodeId{"gpu1"}, 0});
  EXPECT_EQ(core.Node("gpu1").state, "idle");
}

TEST_F(Node, ACloneWithTheSameInstallIdIsRefusedByItsHardware) {
  from_node::Hello hello;
  hello.machine = {"install-gpu3", "uuid-A", {}, ""};
  core.Attach(MakeInventory("gpu3", 1), hello);
  core.Detach("gpu3");
  hello.machine.product_uuid = "uuid-B";
  core.Attach(MakeInventory("gpu3", 1), hello);
  EXPECT_TRUE(core.Closed(core.session["gpu3"]));
  EXPECT_TRUE(core.HasEvent("node.refused"));
}

TEST_F(Node, AnotherBootIdWhileTheOldSessionAnswersIsRefused) {
  core.boot["gpu1"] = "b2";
  core.Attach("gpu1", 1);
  EXPECT_TRUE(core.Closed(core.session["gpu1"]));
}

TEST_F(Node, ANodeThatObeyedANewerControllerIsRefused) {
  from_node::Hello hello;
  hello.seen = {1, core.state.cluster.epoch + 1, 0};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_TRUE(core.Closed(core.session["gpu1"]));
}

// As after a cut: what was written to an earlier connection comes behind what the next one brought.
TEST_F(Node, WhoseEarlierHelloComesLateKeepsWhatItWasGivenSince) {
  from_node::Hello hello;
  hello.machine.install_id = "install-gpu1";
  hello.boot_id = core.boot["gpu1"];
  hello.inventory = MakeInventory("gpu1", 1);
  hello.instance = "life-1";
  hello.boot = BootMs(2'000);
  const auto attach = [&](std::uint64_t session) {
    core.session["gpu1"] = SessionId{session};
    core.Post(event::NodeAttached{SessionId{session}, NodeId{"gpu1"}, hello, "", {}});
    return !core.Closed(SessionId{session});
  };
  ASSERT_TRUE(attach(902));
  const Key key = core.Run(core.Submitted(GpuJob(1, 1)));
  hello.boot = BootMs(1'999);
  EXPECT_FALSE(attach(901));
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  EXPECT_EQ(core.state.live.nodes.at(NodeId{"gpu1"}).session, SessionId{902});
  hello.boot = BootMs(1'000);
  hello.instance = "life-2";  // its agent was started again
  core.Post(event::NodeDetached{SessionId{902}, NodeId{"gpu1"}, "ended"});
  EXPECT_TRUE(attach(903));
}

TEST_F(Node, ThatSawALaterRevisionThanTheStoreHasIsRefused) {
  from_node::Hello hello;
  hello.seen = {core.state.cluster.incarnation, core.state.cluster.epoch, 71};
  hello.machine.install_id = "install-gpu1";
  hello.boot_id = core.boot["gpu1"];
  hello.inventory = MakeInventory("gpu1", 1);
  const auto attach = [&](std::uint64_t session, std::uint64_t revision) {
    core.rows.clear();
    core.Post(event::NodeAttached{SessionId{session}, NodeId{"gpu1"}, hello, "", revision});
    return core.Closed(SessionId{session});
  };
  EXPECT_TRUE(attach(901, 70));
  ASSERT_TRUE(core.HasEvent("node.refused"));
  EXPECT_NE(core.rows[0].text.find("went back in time"), std::string::npos) << core.rows[0].text;
  EXPECT_FALSE(attach(902, 71));
  hello.seen.incarnation = 0;  // of before the store was restored
  EXPECT_FALSE(attach(903, 70));
}

TEST_F(Node, ThatSawMoreThanTheStoreBeganWithIsRefusedAlsoAfterFurtherStarts) {
  core.state.cluster.openings = {{core.state.cluster.epoch, 12},
                                 {core.state.cluster.epoch + 9, 70}};
  from_node::Hello hello;
  hello.seen = {core.state.cluster.incarnation, core.state.cluster.epoch - 1, 17};
  hello.machine.install_id = "install-gpu1";
  hello.boot_id = core.boot["gpu1"];
  hello.inventory = MakeInventory("gpu1", 1);
  const auto attach = [&](std::uint64_t session, std::uint64_t revision) {
    core.Post(event::NodeAttached{SessionId{session}, NodeId{"gpu1"}, hello, "", revision});
    return core.Closed(SessionId{session});
  };
  EXPECT_TRUE(attach(901, 13));
  EXPECT_TRUE(attach(902, 900)) << "what was written since is not what it saw";
  EXPECT_EQ(std::ranges::count(core.rows, "node.refused", &EventRow::kind), 1) << "once a minute";
  hello.seen.revision = 12;
  EXPECT_FALSE(attach(903, 13));
}

TEST_F(Node, WithACertificateThatWasReplacedIsRefused) {
  NodeRecord record = core.state.nodes.at(NodeId{"gpu1"});
  record.certificate_serial = "new";
  Apply(core.state, Put{record});
  from_node::Hello hello;
  hello.machine = record.machine;
  hello.boot_id = record.boot_id;
  hello.inventory = MakeInventory("gpu1", 1);
  core.Post(event::NodeAttached{SessionId{901}, NodeId{"gpu1"}, hello, "old", {}});
  EXPECT_TRUE(core.Closed(SessionId{901}));
  core.Post(event::NodeAttached{SessionId{902}, NodeId{"gpu1"}, hello, "new", {}});
  EXPECT_FALSE(core.Closed(SessionId{902}));
}

TEST_F(Node, StagesAgainAfterARebootOrADrop) {
  for (const bool reboot : {false, true}) {
    const JobId job = core.Submitted(GpuJob(2, 1));
    const Key key{job, Attempt{1}};
    for (const char* node : {"gpu1", "gpu2"}) core.Accept(node, key);
    core.Ready("gpu1", key);
    ASSERT_TRUE(core.state.live.attempts.at(key).ready.contains(NodeId{"gpu1"}));
    core.Detach("gpu1");
    core.Ignore();
    from_node::Hello hello;
    if (reboot) {
      core.boot["gpu1"] = "b2";
    } else {
      hello.allocations = {{key, core.Digest("gpu1", key), AllocationPhase::kDropped, {}, {}, {}}};
    }
    core.Attach(MakeInventory("gpu1", 1), hello);
    if (reboot) {
      core.Accept("gpu1", key);
      EXPECT_EQ(core.Told<to_node::Stage>("gpu1").key, key);
    }
    EXPECT_FALSE(core.state.live.attempts.at(key).ready.contains(NodeId{"gpu1"}));
    core.Cancel(job);
    for (const char* node : {"gpu1", "gpu2"}) core.Release(node, key);
    core.Ignore();
  }
}

TEST_F(Node, TheCauseOfAnExitThatNobodyExpectedIsNotLost) {
  core.Exit("gpu1", Key{JobId{44}, Attempt{2}}, 3, Signalled{9, false});
  ASSERT_EQ(core.rows.back().kind, "rank.unknown");
  EXPECT_NE(core.rows.back().text.find(Describe(ExitCause(Signalled{9, false}))), std::string::npos)
      << core.rows.back().text;
  EXPECT_TRUE(core.WasTold<to_node::ExitAck>("gpu1"));
}

TEST_F(Node, ASecretThatCannotBeOpenedFailsTheStartAndSaysWhy) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key{job, Attempt{1}};
  const NodeId node = core.state.attempts.at(key).nodes.front();
  core.Post(event::SecretUnreadable{key, node, "secret TOKEN: /state/secrets.key is another key"});
  EXPECT_TRUE(core.HasEvent("attempt.secret_unreadable"));
  EXPECT_EQ(core.Phase(key), AttemptPhase::kEnded);
  EXPECT_NE(core.state.attempts.at(key).cause.find("secrets.key"), std::string::npos);
}

TEST_F(Node, TheSecondNodeThatReportsAGpuIsNotUsed) {
  NodeInventory twin = MakeInventory("gpu3", 1);
  twin.gpus = MakeInventory("gpu1", 1).gpus;
  core.now.boot += Millis{1};
  core.Attach(twin);
  EXPECT_FALSE(core.Node("gpu3").schedulable);
  EXPECT_NE(core.Node("gpu3").reason.find("gpu1"), std::string::npos);
  EXPECT_TRUE(core.Node("gpu1").schedulable);
}

TEST_F(Node, IsForgottenOnlyWhenItIsGoneAndHoldsNothing) {
  std::uint64_t request = 900;
  const auto forget = [&](const std::string& name, bool is_operator = true) {
    core.Post(event::ForgetNode{RequestId{++request}, {UserName{"op"}, is_operator}, NodeId{name}});
    const auto answer = core.Answer<reply::Done>(RequestId{request});
    return answer ? std::string("done") : std::string(ErrorCodeName(answer.error().code));
  };
  EXPECT_EQ(forget("gpu2", false), "PERMISSION_DENIED");
  EXPECT_EQ(forget("gpu9"), "NOT_FOUND");
  EXPECT_EQ(forget("gpu2"), "FAILED_PRECONDITION") << "its agent is connected";
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Detach("gpu2");
  EXPECT_EQ(forget("gpu2"), "FAILED_PRECONDITION") << "it may still run the job";
  core.Attach(MakeInventory("gpu2", 1), Running("gpu2", key));
  for (const int rank : {0, 1}) core.Exit(rank == 0 ? "gpu1" : "gpu2", key, rank, Exited{0});
  core.Release("gpu1", key);
  core.Release("gpu2", key, {{GpuUuid{"GPU-gpu2-0"}, "a process is left"}});
  core.Detach("gpu2");
  EXPECT_EQ(forget("gpu2"), "done");
  EXPECT_FALSE(core.state.nodes.contains(NodeId{"gpu2"}));
  EXPECT_FALSE(core.state.inventories.contains(NodeId{"gpu2"}));
  EXPECT_TRUE(core.state.quarantine.empty());
  EXPECT_EQ(core.View(job).state, JobState::kSucceeded);
  core.Restart();
  EXPECT_FALSE(core.state.nodes.contains(NodeId{"gpu2"}));
  core.Attach("gpu2", 1);  // its certificate is good: it comes back
  EXPECT_TRUE(core.Node("gpu2").schedulable);
}

TEST_F(Node, RunningRanksAreAdoptedWhenTheAgentIsBack) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Detach("gpu2");
  EXPECT_EQ(core.View(job).state, JobState::kUnreachable);
  core.Attach(MakeInventory("gpu2", 1), Running("gpu2", key));
  EXPECT_EQ(core.View(job).state, JobState::kRunning);
  core.NothingElse();
}

TEST_F(Node, AnExitThatHappenedMeanwhileIsCommittedAndAcknowledged) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Detach("gpu2");
  from_node::Hello hello = Running("gpu2", key);
  ExitReport report;
  report.key = key;
  report.rank = 1;
  report.boot_id = core.boot["gpu2"];
  report.cause = Exited{33};
  hello.allocations[0].phase = AllocationPhase::kExited;
  hello.allocations[0].ranks[0].exit = report;
  core.Attach(MakeInventory("gpu2", 1), hello);
  EXPECT_EQ(core.Told<to_node::ExitAck>("gpu2").rank, 1);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  EXPECT_TRUE(core.WasTold<to_node::Stop>("gpu1"));
  core.Exit("gpu2", key, 1, Exited{33});  // sent again: acknowledged again, recorded once
  EXPECT_EQ(core.Told<to_node::ExitAck>("gpu2").rank, 1);
}

TEST_F(Node, ANewBootIdProvesItsRanksDead) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Detach("gpu2");
  core.boot["gpu2"] = "b2";
  core.Attach("gpu2", 1);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  core.Release("gpu1", key);
  const JobView view = core.View(job);
  EXPECT_EQ(view.state, JobState::kRequeued);
  EXPECT_NE(view.outcome.find("node rebooted"), std::string::npos) << view.outcome;
  EXPECT_EQ(core.Node("gpu2").free_gpus.size(), 1u);
}

TEST_F(Node, AnAgentThatLostItsStateEndsTheAttemptAndMustProveThatNothingIsLeft) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Detach("gpu2");
  core.Attach("gpu2", 1);  // same boot id, no allocations
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").key, key);
  EXPECT_TRUE(core.Node("gpu2").free_gpus.empty());
  core.Release("gpu2", key);
  core.Release("gpu1", key);
  EXPECT_NE(core.View(job).outcome.find("agent state lost"), std::string::npos);
}

TEST_F(Node, AnAllocationThatWasGivenBackUnaskedEndsTheAttempt) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key{job, Attempt{1}};
  core.Ignore();
  core.Accept("gpu1", key);
  core.Accept("gpu2", key);
  core.Ready("gpu1", key);
  core.Ready("gpu2", key);
  core.Start("gpu1", key);
  core.Release("gpu2", key);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).attempts.at(0).outcome, "node_fail");
}

TEST_F(Node, ARankThatCannotBeKilledHasNotEndedYet) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Cancel(job);
  core.Detach("gpu2");
  from_node::Hello hello = Running("gpu2", key);
  hello.allocations[0].phase = AllocationPhase::kReleased;
  hello.held = {{GpuUuid{"GPU-gpu2-0"}, "process in D state"}};
  core.Attach(MakeInventory("gpu2", 1), hello);
  EXPECT_FALSE(core.state.ranks.at(key).at(1).exit.has_value());
  EXPECT_EQ(core.Node("gpu2").quarantined.size(), 1u);
  core.Exit("gpu2", key, 1, Signalled{9, false});  // at last
  EXPECT_TRUE(core.state.ranks.at(key).at(1).exit.has_value());
}

TEST_F(Node, AQuarantineOutlivesARestartOfTheAgent) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Cancel(job);
  core.Release("gpu1", key);
  core.Release("gpu2", key, {{GpuUuid{"GPU-gpu2-0"}, "process in D state"}});
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
  core.Detach("gpu2");
  // The new agent repeats the interrupted stop, and has held nothing back by itself yet.
  core.Attach(MakeInventory("gpu2", 1), Running("gpu2", key));
  EXPECT_EQ(core.Node("gpu2").quarantined.size(), 1u) << "its process is still there";
  core.Release("gpu2", key);
  EXPECT_TRUE(core.Node("gpu2").quarantined.empty());
}

TEST_F(Node, TheEndOfAnUnknownJobFreesItsGpus) {
  from_node::Hello hello;
  const Key unknown{JobId{50}, Attempt{1}};
  hello.allocations = {{unknown, "?", AllocationPhase::kStarted, {}, {}, {GpuUuid{"GPU-gpu1-0"}}}};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_EQ(core.Node("gpu1").quarantined.size(), 1u);
  core.Release("gpu1", unknown);
  EXPECT_TRUE(core.Node("gpu1").quarantined.empty());
}

TEST_F(Node, AStaleAttemptIsStopped) {
  JobSpec spec = GpuJob(1, 1);
  spec.retry.max = 1;
  const JobId job = core.Submitted(spec);
  const Key first = core.Run(job);
  core.Exit("gpu1", first, 0, Exited{1});
  core.Release("gpu1", first);
  core.Ignore();
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), Running("gpu1", first));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, first);
}

TEST_F(Node, AJobThatWeDoNotKnowIsLeftAloneAndItsGpusAreHeld) {
  from_node::Hello hello;
  hello.allocations = {{Key{JobId{50}, Attempt{1}},
                        "?",
                        AllocationPhase::kStarted,
                        {},
                        {},
                        {GpuUuid{"GPU-gpu1-0"}}}};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  EXPECT_TRUE(core.Node("gpu1").free_gpus.empty());
  EXPECT_TRUE(core.HasEvent("allocation.unknown"));
  core.Detach("gpu1");
  core.Attach("gpu1", 1);
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 1u);
}

TEST_F(Node, SaysWhatToForgetOnceTheJobIsDone) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  core.Exit("gpu1", key, 0, Exited{0});
  core.Release("gpu1", key);
  core.Ignore();
  from_node::Hello hello;
  hello.allocations = {{key, core.Digest("gpu1", key), AllocationPhase::kReleased, {}, {}, {}}};
  hello.floors = {key};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_EQ(core.Told<to_node::Forget>("gpu1").key, key);
  core.NothingElse();
}

TEST_F(Node, CannotRaiseTheAttemptOfAJobThatIsNoneOfItsOwn) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key{job, Attempt{1}};
  core.Ignore();
  const std::string other =
      core.state.attempts.at(key).nodes.front().value == "gpu1" ? "gpu2" : "gpu1";
  core.Say(other, from_node::Refused{key, "", "accept", "old", "a floor", Attempt{4'294'967'295}});
  core.Say(other,
           from_node::Refused{Key{JobId{77}, Attempt{1}}, "", "accept", "old", "", Attempt{9}});
  from_node::Hello hello;
  hello.floors = {Key{job, Attempt{900}}, Key{JobId{78}, Attempt{5}}};
  core.Detach(other);
  core.Attach(MakeInventory(other, 1), hello);
  EXPECT_EQ(core.state.jobs.at(job).floor, 0u);
}

// Of a job that runs elsewhere: it may be true of a store that went back, so it is believed as far
// as SECURITY.md says.
TEST_F(Node, ThatSaysItRunsANewerAttemptOfAnothersJobRaisesItsNextNumberToALimitAndEndsNothing) {
  const Key key = core.Run(core.Submitted(GpuJob(1, 1)));
  core.Ignore();
  const std::string other =
      core.state.attempts.at(key).nodes.front().value == "gpu1" ? "gpu2" : "gpu1";
  const auto claim = [&](std::uint32_t attempt) {
    from_node::Hello hello;
    hello.allocations = {
        {.key = {key.job, Attempt{attempt}}, .digest = "?", .phase = AllocationPhase::kStarted}};
    core.Detach(other);
    core.Attach(MakeInventory(other, 1), hello);
    return core.state.jobs.at(key.job).floor;
  };
  EXPECT_EQ(claim(2), 2u) << "no number is given twice";
  EXPECT_EQ(claim(1 + kMaxFloorJump), 1 + kMaxFloorJump);
  EXPECT_EQ(claim(2 + kMaxFloorJump), 1 + kMaxFloorJump) << "saying it again goes no further";
  EXPECT_TRUE(core.HasEvent("node.floor_ignored"));
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  EXPECT_EQ(core.state.jobs.at(key.job).attempts, 1u);
}

TEST_F(Node, AFloorBeyondReasonIsIgnoredAndOneThatRestoredStoresExplainIsKept) {
  JobSpec spec = GpuJob(1, 1);
  spec.retry.max = 9;
  const JobId job = core.Submitted(spec);
  Key key{job, Attempt{1}};
  const std::string node = core.state.attempts.at(key).nodes.front().value;
  core.Say(node, from_node::Refused{key, "", "accept", "old", "", Attempt{4'294'967'295}});
  EXPECT_EQ(core.state.jobs.at(job).floor, 0u);
  EXPECT_TRUE(core.HasEvent("node.floor_ignored"));
  core.now.boot += Millis{5'000};  // beyond the backoff
  for (const char* alive : {"gpu1", "gpu2"}) core.Beat(alive);
  core.Pass(Millis{0});
  key.attempt = Attempt{core.state.jobs.at(job).attempts};
  ASSERT_TRUE(core.state.allocs.contains(key));
  core.Say(core.state.attempts.at(key).nodes.front().value,
           from_node::Refused{key, "", "accept", "old", "", Attempt{40}});
  EXPECT_EQ(core.state.jobs.at(job).floor, 40u);
}

TEST_F(Node, NeitherHoldsNorFreesTheGpusOfAnother) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Cancel(job);
  core.Release("gpu1", key, {{GpuUuid{"GPU-gpu2-0"}, "mine now"}, {GpuUuid{"GPU-gpu1-0"}, "busy"}});
  EXPECT_TRUE(core.state.quarantine.contains(GpuUuid{"GPU-gpu1-0"}));
  EXPECT_FALSE(core.state.quarantine.contains(GpuUuid{"GPU-gpu2-0"}));
  EXPECT_EQ(core.state.allocs.at(key).at(NodeId{"gpu1"}).held.size(), 1u);
  EXPECT_TRUE(core.HasEvent("gpu.claim_ignored"));
  core.Release("gpu2", key, {{GpuUuid{"GPU-gpu2-0"}, "process in D state"}});
  from_node::Hello hello;
  hello.held = {{GpuUuid{"GPU-gpu2-0"}, "mine"}, {GpuUuid{"GPU-elsewhere"}, "mine"}};
  hello.allocations = {{Key{JobId{50}, Attempt{1}},
                        "?",
                        AllocationPhase::kStarted,
                        {},
                        {},
                        {GpuUuid{"GPU-gpu2-0"}}}};
  core.Detach("gpu1");
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_EQ(core.state.quarantine.at(GpuUuid{"GPU-gpu2-0"}).node, NodeId{"gpu2"});
  EXPECT_FALSE(core.state.quarantine.contains(GpuUuid{"GPU-elsewhere"}));
  core.Detach("gpu1");
  core.Attach("gpu1", 1);
  EXPECT_TRUE(core.state.quarantine.contains(GpuUuid{"GPU-gpu2-0"}));
}

TEST_F(Node, ClaimingTheGpuOfALiveNodeInItsInventoryDoesNotMakeItItsOwn) {
  NodeInventory twin = MakeInventory("gpu3", 1);
  twin.gpus = MakeInventory("gpu1", 1).gpus;
  from_node::Hello hello;
  hello.held = {{GpuUuid{"GPU-gpu1-0"}, "mine"}};
  core.now.boot += Millis{1};
  core.Attach(twin, hello);
  EXPECT_TRUE(core.state.quarantine.empty());
}

TEST_F(Node, NoticesCannotPassForEventsOfTheController) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  const std::string node = core.state.attempts.at(key).nodes.front().value;
  const std::string other = node == "gpu1" ? "gpu2" : "gpu1";
  core.rows.clear();
  core.Say(node, from_node::Notice{"user.joined", std::nullopt, std::nullopt, "mallory"});
  core.Say(node, from_node::Notice{"node.drained", std::nullopt, std::nullopt, "by op"});
  core.Say(node, from_node::Notice{"rank.log_capped", key, Rank{0}, "8 MiB"});
  core.Say(other, from_node::Notice{"rank.log_capped", key, Rank{0}, "8 MiB"});
  ASSERT_EQ(core.rows.size(), 4u);
  EXPECT_EQ(core.rows[0],
            (EventRow{"node.notice", "node/" + node, node + ": user.joined: mallory"}));
  EXPECT_EQ(core.rows[1],
            (EventRow{"node.notice", "node/" + node, node + ": node.drained: by op"}));
  EXPECT_EQ(core.rows[2].subject, "attempt/" + ToString(key));
  EXPECT_EQ(core.rows[2].kind, "rank.log_capped");
  EXPECT_EQ(core.rows[3].subject, "node/" + other) << "it never had that attempt";
}

TEST_F(Node, EveryNoticeOfAnAgentKeepsItsName) {
  for (const std::string_view kind : from_node::kNoticeKinds) {
    core.Say("gpu1", from_node::Notice{std::string(kind), std::nullopt, std::nullopt, "why"});
    EXPECT_EQ(core.rows.back().kind, kind);
  }
  // Those that came last: what an agent on a full disk and a rank that cannot be ended say.
  for (const std::string kind : {"node.state_disk_full", "node.stop_stuck"}) {
    core.Say("gpu1", from_node::Notice{kind, std::nullopt, std::nullopt, "why"});
    EXPECT_EQ(core.rows.back().kind, kind);
  }
}

TEST_F(Node, AFloodOfNoticesIsCutShortAndSaidOnce) {
  core.rows.clear();
  for (int i = 0; i < 5'000; ++i) {
    core.Say("gpu1", from_node::Notice{"node.log_disk_full", std::nullopt, std::nullopt, "full"});
  }
  EXPECT_LT(core.rows.size(), 200u);
  EXPECT_EQ(core.rows.back().kind, "node.notices_dropped");
  core.now.boot += Millis{61'000};
  core.Say("gpu1", from_node::Notice{"node.log_disk_full", std::nullopt, std::nullopt, "full"});
  EXPECT_EQ(core.rows.back().kind, "node.log_disk_full");
}

TEST_F(Node, ABadGpuIsNotOffered) {
  NodeInventory sick = MakeInventory("gpu1", 1);
  sick.gpus[0].health = Health::kBad;
  sick.gpus[0].why = "Xid 79";
  core.Say("gpu1", from_node::InventoryChanged{sick});
  EXPECT_TRUE(core.Node("gpu1").free_gpus.empty());
  EXPECT_EQ(core.View(core.Submitted(GpuJob(2, 1))).state, JobState::kPending);
}

TEST_F(Node, ProgressComesFromTheNewestSamples) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  from_node::Samples samples;
  samples.boot = BootMs(6'000);
  RankSample rank;
  rank.key = key;
  rank.rank = 0;
  rank.step = 20;
  rank.steps = 120;
  rank.eta_s = 27'000;
  samples.ranks = {rank};
  core.Say("gpu1", samples);
  EXPECT_EQ(core.View(job).step, 20);
  EXPECT_EQ(core.View(job).steps, 120);
  EXPECT_EQ(core.View(job).eta_s, 27'000);
}

}  // namespace
}  // namespace launch::controller
