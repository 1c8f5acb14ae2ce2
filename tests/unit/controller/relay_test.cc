#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "controller/log_relay.h"

namespace launch::controller {
namespace {

struct FakeLink final : BulkLink {
  std::vector<LogRead> reads;
  std::map<std::uint64_t, std::uint64_t> credits;
  std::vector<std::uint64_t> closed;
  std::string dropped;
  void Read(const LogRead& read) override { reads.push_back(read); }
  void Credit(std::uint64_t read, std::uint64_t bytes) override { credits[read] += bytes; }
  void Close(std::uint64_t read) override { closed.push_back(read); }
  void Drop(const std::string& why) override { dropped = why; }
};

RankView RunningRank(Rank rank, const std::string& node) {
  return {rank, NodeId{node}, 1000 + rank, "running", std::nullopt};
}

class RelayTest : public ::testing::Test {
 protected:
  RelayTest()
      : relay(
            [this](const Caller&, JobId, std::function<void(Result<JobView>)> done) { done(view); },
            [this](Millis, std::function<void()> run) {
              const std::lock_guard lock(timers_mutex);
              timers.push_back(std::move(run));
            },
            {1024, 16, 2, Millis{3000}}) {
    JobView job;
    job.id = JobId{7};
    job.user = "ana";
    job.state = JobState::kRunning;
    AttemptView attempt;
    attempt.attempt = Attempt{1};
    attempt.phase = "running";
    attempt.ranks = {RunningRank(0, "n0"), RunningRank(1, "n1")};
    job.attempts = {attempt};
    view = job;
    for (const char* node : {"n0", "n1"}) {
      links[node] = std::make_shared<FakeLink>();
      ids[node] = relay.NodeUp(NodeId{node}, SessionId{++sessions}, links[node]);
    }
  }

  LogRelay::FollowerId Open(bool follow, std::vector<Rank> ranks = {}) {
    LogQuery query{Caller{UserName{"ana"}, false}, {}};
    query.call.job = JobId{7};
    query.call.follow = follow;
    query.call.ranks = std::move(ranks);
    return relay.Open(std::move(query), [this] { ++wakes; });
  }

  // What the follower gets until it has to wait or is finished, one word each.
  std::vector<std::string> Drain(LogRelay::FollowerId follower) {
    std::vector<std::string> got;
    for (;;) {
      LogPull pull = relay.Pull(follower);
      if (std::holds_alternative<LogWait>(pull)) return got;
      if (const auto* finished = std::get_if<LogFinished>(&pull)) {
        got.push_back(finished->status ? "finished" : finished->status.error().message);
        return got;
      }
      const auto& piece = std::get<LogPiece>(pull);
      if (const auto* chunk = std::get_if<LogChunk>(&piece)) {
        got.push_back(std::to_string(chunk->rank) + "@" + std::to_string(chunk->offset) + ":" +
                      chunk->data);
      } else if (const auto* gap = std::get_if<LogGap>(&piece)) {
        got.push_back("gap " + std::to_string(gap->rank) + " " + std::to_string(gap->from) + "-" +
                      std::to_string(gap->to) + " " + gap->why);
      } else {
        const auto& end = std::get<LogEnd>(piece);
        got.push_back("end " + std::to_string(end.attempt.value) + "." + std::to_string(end.rank) +
                      "@" + std::to_string(end.offset) + (end.complete ? "" : " incomplete") +
                      (end.error.empty() ? "" : " " + end.error));
      }
    }
  }

  void Chunk(const std::string& node, std::size_t read, std::uint64_t offset, std::string data,
             std::int64_t wall = 0) {
    relay.OnChunk(ids[node], links[node]->reads[read].read, offset, std::move(data), WallMs(wall));
  }
  void End(const std::string& node, std::size_t read, std::uint64_t offset) {
    relay.OnEnd(ids[node], links[node]->reads[read].read, offset, true, "");
  }

  // The time that a silent node is given has passed.
  void SilenceIsOver() {
    std::vector<std::function<void()>> due;
    {
      const std::lock_guard lock(timers_mutex);
      due.swap(timers);
    }
    for (const auto& run : due) run();
  }

