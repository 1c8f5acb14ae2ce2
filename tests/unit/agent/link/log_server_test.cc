#include "agent/link/log_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "proto/node.pb.h"

namespace launch::agent {
namespace {

// One growing text per rank.
class FakeLogs final : public LogSource {
 public:
  struct Log {
    std::string text;
    std::uint64_t punched_from = 0;
    std::uint64_t punched_to = 0;
    bool ended = false;
    bool emptied = false;  // what was punched
    bool later = false;
  };
  Result<LogPiece> Read(const Key&, Rank rank, const std::string&, std::uint64_t from,
                        std::size_t max_bytes) override {
    const auto found = logs.find(rank);
    if (found == logs.end()) return Fail(ErrorCode::kNotFound, "no log of this rank");
    const Log& log = found->second;
    LogPiece piece;
    if (from >= log.punched_from && from < log.punched_to) {
      piece.gap = {from, log.punched_to};
      piece.next = log.punched_to;
      piece.emptied = log.emptied;
      return piece;
    }
    if (log.later) {
      piece.next = from;
      piece.later = true;
      return piece;
    }
    std::size_t most = max_bytes;
    if (from < log.punched_from) most = std::min<std::size_t>(most, log.punched_from - from);
    piece.data = log.text.substr(std::min<std::size_t>(from, log.text.size()), most);
    piece.next = from + piece.data.size();
    piece.complete = log.ended && piece.next >= log.text.size();
    return piece;
  }
  Result<std::uint64_t> OffsetOfLastLines(const Key&, Rank rank, const std::string&,
                                          std::uint32_t lines) override {
    const std::string& text = logs[rank].text;
    std::size_t at = text.size();
    for (std::uint32_t i = 0; i <= lines && at != std::string::npos && at > 0; ++i)
      at = text.rfind('\n', at - 1);
    return at == std::string::npos ? 0 : at + 1;
  }
  std::map<Rank, Log> logs;
};

v1::BulkDown Ask(std::uint64_t id, Rank rank, bool follow = false, std::uint64_t credit = 1000) {
  v1::BulkDown down;
  auto* read = down.mutable_read();
  read->set_read(id);
  read->mutable_key()->set_job(1);
  read->mutable_key()->set_attempt(1);
  read->set_rank(rank);
  read->set_stream("out");
  read->set_from(0);
  read->set_follow(follow);
  read->set_credit(credit);
  return down;
}

v1::BulkDown Credit(std::uint64_t id, std::uint64_t bytes) {
  v1::BulkDown down;
  down.mutable_credit()->set_read(id);
  down.mutable_credit()->set_bytes(bytes);
  return down;
}

TEST(LogServer, GivesAllBytesAndSaysThatTheyAreAll) {
  FakeLogs logs;
  logs.logs[0] = {.text = "a\nb\n", .ended = true};
  LogServer server(logs);
  server.Accept(Ask(1, 0));
  const auto chunk = server.Next();
  ASSERT_TRUE(chunk && chunk->has_chunk());
  EXPECT_EQ(chunk->chunk().data(), "a\nb\n");
  EXPECT_EQ(chunk->chunk().offset(), 0u);
  const auto end = server.Next();
  ASSERT_TRUE(end && end->has_end());
  EXPECT_TRUE(end->end().complete());
  EXPECT_EQ(end->end().offset(), 4u);
  EXPECT_FALSE(server.Next().has_value());
}

TEST(LogServer, WithoutFollowARunningRankEndsIncomplete) {
  FakeLogs logs;
  logs.logs[0] = {.text = "a\n"};
  LogServer server(logs);
  server.Accept(Ask(1, 0));
  (void)server.Next();
  const auto end = server.Next();
  ASSERT_TRUE(end && end->has_end());
  EXPECT_FALSE(end->end().complete());
}

TEST(LogServer, FollowsUntilTheRankEnds) {
  FakeLogs logs;
  logs.logs[0] = {.text = "a\n"};
  LogServer server(logs);
  server.Accept(Ask(1, 0, true));
  EXPECT_TRUE(server.Next()->has_chunk());
  EXPECT_FALSE(server.Next().has_value());
  EXPECT_TRUE(server.Following());
  logs.logs[0].text += "b\n";
  EXPECT_EQ(server.Next()->chunk().data(), "b\n");
  logs.logs[0].ended = true;
  const auto end = server.Next();
  ASSERT_TRUE(end && end->has_end());
  EXPECT_TRUE(end->end().complete());
  EXPECT_FALSE(server.Following());
}

TEST(LogServer, NeverGivesMoreThanTheCredit) {
  FakeLogs logs;
  logs.logs[0] = {.text = "abcdef", .ended = true};
  LogServer server(logs);
  server.Accept(Ask(1, 0, true, 4));
  EXPECT_EQ(server.Next()->chunk().data(), "abcd");
  EXPECT_FALSE(server.Next().has_value());
  server.Accept(Credit(1, 100));
  EXPECT_EQ(server.Next()->chunk().data(), "ef");
  EXPECT_TRUE(server.Next()->has_end());
}

TEST(LogServer, AnEndNeedsNoCredit) {
  FakeLogs logs;
  logs.logs[0] = {.text = "abcd", .ended = true};
  LogServer server(logs);
  server.Accept(Ask(1, 0, true, 4));
  EXPECT_TRUE(server.Next()->has_chunk());
  EXPECT_TRUE(server.Next()->has_end());
}

TEST(LogServer, WaitsForWhatIsKnownInAMomentAlsoWithoutFollow) {
  FakeLogs logs;
  logs.logs[0] = {.text = "a\n", .later = true};
  LogServer server(logs);
  server.Accept(Ask(1, 0));
  EXPECT_FALSE(server.Next().has_value());
  EXPECT_TRUE(server.Following());
  logs.logs[0].later = false;
  EXPECT_EQ(server.Next()->chunk().data(), "a\n");
  EXPECT_TRUE(server.Next()->has_end());
}

TEST(LogServer, TellsWhatTheJobEmptiedFromWhatWasDropped) {
  FakeLogs logs;
  logs.logs[0] = {.text = "....b\n", .punched_to = 4, .ended = true};
  logs.logs[1] = {.text = "....b\n", .punched_to = 4, .ended = true, .emptied = true};
  LogServer server(logs);
  server.Accept(Ask(1, 0));
  EXPECT_EQ(server.Next()->gap().why(), "dropped to save space");
  server.Accept(Ask(2, 1));
  EXPECT_EQ(server.Next()->gap().why(), "the job emptied its own log; rounded up");
}

TEST(LogServer, TellsWhatThePunchedMiddleWas) {
  FakeLogs logs;
  logs.logs[0] = {.text = "head....tail", .punched_from = 4, .punched_to = 8, .ended = true};
  LogServer server(logs);
  server.Accept(Ask(1, 0));
  EXPECT_EQ(server.Next()->chunk().data(), "head");
  const auto gap = server.Next();
  ASSERT_TRUE(gap && gap->has_gap());
  EXPECT_EQ(gap->gap().from(), 4u);
  EXPECT_EQ(gap->gap().to(), 8u);
  const auto tail = server.Next();
  EXPECT_EQ(tail->chunk().data(), "tail");
  EXPECT_EQ(tail->chunk().offset(), 8u);
}

TEST(LogServer, BeginsAtTheLastLines) {
  FakeLogs logs;
  logs.logs[0] = {.text = "a\nb\nc\n", .ended = true};
  LogServer server(logs);
  v1::BulkDown ask = Ask(1, 0);
  ask.mutable_read()->clear_from();
  ask.mutable_read()->set_last_lines(2);
  server.Accept(ask);
  const auto chunk = server.Next();
  EXPECT_EQ(chunk->chunk().data(), "b\nc\n");
  EXPECT_EQ(chunk->chunk().offset(), 2u);
}

TEST(LogServer, ReadsTakeTurns) {
  FakeLogs logs;
  logs.logs[0] = {.text = std::string(1'000'000, 'a'), .ended = true};
  logs.logs[1] = {.text = "b", .ended = true};
  LogServer server(logs);
  server.Accept(Ask(1, 0, false, 10'000'000));
  server.Accept(Ask(2, 1));
  EXPECT_EQ(server.Next()->chunk().read(), 1u);
  EXPECT_EQ(server.Next()->chunk().read(), 2u);
  EXPECT_EQ(server.Next()->chunk().read(), 1u);
}

TEST(LogServer, SaysWhyThereIsNothing) {
  FakeLogs logs;
  LogServer server(logs);
  server.Accept(Ask(1, 5));
  const auto end = server.Next();
  ASSERT_TRUE(end && end->has_end());
  EXPECT_EQ(end->end().error(), "no log of this rank");
  v1::BulkDown ask = Ask(2, 0);
  ask.mutable_read()->set_stream("../../etc/passwd");
  server.Accept(ask);
  EXPECT_NE(server.Next()->end().error(), "");
}

TEST(LogServer, AClosedReadIsSilent) {
  FakeLogs logs;
  logs.logs[0] = {.text = "a"};
  LogServer server(logs);
  server.Accept(Ask(1, 0, true));
  v1::BulkDown close;
  close.mutable_close()->set_read(1);
  server.Accept(close);
  EXPECT_FALSE(server.Next().has_value());
}

}  // namespace
}  // namespace launch::agent
