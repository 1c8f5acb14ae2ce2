// What a refusal costs: a job that is too large its submitter, a bad fact its attempt.
#include <gtest/gtest.h>

#include "proto/convert_node.h"
#include "proto/convert_user.h"
#include "tests/unit/proto/every_message.h"
#include "tests/unit/proto/fill_message.h"

namespace launch {
namespace {

pb::SubmitRequest Request(int files, std::size_t source) {
  pb::SubmitRequest m;
  testing::MessageFiller(5).Fill(m);
  m.set_source(std::string(source, 's'));
  m.mutable_context()->clear_files();
  for (int i = 0; i < files; ++i) {
    (*m.mutable_context()->mutable_files())["f" + std::to_string(i)] = std::string(250 << 10, ' ');
  }
  return m;
}

TEST(Submit, IsRefusedWhenTheStoreCouldNotKeepIt) {
  const auto taken = FromProto(Request(2, 256 << 10));
  EXPECT_TRUE(taken.has_value()) << taken.error().message;
  const auto refused = FromProto(Request(3, 256 << 10));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("960 KiB"), std::string::npos);
}

// A message with this body that FromProto refuses, and what is made of it.
template <class Change>
std::optional<FromNodeEnvelope> Instead(Change change) {
  pb::FromNode m;
  m.set_session(9);
  change(m);
  const auto read = FromProto(m);
  EXPECT_FALSE(read.has_value());
  return read ? std::nullopt : InsteadOf(m, read.error());
}

TEST(Envelope, ABadFactAboutAnAttemptCostsThatAttemptOnly) {
  const auto key = [](pb::Key& m) {
    m.set_job(7);
    m.set_attempt(2);
  };
  const Key expected{JobId{7}, Attempt{2}};
  const auto ready = Instead([&](pb::FromNode& m) {
    key(*m.mutable_ready()->mutable_key());
    m.mutable_ready()->set_digest("no digest");
  });
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(ready->session, 9u);
  const auto& refused = std::get<from_node::Refused>(ready->body);
  EXPECT_EQ(refused.key, expected);
  EXPECT_EQ(refused.stage, "stage") << "the node holds it until a Stop fetches the proof";
  EXPECT_NE(refused.why.find("ready.digest"), std::string::npos) << refused.why;
  const auto started = Instead([&](pb::FromNode& m) {
    key(*m.mutable_started()->mutable_key());
    m.mutable_started()->add_pids()->set_rank(-5);
  });
  EXPECT_EQ(std::get<from_node::Refused>(started->body).stage, "go");
  const auto exit = Instead([&](pb::FromNode& m) {
    key(*m.mutable_rank_exited()->mutable_report()->mutable_key());
    m.mutable_rank_exited()->mutable_report()->set_rank(3);
    m.mutable_rank_exited()->mutable_report()->mutable_exited()->set_code(999);
  });
  const ExitReport& report = std::get<from_node::RankExited>(exit->body).report;
  EXPECT_EQ(report.key, expected);
  EXPECT_EQ(report.rank, 3);
  EXPECT_TRUE(std::holds_alternative<UnknownEnd>(report.cause)) << "never a success by mistake";
}

TEST(Envelope, ABadFactAboutTheNodeBecomesANotice) {
  for (const auto& instead : {Instead([](pb::FromNode& m) { m.mutable_inventory_changed(); }),
                              Instead([](pb::FromNode& m) { m.mutable_notice(); }),
                              Instead([](pb::FromNode& m) { m.mutable_released(); })}) {
    ASSERT_TRUE(instead.has_value());
    EXPECT_EQ(std::get<from_node::Notice>(instead->body).kind, "node.bad_message");
  }
}

TEST(Envelope, WhatIsWrongAboutTheStreamEndsIt) {
  EXPECT_FALSE(Instead([](pb::FromNode&) {}).has_value());
  EXPECT_FALSE(Instead([](pb::FromNode& m) { m.mutable_hello(); }).has_value());
  EXPECT_FALSE(Instead([](pb::FromNode& m) { m.mutable_beat()->set_pong_age_ms(-1); }).has_value());
  EXPECT_FALSE(Instead([](pb::FromNode& m) { m.mutable_ready(); }).has_value())
      << "a key that names nothing";
}

// The same for a message of the controller.
template <class Change>
std::optional<ToNodeEnvelope> InsteadOfOrder(Change change) {
  pb::ToNode m;
  m.mutable_fence()->set_incarnation(1);
  m.set_session(9);
  change(m);
  const auto read = FromProto(m);
  EXPECT_FALSE(read.has_value());
  return read ? std::nullopt : InsteadOf(m, read.error());
}

TEST(Envelope, ABadOrderOfTheControllerCostsItsAttemptOnly) {
  const auto key = [](pb::Key& m) {
    m.set_job(7);
    m.set_attempt(2);
  };
  const Key expected{JobId{7}, Attempt{2}};
  const auto stage = InsteadOfOrder([&](pb::ToNode& m) {
    key(*m.mutable_stage()->mutable_key());
    m.mutable_stage()->set_master_port(70'000);
  });
  ASSERT_TRUE(stage.has_value());
  EXPECT_EQ(stage->session, 9u);
  EXPECT_EQ(std::get<to_node::Stage>(stage->body).key, expected);
  EXPECT_NE(std::get<to_node::Stage>(stage->body).refused.find("stage."), std::string::npos);
  const auto go = InsteadOfOrder([&](pb::ToNode& m) { key(*m.mutable_go()->mutable_key()); });
  ASSERT_TRUE(go.has_value());
  EXPECT_FALSE(std::get<to_node::Go>(go->body).refused.empty());
  const auto stop = InsteadOfOrder([&](pb::ToNode& m) {
    key(*m.mutable_stop()->mutable_key());
    m.mutable_stop()->set_grace_ms(-1);
  });
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(std::get<to_node::Stop>(stop->body).key, expected) << "a stop is obeyed all the same";
  EXPECT_GT(std::get<to_node::Stop>(stop->body).grace.count(), 0);
  const auto prepare = InsteadOfOrder([&](pb::ToNode& m) {
    pb::AllocationSpec spec;
    key(*spec.mutable_key());
    m.mutable_prepare()->set_spec(spec.SerializeAsString());
    m.mutable_prepare()->set_digest("of other bytes");
  });
  ASSERT_TRUE(prepare.has_value());
  EXPECT_EQ(std::get<to_node::Prepare>(prepare->body).spec.key, expected);
  EXPECT_FALSE(std::get<to_node::Prepare>(prepare->body).refused.empty());
}

TEST(Envelope, AnOrderWithoutAnAttemptIsASignOfLifeAndABadFenceClosesTheStream) {
  const auto stage = InsteadOfOrder([](pb::ToNode& m) { m.mutable_stage(); });
  ASSERT_TRUE(stage.has_value());
  EXPECT_TRUE(std::holds_alternative<to_node::Pong>(stage->body));
  EXPECT_FALSE(InsteadOfOrder([](pb::ToNode& m) { m.mutable_welcome(); }).has_value());
  EXPECT_FALSE(InsteadOfOrder([](pb::ToNode&) {}).has_value());
  EXPECT_FALSE(InsteadOfOrder([](pb::ToNode& m) {
                 m.clear_fence();
                 m.mutable_go()->mutable_key()->set_job(7);
               }).has_value());
}

}  // namespace
}  // namespace launch