  using Got = std::vector<std::string>;
  std::mutex timers_mutex;
  std::vector<std::function<void()>> timers;
  Result<JobView> view;
  std::map<std::string, std::shared_ptr<FakeLink>> links;
  std::map<std::string, LogRelay::LinkId> ids;
  std::atomic<int> wakes = 0;
  std::uint64_t sessions = 0;
  LogRelay relay;
};

TEST_F(RelayTest, MergesTheRanksOfAFinishedJobByTime) {
  const auto follower = Open(false);
  EXPECT_EQ(Drain(follower), Got{});
  Chunk("n0", 0, 0, "a", 10);
  EXPECT_EQ(Drain(follower), Got{}) << "rank 1 may still have older lines";
  Chunk("n1", 0, 0, "b", 5);
  Chunk("n0", 0, 1, "c", 30);
  Chunk("n1", 0, 1, "d", 20);
  End("n0", 0, 2);
  End("n1", 0, 2);
  EXPECT_EQ(Drain(follower),
            (Got{"1@0:b", "0@0:a", "1@1:d", "end 1.1@2", "0@1:c", "end 1.0@2", "finished"}));
  EXPECT_GE(wakes, 1);
}

TEST_F(RelayTest, AFollowerThatWasCutOffGoesOnBehindWhatItHas) {
  view->attempts[0].phase = "ended";
  view->attempts.push_back(view->attempts[0]);
  view->attempts[1].attempt = Attempt{2};
  view->attempts[1].phase = "running";
  LogQuery query{Caller{UserName{"ana"}, false}, {}};
  query.call.job = JobId{7};
  query.call.follow = true;
  query.call.last_lines = 10;
  query.call.seen = {{Attempt{1}, 0, "out", 500}};
  const auto follower = relay.Open(std::move(query), [this] { ++wakes; });
  EXPECT_EQ(Drain(follower), Got{});
  ASSERT_EQ(links["n0"]->reads.size(), 1u);
  EXPECT_EQ(links["n0"]->reads[0].key.attempt, Attempt{1}) << "it has not seen the end of that";
  EXPECT_EQ(links["n0"]->reads[0].from, 500u);
  EXPECT_FALSE(links["n0"]->reads[0].last_lines);
  EXPECT_EQ(links["n1"]->reads.at(0).last_lines, 10u) << "of which it has nothing";
  Chunk("n0", 0, 520, "more");
  EXPECT_EQ(Drain(follower), (Got{"gap 0 500-520 lost", "0@520:more"}));
}

TEST_F(RelayTest, DeliversInOrderOfArrivalToAFollower) {
  const auto follower = Open(true);
  EXPECT_EQ(Drain(follower), Got{});
  EXPECT_TRUE(links["n0"]->reads.at(0).follow);
  EXPECT_EQ(links["n0"]->reads.at(0).from, 0u);
  Chunk("n0", 0, 0, "late", 99);
  Chunk("n1", 0, 0, "early", 1);
  EXPECT_EQ(Drain(follower), (Got{"0@0:late", "1@0:early"}));
}

TEST_F(RelayTest, FollowsOverARetryUntilTheJobIsDone) {
  const auto follower = Open(true, {0});
  Chunk("n0", 0, 0, "x");
  End("n0", 0, 1);
  EXPECT_EQ(Drain(follower), (Got{"0@0:x", "end 1.0@1"}));

  view->attempts[0].phase = "ended";
  view->state = JobState::kRequeued;
  relay.JobChanged(JobId{7});
  EXPECT_EQ(Drain(follower), Got{}) << "the retry may come on any node";

  AttemptView second = view->attempts[0];
  second.attempt = Attempt{2};
  second.phase = "running";
  second.ranks = {RunningRank(0, "n1")};
  view->attempts.push_back(second);
  relay.JobChanged(JobId{7});
  EXPECT_EQ(Drain(follower), Got{});
  ASSERT_EQ(links["n1"]->reads.size(), 1u);
  EXPECT_EQ(links["n1"]->reads[0].key, (Key{JobId{7}, Attempt{2}}));
  Chunk("n1", 0, 0, "y");
  End("n1", 0, 1);
  EXPECT_EQ(Drain(follower), (Got{"0@0:y", "end 2.0@1"}));

  view->attempts[1].phase = "ended";
  view->state = JobState::kSucceeded;
  relay.JobChanged(JobId{7});
  EXPECT_EQ(Drain(follower), Got{"finished"});
}

TEST_F(RelayTest, WaitsForRanksThatHaveNotStarted) {
  view->attempts[0].ranks[0].state = "waiting";
  view->attempts[0].ranks[0].pid = 0;
  const auto follower = Open(true, {0});
  EXPECT_EQ(Drain(follower), Got{});
  EXPECT_TRUE(links["n0"]->reads.empty());
  view->attempts[0].ranks[0] = RunningRank(0, "n0");
  relay.JobChanged(JobId{7});
  EXPECT_EQ(links["n0"]->reads.size(), 1u);
}

TEST_F(RelayTest, CreditsOnlyWhatTheFollowerTook) {
  const auto follower = Open(true, {0});
  EXPECT_EQ(links["n0"]->reads.at(0).credit, 1024u);
  Chunk("n0", 0, 0, std::string(600, 'a'));
  EXPECT_TRUE(links["n0"]->credits.empty()) << "nobody has read it yet";
  Drain(follower);
  EXPECT_EQ(links["n0"]->credits[links["n0"]->reads[0].read], 600u);
}

TEST_F(RelayTest, JoinsWhatAFollowerHasNotReadYet) {
  const auto follower = Open(true, {0});
  Chunk("n0", 0, 0, "one ");
  Chunk("n0", 0, 4, "two ");
  Chunk("n0", 0, 20, "far");
  EXPECT_EQ(Drain(follower), (Got{"0@0:one two ", "gap 0 8-20 lost", "0@20:far"}));
}

TEST_F(RelayTest, DropsAnAgentThatFloodsWithGaps) {
  (void)Open(true, {0});
  const std::uint64_t read = links["n0"]->reads.at(0).read;
  for (std::uint64_t at = 0; at < 10'001; ++at) {
    relay.OnGap(ids["n0"], read, at, at + 1, "punched");
  }
  EXPECT_NE(links["n0"]->dropped, "");
}

TEST_F(RelayTest, DropsAnAgentThatSendsMoreThanItsCredit) {
  (void)Open(true, {0});
  Chunk("n0", 0, 0, std::string(1000, 'a'));
  EXPECT_EQ(links["n0"]->dropped, "");
  Chunk("n0", 0, 1000, std::string(100, 'a'));
  EXPECT_NE(links["n0"]->dropped, "");
}

TEST_F(RelayTest, SharesTheBudgetAmongRanks) {
  (void)Open(true);
  EXPECT_EQ(links["n0"]->reads.at(0).credit, 512u);
  EXPECT_EQ(links["n1"]->reads.at(0).credit, 512u);
}

TEST_F(RelayTest, EndsARankOfASilentNodeWithAGapWhenNotFollowing) {
  relay.NodeDown(ids["n1"]);
  const auto follower = Open(false);
  Chunk("n0", 0, 0, "a", 10);
  End("n0", 0, 1);
  EXPECT_EQ(Drain(follower), Got{}) << "it may be back at once";
  SilenceIsOver();
  EXPECT_EQ(Drain(follower), (Got{"gap 1 0-0 node silent", "end 1.1@0 incomplete node silent",
                                  "0@0:a", "end 1.0@1", "finished"}));
}

TEST_F(RelayTest, AFollowerIsToldOfSilenceAndGoesOnWhereItStopped) {
  const auto follower = Open(true, {0});
  Chunk("n0", 0, 0, "abc");
  EXPECT_EQ(Drain(follower), Got{"0@0:abc"});
  relay.NodeDown(ids["n0"]);
  EXPECT_EQ(Drain(follower), Got{});
  SilenceIsOver();
  EXPECT_EQ(Drain(follower), Got{"gap 0 3-3 node silent"});
  EXPECT_EQ(Drain(follower), Got{}) << "said once";

  links["n0"] = std::make_shared<FakeLink>();
  ids["n0"] = relay.NodeUp(NodeId{"n0"}, SessionId{++sessions}, links["n0"]);
  ASSERT_EQ(links["n0"]->reads.size(), 1u);
  EXPECT_EQ(links["n0"]->reads[0].from, 3u);
  Chunk("n0", 0, 1, "bcd");
  EXPECT_EQ(Drain(follower), Got{"0@3:d"}) << "bytes sent again are delivered once";
}

TEST_F(RelayTest, AControllerThatRestartsTellsReadersOfNoSilence) {
  for (const char* node : {"n0", "n1"}) relay.NodeDown(ids[node]);
  const auto follower = Open(false, {0});
  EXPECT_EQ(Drain(follower), Got{});
  links["n0"] = std::make_shared<FakeLink>();
  ids["n0"] = relay.NodeUp(NodeId{"n0"}, SessionId{++sessions}, links["n0"]);
  SilenceIsOver();
  Chunk("n0", 0, 0, "a");
  End("n0", 0, 1);
  EXPECT_EQ(Drain(follower), (Got{"0@0:a", "end 1.0@1", "finished"}));
}

TEST_F(RelayTest, ABulkStreamEndsWithItsControlStream) {
  const auto follower = Open(true, {0});
  relay.SessionOver(SessionId{1});
  EXPECT_NE(links["n0"]->dropped, "");
  EXPECT_EQ(links["n1"]->dropped, "");
  Chunk("n0", 0, 0, "late");
  EXPECT_EQ(Drain(follower), Got{});
}

TEST_F(RelayTest, ALostRangeIsSaid) {
  const auto follower = Open(true, {0});
  Chunk("n0", 0, 0, "ab");
  Chunk("n0", 0, 9, "c");
  relay.OnGap(ids["n0"], links["n0"]->reads[0].read, 10, 20, "punched");
  Chunk("n0", 0, 20, "d");
  EXPECT_EQ(Drain(follower),
            (Got{"0@0:ab", "gap 0 2-9 lost", "0@9:c", "gap 0 10-20 punched", "0@20:d"}));
}

TEST_F(RelayTest, ClosesItsReadsWhenTheFollowerLeaves) {
  const auto follower = Open(true, {0});
  const std::uint64_t read = links["n0"]->reads.at(0).read;
  relay.Close(follower);
  EXPECT_EQ(links["n0"]->closed, std::vector<std::uint64_t>{read});
  Chunk("n0", 0, 0, "late");  // on its way already
  EXPECT_EQ(links["n0"]->dropped, "");
}

TEST_F(RelayTest, RefusesOthersJobsAndAttemptsThatNeverWere) {
  view->user = "bob";
  EXPECT_NE(Drain(Open(false)).at(0).find("not one of yours"), std::string::npos);
  view->user = "ana";
  LogQuery query{Caller{UserName{"ana"}, false}, {}};
  query.call.job = JobId{7};
  query.call.attempt = Attempt{4};
  EXPECT_EQ(Drain(relay.Open(query, [] {})), Got{"job 7 has no attempt 4"});
}

TEST_F(RelayTest, AUserWhoIsShutOutGetsNothingMoreNotEvenWhatIsHere) {
  const auto follower = Open(true);
  EXPECT_EQ(Drain(follower), Got{});
  Chunk("n0", 0, 0, "a");
  relay.CloseUser(UserName{"bob"}, Error{ErrorCode::kPermissionDenied, "shut out", "", {}});
  EXPECT_EQ(Drain(follower), Got{"0@0:a"}) << "another user";
  Chunk("n0", 0, 1, "b");
  const int before = wakes;
  relay.CloseUser(UserName{"ana"}, Error{ErrorCode::kPermissionDenied, "shut out", "", {}});
  EXPECT_EQ(Drain(follower), Got{"shut out"});
  EXPECT_EQ(links["n0"]->closed.size(), 1u);
  EXPECT_GE(wakes, before);
}

TEST_F(RelayTest, ClosesTheOldestFollowerOfAUserBeyondTheLimit) {
  const auto first = Open(true);
  (void)Open(true);
  (void)Open(true);
  EXPECT_NE(Drain(first).at(0).find("closed for a newer one"), std::string::npos);
}

TEST_F(RelayTest, AJobWithoutAttemptsEndsAtOnceUnlessFollowed) {
  view->attempts.clear();
  view->state = JobState::kPending;
  EXPECT_EQ(Drain(Open(false)), Got{"finished"});
  const auto follower = Open(true);
  EXPECT_EQ(Drain(follower), Got{});
  view->state = JobState::kCancelled;
  relay.JobChanged(JobId{7});
  EXPECT_EQ(Drain(follower), Got{"finished"});
}

// Under TSan: agents send, followers pull and leave, nodes come and go, all at once.
TEST_F(RelayTest, EveryThreadMayDoEverything) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const auto follower = Open(true);
        for (int n = 0; n < 20; ++n) (void)relay.Pull(follower);
        relay.Close(follower);
      }
    });
  }
  threads.emplace_back([&] {
    for (std::uint64_t read = 1; !stop; ++read) {
      relay.OnChunk(ids["n1"], read % 500, 0, "x", WallMs(0));
      relay.OnEnd(ids["n1"], read % 500, 1, true, "");
    }
  });
  threads.emplace_back([&] {
    while (!stop) relay.JobChanged(JobId{7});
  });
  for (int n = 0; n < 200; ++n) {
    const auto link =
        relay.NodeUp(NodeId{"n0"}, SessionId{++sessions}, std::make_shared<FakeLink>());
    relay.NodeDown(link);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace launch::controller
