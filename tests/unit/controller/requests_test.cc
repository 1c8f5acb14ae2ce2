#include "controller/services/requests.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "controller/services/calls_of_users.h"
#include "controller/services/directory.h"
#include "controller/services/sessions.h"

namespace launch::controller {
namespace {

event::ListNodes Anything() { return {}; }

TEST(RequestsTest, AnAnswerGoesToItsCallerAndOnlyOnce) {
  Mailbox<Event> mailbox(8);
  Executor executor;
  Requests requests(mailbox, executor);
  int answers = 0;
  requests.Ask("ana", Anything(), [&](Result<ReplyBody> body) {
    EXPECT_TRUE(body);
    ++answers;
  });
  const auto events = mailbox.TakeBatch(8, 0);
  ASSERT_EQ(events.size(), 1u);
  const RequestId id = std::get<event::ListNodes>(events[0]).request;
  requests.Complete(id, ReplyBody(reply::Nodes{}));
  requests.Complete(id, ReplyBody(reply::Nodes{}));
  EXPECT_EQ(answers, 1);
}

TEST(RequestsTest, AFullMailboxRefusesAtOnce) {
  Mailbox<Event> mailbox(1);
  Executor executor;
  Requests requests(mailbox, executor);
  requests.Ask("ana", Anything(), [](Result<ReplyBody>) { FAIL() << "still waiting"; });
  std::optional<ErrorCode> code;
  requests.Ask("ana", Anything(), [&](Result<ReplyBody> body) { code = body.error().code; });
  EXPECT_EQ(code, ErrorCode::kResourceExhausted);
}

TEST(CallsOfUsers, APlaceIsTakenUntilItIsLetGo) {
  CallsOfUsers calls(2);
  const UserName ana{"ana"};
  const CallsOfUsers::Place first = calls.Take(ana);
  CallsOfUsers::Place second = calls.Take(ana);
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(calls.Take(ana));
  EXPECT_TRUE(calls.Take(UserName{"bob"}));
  const CallsOfUsers::Place copy = std::exchange(second, nullptr);
  EXPECT_FALSE(calls.Take(ana)) << "a copy of it is there";
  EXPECT_TRUE(calls.Take(UserName{"bob"})) << "his is free again";
}

TEST(CallsOfUsers, APlaceMayOutliveThem) {
  std::optional<CallsOfUsers> calls(1);
  const CallsOfUsers::Place place = calls->Take(UserName{"ana"});
  calls.reset();
  EXPECT_TRUE(place);
}

TEST(RequestsTest, OneCallerCannotTakeEveryPlace) {
  Mailbox<Event> mailbox(8);
  Executor executor;
  Requests requests(mailbox, executor, {Millis{10'000}, 2});
  for (int i = 0; i < 2; ++i) requests.Ask("ana", Anything(), [](Result<ReplyBody>) {});
  std::optional<ErrorCode> code;
  requests.Ask("ana", Anything(), [&](Result<ReplyBody> body) { code = body.error().code; });
  EXPECT_EQ(code, ErrorCode::kResourceExhausted);
  requests.Ask("bob", Anything(), [](Result<ReplyBody>) { FAIL() << "bob has room"; });
}

TEST(RequestsTest, NobodyWaitsForARequestThatIsAnsweredOrWhoseCallerHungUp) {
  Mailbox<Event> mailbox(8);
  Executor executor;
  Requests requests(mailbox, executor);
  bool gone = false;
  requests.Ask("ana", Anything(), [](Result<ReplyBody>) {});
  requests.Ask(
      "bob", Anything(), [](Result<ReplyBody>) {}, [&] { return gone; });
  const auto events = mailbox.TakeBatch(8, 0);
  const RequestId ana = std::get<event::ListNodes>(events.at(0)).request;
  const RequestId bob = std::get<event::ListNodes>(events.at(1)).request;
  EXPECT_TRUE(requests.IsWaiting(ana));
  EXPECT_TRUE(requests.IsWaiting(bob));
  gone = true;
  EXPECT_TRUE(requests.IsWaiting(ana));
  EXPECT_FALSE(requests.IsWaiting(bob));
  requests.Complete(ana, ReplyBody(reply::Nodes{}));
  EXPECT_FALSE(requests.IsWaiting(ana));
}

TEST(RequestsTest, ARequestThatNobodyAnswersEndsAtItsDeadline) {
  Mailbox<Event> mailbox(8);
  Executor executor;
  Requests requests(mailbox, executor, {Millis{1}, 8});
  std::promise<ErrorCode> answered;
  requests.Ask("ana", Anything(),
               [&](Result<ReplyBody> body) { answered.set_value(body.error().code); });
  EXPECT_EQ(answered.get_future().get(), ErrorCode::kDeadlineExceeded);
}

TEST(RequestsTest, AStopTellsThoseWhoWaitAndThoseWhoCome) {
  Mailbox<Event> mailbox(8);
  Executor executor;
  Requests requests(mailbox, executor);
  int told = 0;
  const auto count = [&](Result<ReplyBody> body) {
    EXPECT_EQ(body.error().code, ErrorCode::kUnavailable);
    ++told;
  };
  requests.Ask("ana", Anything(), count);
  requests.Refuse(Error{ErrorCode::kUnavailable, "stopping", "", std::nullopt});
  requests.Ask("ana", Anything(), count);
  EXPECT_EQ(told, 2);
}

TEST(RequestsTest, EveryThreadMayAskAndAnswer) {
  Mailbox<Event> mailbox(10'000);
  Executor executor;
  Requests requests(mailbox, executor, {Millis{1}, 10'000});  // deadlines race with answers
  std::atomic<int> answered = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, name = std::to_string(caller)] {
      for (int i = 0; i < 300; ++i) {
        requests.Ask(name, Anything(), [&](Result<ReplyBody>) { ++answered; });
      }
    });
  }
  int taken = 0;
  while (taken < 900) {
    for (const Event& event : mailbox.TakeBatch(64, -1)) {
      ++taken;
      requests.Complete(std::get<event::ListNodes>(event).request, ReplyBody(reply::Nodes{}));
    }
  }
  for (auto& caller : callers) caller.join();
  requests.Refuse(Error{ErrorCode::kUnavailable, "stopping", "", std::nullopt});
  executor.Stop();
  EXPECT_EQ(answered, 900);
}

struct RecordingLink final : SessionLink {
  std::vector<ToNodeEnvelope> sent;
  std::string closed;
  void Send(const ToNodeEnvelope& envelope) override { sent.push_back(envelope); }
  void Close(const std::string& why) override { closed = why; }
};

TEST(SessionsTest, NumbersGrowWithTheEpochAndMessagesOfGoneSessionsAreDropped) {
  Sessions sessions(7);
  const auto link = std::make_shared<RecordingLink>();
  const SessionId first = sessions.Open(NodeId{"n0"}, "aa", link);
  const SessionId second = sessions.Open(NodeId{"n0"}, "bb", link);
  EXPECT_EQ(first.value >> 32, 7u);
  EXPECT_LT(first, second);
  EXPECT_LT(second, Sessions(8).Open(NodeId{"n0"}, "cc", link));
  sessions.Forget(first);
  sessions.Send(first, Fence{}, to_node::Pong{1});
  EXPECT_TRUE(link->sent.empty());
  sessions.Send(second, Fence{1, 7, 9}, to_node::Pong{2});
  ASSERT_EQ(link->sent.size(), 1u);
  EXPECT_EQ(link->sent[0].session, second.value);
  EXPECT_EQ(link->sent[0].fence.revision, 9u);
  EXPECT_EQ(sessions.NodeOf(first), std::nullopt);
  sessions.CloseSerial("aa", "x");
  EXPECT_EQ(link->closed, "");
  sessions.CloseSerial("bb", "revoked");
  EXPECT_EQ(link->closed, "revoked");
}

// Every cell: to which node a job's copied directory is given out.
TEST(DirectoryTest, ANodeHasTheOwnerOfAJobWhileItsAllocationIsNotReleased) {
  const auto known = [](JobId id) {
    JobRecord job;
    job.id = id;
    job.owner = UserName{"ana"};
    return Put{job};
  };
  using enum StoredAllocPhase;
  for (const auto& [phase, serves] : std::map<StoredAllocPhase, bool>{{kAssigned, true},
                                                                      {kAccepted, true},
                                                                      {kReady, true},
                                                                      {kStarted, true},
                                                                      {kExited, true},
                                                                      {kReleased, false},
                                                                      {kRefused, false},
                                                                      {kQuarantined, false}}) {
    Directory directory;
    directory.Note(known(JobId{3}));
    directory.Note(known(JobId{4}));
    AllocRecord alloc;
    alloc.key = {JobId{3}, Attempt{2}};
    alloc.node = NodeId{"gpu01"};
    EXPECT_FALSE(directory.OwnerFor(alloc.node, JobId{3})) << "none yet";
    directory.Note(Put{alloc});
    alloc.phase = phase;
    directory.Note(Put{alloc});
    const int number = static_cast<int>(phase);
    EXPECT_EQ(directory.OwnerFor(NodeId{"gpu01"}, JobId{3}).has_value(), serves) << number;
    EXPECT_FALSE(directory.OwnerFor(NodeId{"gpu02"}, JobId{3})) << number;
    EXPECT_FALSE(directory.OwnerFor(NodeId{"gpu0"}, JobId{3})) << number;
    EXPECT_FALSE(directory.OwnerFor(NodeId{"gpu01"}, JobId{4})) << number;
    EXPECT_FALSE(directory.OwnerFor(NodeId{"gpu01"}, JobId{5})) << number;
    AllocRecord next = alloc;  // the attempt after it, elsewhere and here
    next.key.attempt = Attempt{3};
    next.phase = kAssigned;
    next.node = NodeId{"gpu02"};
    directory.Note(Put{next});
    EXPECT_EQ(directory.OwnerFor(NodeId{"gpu01"}, JobId{3}).has_value(), serves) << number;
    EXPECT_EQ(directory.OwnerFor(NodeId{"gpu02"}, JobId{3}), UserName{"ana"}) << number;
    directory.Note(Delete{next});
    EXPECT_FALSE(directory.OwnerFor(NodeId{"gpu02"}, JobId{3})) << number;
  }
}

TEST(DirectoryTest, KnowsOperatorsOwnersAndRevokedCertificatesAsOfTheLastRecord) {
  Directory directory;
  directory.Note(Put{UserRecord{UserName{"ana"}, true, "aa"}});
  EXPECT_TRUE(directory.IsOperator(UserName{"ana"}));
  directory.Note(Put{UserRecord{UserName{"ana"}, false, "aa"}});
  EXPECT_FALSE(directory.IsOperator(UserName{"ana"})) << "a change acts at once";
  directory.Note(Put{DenyRecord{"bb", "rejoined"}});
  CertificateFacts facts{.identity = {"lab", "user", "ana"}, .serial = "bb"};
  EXPECT_EQ(directory.WhyDenied(facts), "rejoined");
  facts.serial = "b";
  EXPECT_EQ(directory.WhyDenied(facts), std::nullopt);
  directory.Note(Put{UserRecord{UserName{"ana"}, false, "aa", SignedAt(facts)}});
  EXPECT_EQ(directory.WhyDenied(facts), "by an operator");
  facts.identity.role = "node";
  EXPECT_EQ(directory.WhyDenied(facts), std::nullopt) << "a node may have the name of a user";
  facts.identity.role = "user";
  facts.not_before += Millis{1'000};
  EXPECT_EQ(directory.WhyDenied(facts), std::nullopt) << "signed since";
  JobRecord job;
  job.id = JobId{3};
  job.owner = UserName{"bob"};
  directory.Note(Put{job});
  EXPECT_EQ(directory.OwnerOf(JobId{3}), UserName{"bob"});
  EXPECT_EQ(directory.Jobs(), 1u);
  directory.Note(Delete{job});
  EXPECT_EQ(directory.OwnerOf(JobId{3}), std::nullopt);
}

}  // namespace
}  // namespace launch::controller
