#include "agent/link/write_queue.h"

#include <gtest/gtest.h>

#include "proto/node.pb.h"

namespace launch::agent {
namespace {

v1::FromNode Beat(std::uint64_t n) {
  v1::FromNode message;
  message.mutable_beat()->set_n(n);
  return message;
}
v1::FromNode Exit(int rank) {
  v1::FromNode message;
  message.mutable_rank_exited()->mutable_report()->set_rank(rank);
  return message;
}

TEST(WriteQueue, KeepsOrderOfWhatMayNotBeLost) {
  WriteQueue<v1::FromNode> queue(1000);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(queue.Push(Exit(rank), ""));
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(queue.Pop()->rank_exited().report().rank(), rank);
  EXPECT_FALSE(queue.Pop().has_value());
}

TEST(WriteQueue, KeepsOnlyTheNewestTelemetryAndSendsItLast) {
  WriteQueue<v1::FromNode> queue(1000);
  for (std::uint64_t n = 1; n <= 1000; ++n) EXPECT_TRUE(queue.Push(Beat(n), "beat"));
  EXPECT_TRUE(queue.Push(Exit(7), ""));
  EXPECT_TRUE(queue.Pop()->has_rank_exited());
  EXPECT_EQ(queue.Pop()->beat().n(), 1000u);
  EXPECT_FALSE(queue.Pop().has_value());
}

TEST(WriteQueue, SaysWhenThePeerDoesNotRead) {
  WriteQueue<v1::FromNode> queue(100);
  bool taken = true;
  int count = 0;
  for (; taken && count < 1000; ++count) taken = queue.Push(Exit(count), "");
  EXPECT_FALSE(taken);
  EXPECT_LT(count, 100);
}

TEST(WriteQueue, OneMessageBeyondTheBoundStillGoes) {
  WriteQueue<v1::FromNode> queue(1);
  EXPECT_TRUE(queue.Push(Exit(1000), "")) << "a large Hello";
}

}  // namespace
}  // namespace launch::agent
