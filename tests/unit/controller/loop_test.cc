#include "controller/loop.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <thread>
#include <utility>

namespace launch::controller {
namespace {

struct FakeClock final : Clock {
  BootTime now = BootMs(1'000'000);
  BootTime Now() override { return now; }
  WallTime WallNow() override { return WallMs(5); }
};

// Keeps what was committed and refuses batches beyond its limits, or all of them on request.
struct ScriptedStore final : Store {
  StoreLimits limits;
  std::optional<Error> refuse;
  std::function<void()> meanwhile;  // what happens while it writes
  std::vector<Batch> batches;
  std::map<std::string, std::string> rows;

  Result<Snapshot> Load() override { return Snapshot{}; }
  Result<Committed> Commit(const Batch& batch) override {
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    if (refuse) return Unexpected(*refuse);
    if (batch.expected != batches.size()) return Fail(ErrorCode::kConflict, "another writer");
    std::size_t bytes = 0;
    for (const auto& [key, value] : batch.puts) {
      bytes += key.size() + value.size();
      if (value.size() > limits.bytes_per_value) {
        return Fail(ErrorCode::kInvalidArgument, "row " + key + " is too large");
      }
    }
    if (batch.puts.size() + batch.deletes.size() > limits.records_per_batch ||
        bytes > limits.bytes_per_batch) {
      return Fail(ErrorCode::kInternal, "a batch beyond the limits of the store");
    }
    for (const auto& [key, value] : batch.puts) rows[key] = value;
    for (const std::string& key : batch.deletes) rows.erase(key);
    batches.push_back(batch);
    return Committed{batches.size(), batch.events.empty() ? 0u : 1u};
  }
  Result<std::vector<StoredRow>> Read(const std::string&) override { return {}; }
  Result<std::vector<StoredEvent>> Events(std::uint64_t, std::size_t) override { return {}; }
  StoreLimits Limits() const override { return limits; }
};

// Decides what the test says; remembers what was undone.
struct CannedBrain final : Brain {
  std::function<Decision(const Event&)> decide;
  std::vector<Decision> undone;
  std::vector<std::string> seen;
  std::optional<BootTime> deadline;

  Decision Decide(const Event& event, const Now&) override {
    seen.push_back(std::holds_alternative<event::Tick>(event) ? "tick" : "event");
    return decide(event);
  }
  void Undo(const Decision& decision) override { undone.push_back(decision); }
  std::optional<BootTime> NextDeadline() override { return deadline; }
};

struct RecordingOutside final : Outside {
  ScriptedStore* store = nullptr;
  std::vector<std::string> log;
  std::vector<Fence> fences;
  void Committed(const Change& change) override {
    log.push_back("committed " + std::to_string(change.records.size()));
    for (const JobId job : change.jobs) log.push_back("job " + std::to_string(job.value));
  }
  void Reply(effect::Reply reply) override {
    log.push_back("reply " + std::to_string(reply.request.value) +
                  (reply.body ? " ok rows=" + std::to_string(store->rows.size())
                              : " " + std::string(ErrorCodeName(reply.body.error().code))));
    for (const Finding& finding : reply.findings) log.push_back("finding " + finding.code);
  }
  void Send(SessionId, const Fence& fence, ToNode) override {
    log.push_back("send");
    fences.push_back(fence);
  }
  void CloseSession(SessionId session, const std::string&) override {
    log.push_back("close " + std::to_string(session.value));
  }
  void WantPlan(effect::PlanWanted wanted) override {
    log.push_back("plan " + std::to_string(wanted.ticket));
  }
  void Diagnose(effect::DiagnosisWanted wanted) override {
    log.push_back("diagnose " + ToString(wanted.key));
  }
  void ReadPlans(effect::ReadPlans wanted) override {
    log.push_back("read plans for " + std::to_string(wanted.request.value));
  }
};

// A specification is as large as its source, a job as its last words.
std::string EncodeByKey(const Entity& entity) {
  if (const auto* job = std::get_if<JobRecord>(&entity);
      job != nullptr && !job->outcome_text.empty()) {
    return job->outcome_text;
  }
  if (const auto* spec = std::get_if<SpecRecord>(&entity)) return spec->source;
  return "value of " + KeyOf(entity);
}

Record PutJob(std::uint64_t id) {
  JobRecord job;
  job.id = JobId{id};
  return Put{job};
}

class LoopTest : public ::testing::Test {
 protected:
  LoopTest()
      : mailbox(64), loop({brain, store, mailbox, outside, clock, EncodeByKey}, 0, Fence{1, 4, 0}) {
    outside.store = &store;
    brain.decide = [this](const Event& event) { return Decided(event); };
  }
  void Post(std::uint64_t request) {
    event::Drain event;
    event.request = RequestId{request};
    ASSERT_TRUE(mailbox.Push(event));
  }
  static std::uint64_t RequestOf(const Event& event) {
    const auto* drain = std::get_if<event::Drain>(&event);
    return drain == nullptr ? 0 : drain->request.value;
  }
  // A request N puts job N, answers N and tells a node.
  Decision Decided(const Event& event) const {
    Decision d;
    const auto request = RequestOf(event);
    if (request == 0) return d;
    d.records = {PutJob(request), EventRow{"job.submitted", "job/1", ""}};
    d.effects = {effect::Reply{RequestId{request}, ReplyBody(reply::Done{})},
                 effect::Send{SessionId{9}, to_node::Forget{}}};
    return d;
  }

  using Log = std::vector<std::string>;
  const SpecRecord large{JobId{7}, {}, std::string(StoreLimits{}.bytes_per_value + 1, 'x'), {}};
  ScriptedStore store;
  FakeClock clock;
  CannedBrain brain;
  RecordingOutside outside;
  Mailbox<Event> mailbox;
  Loop loop;
};

TEST_F(LoopTest, CommitsABatchInOneTransactionAndOnlyThenLetsEffectsOut) {
  Post(1);
  Post(2);
  ASSERT_TRUE(loop.Turn());
  ASSERT_EQ(store.batches.size(), 1u);
  EXPECT_EQ(store.batches[0].puts.size(), 2u);
  EXPECT_EQ(store.batches[0].events.size(), 2u);
  EXPECT_EQ(outside.log, (Log{"committed 4", "job 1", "job 2", "reply 1 ok rows=2", "send",
                              "reply 2 ok rows=2", "send"}));
  EXPECT_EQ(outside.fences.at(0), (Fence{1, 4, 1})) << "the revision that justifies the message";
}

TEST_F(LoopTest, ADecisionWithoutRecordsCostsNoCommit) {
  brain.decide = [](const Event& event) {
    Decision d;
    d.effects = {effect::Reply{RequestId{RequestOf(event)}, ReplyBody(reply::Done{})}};
    return d;
  };
  Post(1);
  ASSERT_TRUE(loop.Turn());
  EXPECT_TRUE(store.batches.empty());
  EXPECT_EQ(outside.log, Log{"reply 1 ok rows=0"});
}

TEST_F(LoopTest, LetsOutARefusalWithAllItsFindings) {
  brain.decide = [](const Event& event) {
    Decision d;
    d.effects = {effect::Reply{RequestId{RequestOf(event)},
                               Fail(ErrorCode::kPreflightFailed, "torch_cpu_only"),
                               {Finding{.code = "torch_cpu_only"}, Finding{.code = "shm_small"}}}};
    return d;
  };
  Post(1);
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(outside.log,
            (Log{"reply 1 PREFLIGHT_FAILED", "finding torch_cpu_only", "finding shm_small"}));
}

TEST_F(LoopTest, ReadsOldPlansWhetherTheStoreTakesTheBatchOrNot) {
  brain.decide = [](const Event& event) {
    Decision d;
    d.records = {PutJob(1)};
    d.effects = {effect::ReadPlans{RequestId{RequestOf(event)}, {}, {}}};
    return d;
  };
  Post(1);
  ASSERT_TRUE(loop.Turn());
  store.refuse = Error{ErrorCode::kResourceExhausted, "store full", "", std::nullopt};
  Post(2);
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(outside.log, (Log{"committed 1", "job 1", "read plans for 1", "read plans for 2"}));
}

TEST_F(LoopTest, SplitsWhatTheStoreCannotTakeAtOnceAndAnswersEachPartAfterItsCommit) {
  store.limits.records_per_batch = 2;
  for (std::uint64_t n = 1; n <= 5; ++n) Post(n);
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(store.batches.size(), 3u);
  EXPECT_EQ(store.rows.size(), 5u);
  EXPECT_EQ(outside.log.at(3), "reply 1 ok rows=2") << "the first part only";
}

TEST_F(LoopTest, TheLastValueOfAKeyWinsWithinABatch) {
  brain.decide = [](const Event& event) {
    Decision d;
    d.records = {PutJob(1)};
    if (RequestOf(event) == 2) d.records.push_back(Delete{std::get<Put>(PutJob(1)).entity});
    return d;
  };
  Post(1);
  Post(2);
  ASSERT_TRUE(loop.Turn());
  EXPECT_TRUE(store.rows.empty());
}

TEST_F(LoopTest, APlanLargerThanABatchGoesInPartsAndItsAttemptLast) {
  store.limits.bytes_per_batch = 200;
  brain.decide = [](const Event&) {
    Decision d;
    for (std::uint32_t chunk = 0; chunk < 20; ++chunk) {
      d.records.push_back(Put{PlanChunkRecord{Key{JobId{1}, Attempt{1}}, chunk, "x"}});
    }
    AttemptRecord attempt;
    attempt.key = Key{JobId{1}, Attempt{1}};
    d.records.push_back(Put{attempt});
    return d;
  };
  Post(1);
  ASSERT_TRUE(loop.Turn());
  ASSERT_GT(store.batches.size(), 2u);
  EXPECT_EQ(store.rows.size(), 21u);
  ASSERT_EQ(store.batches.back().puts.size(), 1u);
  EXPECT_TRUE(store.batches.back().puts[0].first.starts_with("attempt/"));
}

TEST_F(LoopTest, AFullStoreTakesTheBatchBackNewestFirstAndTellsTheCallers) {
  store.refuse = Error{ErrorCode::kResourceExhausted, "store full", "", std::nullopt};
  Post(1);
  Post(2);
  ASSERT_TRUE(mailbox.Push(event::NodeSaid{SessionId{3}, NodeId{"n"}, from_node::Ready{}}));
  ASSERT_TRUE(loop.Turn()) << "the controller goes on";
  ASSERT_EQ(brain.undone.size(), 3u);
  EXPECT_EQ(brain.undone[1].records.at(0), PutJob(2));
  EXPECT_EQ(brain.undone[2].records.at(0), PutJob(1));
  EXPECT_EQ(outside.log,
            (Log{"reply 1 RESOURCE_EXHAUSTED", "reply 2 RESOURCE_EXHAUSTED", "close 3"}))
      << "nothing is sent, and the node says everything again";
  store.refuse.reset();
  Post(3);
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(store.rows.size(), 1u);
}

TEST_F(LoopTest, WhoOnlyReadsIsAnsweredAlsoByAFullStore) {
  store.refuse = Error{ErrorCode::kResourceExhausted, "store full", "", std::nullopt};
  brain.decide = [this](const Event& event) {
    const auto* list = std::get_if<event::ListJobs>(&event);
    if (list == nullptr) return Decided(event);
    Decision d;
    d.effects = {effect::Reply{list->request, ReplyBody(reply::Done{})}};
    return d;
  };
  Post(1);
  event::ListJobs list;
  list.request = RequestId{2};
  ASSERT_TRUE(mailbox.Push(list));
  ASSERT_TRUE(mailbox.Push(event::NodeSaid{SessionId{3}, NodeId{"n"}, from_node::Samples{}}));
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(outside.log, (Log{"reply 1 RESOURCE_EXHAUSTED", "reply 2 ok rows=0"}))
      << "and a stream that only measures stays open";
  ASSERT_EQ(brain.seen.size(), 4u) << "the read is decided anew, on what is stored";
}

TEST_F(LoopTest, AnAnswerThatStoresNothingLeavesAlsoAFullStore) {
  store.refuse = Error{ErrorCode::kResourceExhausted, "store full", "", std::nullopt};
  brain.decide = [this](const Event& event) {
    Decision d = Decided(event);
    if (RequestOf(event) != 2) return d;
    d.records.clear();
    d.read = true;  // as of a plan
    return d;
  };
  Post(1);
  Post(2);
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(outside.log.at(0), "reply 1 RESOURCE_EXHAUSTED");
  EXPECT_EQ(outside.log.at(1), "reply 2 ok rows=0");
  EXPECT_EQ(brain.seen.size(), 2u) << "it is not asked twice";
}

TEST_F(LoopTest, ARowTooLargeForTheStoreCostsItsCallerAndNobodyElse) {
  brain.decide = [this](const Event& event) {
    Decision d = Decided(event);
    if (RequestOf(event) == 2) std::get<Put>(d.records.at(0)).entity = large;
    if (std::holds_alternative<event::NodeSaid>(event)) d.records = {Put{large}};
    return d;
  };
  Post(1);
  Post(2);
  ASSERT_TRUE(mailbox.Push(event::NodeSaid{SessionId{3}, NodeId{"n"}, from_node::Ready{}}));
  Post(4);
  ASSERT_TRUE(loop.Turn()) << "the controller goes on";
  EXPECT_EQ(brain.undone.size(), 2u);
  EXPECT_EQ(store.rows.size(), 2u) << "those of requests 1 and 4";
  EXPECT_EQ(outside.log, (Log{"reply 2 INVALID_ARGUMENT", "close 3", "committed 4", "job 1",
                              "job 4", "reply 1 ok rows=2", "send", "reply 4 ok rows=2", "send"}));
}

TEST_F(LoopTest, AJobWhoseRowIsTooLargeIsEndedAtOnceBecauseTheNextEventWouldDecideItAgain) {
  JobRecord job;
  job.id = JobId{5};
  job.outcome_text = large.source;
  std::vector<std::uint64_t> ended;
  brain.decide = [&](const Event& event) {
    Decision d = Decided(event);
    if (const auto* unstorable = std::get_if<event::Unstorable>(&event)) {
      ended.push_back(unstorable->job.value);
      d.records = {PutJob(5)};
    } else if (ended.empty()) {  // as what follows of itself does, whoever sent the event
      d.records.push_back(Put{job});
    }
    return d;
  };
  Post(1);
  Post(2);
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(ended, std::vector<std::uint64_t>{5});
  EXPECT_EQ(store.rows.size(), 2u) << "of job 5, ended, and of request 2";
  EXPECT_EQ(outside.log, (Log{"reply 1 INVALID_ARGUMENT", "committed 3", "job 2", "job 5",
                              "reply 2 ok rows=2", "send"}));
}

TEST_F(LoopTest, AFailedSyncEndsTheLoopAndNothingLeaves) {
  for (const ErrorCode code : {ErrorCode::kIo, ErrorCode::kDataLoss, ErrorCode::kConflict}) {
    outside.log.clear();
    store.refuse = Error{code, "fdatasync store.db-wal: Input/output error", "", std::nullopt};
    Post(1);
    const auto turned = loop.Turn();
    ASSERT_FALSE(turned);
    EXPECT_EQ(turned.error().code, code);
    EXPECT_EQ(outside.log, Log{});
  }
}

TEST_F(LoopTest, EmptiesTheMailboxBeforeATimerFires) {
  brain.deadline = clock.now - Millis{1};
  Post(1);
  Post(2);
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(brain.seen, (Log{"event", "event", "tick"}));
}

TEST_F(LoopTest, WhatWaitedWhileTheDiskWasSlowIsReadBeforeATimerFires) {
  brain.deadline = clock.now + Millis{3'500};
  store.meanwhile = [this] {
    clock.now += Millis{5'000};
    Post(2);
  };
  Post(1);
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(brain.seen, Log{"event"});
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(brain.seen, (Log{"event", "event", "tick"}));
}

TEST_F(LoopTest, AfterAStallNoTimerFiresUntilPeersCouldBeHeard) {
  brain.deadline = clock.now + Millis{100};
  clock.now += Millis{30'000};  // SIGSTOP, or a paused machine
  Post(1);
  ASSERT_TRUE(loop.Turn());
  EXPECT_EQ(brain.seen, Log{"event"});
  for (std::uint64_t request = 2; request <= 4; ++request) {
    clock.now += Millis{900};
    Post(request);
    ASSERT_TRUE(loop.Turn());
  }
  EXPECT_EQ(brain.seen, (Log{"event", "event", "event", "event", "tick"}));
}

TEST_F(LoopTest, AfterAStallNodesAreNotBlamedForNotHearingUs) {
  std::vector<std::int64_t> ages;
  std::vector<bool> blameless;
  int words = 0;
  brain.decide = [&](const Event& event) {
    if (const auto* beat = std::get_if<event::NodeBeat>(&event)) {
      ages.push_back(beat->pong_age_ms);
      blameless.push_back(beat->after_stall);
    } else if (const auto* heard = std::get_if<event::NodeHeard>(&event)) {
      EXPECT_EQ(heard->after_stall, blameless.back());
      ++words;
    }
    return Decision{};
  };
  const auto beat = [&] {
    ASSERT_TRUE(mailbox.Push(event::NodeBeat{SessionId{1}, NodeId{"n"}, 8'000}));
    ASSERT_TRUE(mailbox.Push(event::NodeHeard{SessionId{1}, NodeId{"n"}, 1}));
    ASSERT_TRUE(loop.Turn());
  };
  brain.deadline = clock.now + Millis{100};
  beat();
  clock.now += Millis{8'000};
  beat();
  for (int turn = 0; turn < 3; ++turn) {
    clock.now += Millis{900};
    beat();
  }
  EXPECT_EQ(ages, (std::vector<std::int64_t>{8'000, 0, 0, 0, 8'000}));
  EXPECT_EQ(blameless, (std::vector<bool>{false, true, true, true, false}));
  EXPECT_EQ(words, 5);
}

TEST_F(LoopTest, StopEndsARunThatWaits) {
  std::thread runner([&] { EXPECT_TRUE(loop.Run()); });
  loop.Stop();
  runner.join();
}

}  // namespace
}  // namespace launch::controller
