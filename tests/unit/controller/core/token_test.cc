#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Token : testing::Test {
  void Create(const std::string& serial, const std::string& role, const std::string& name) {
    core.Post(event::CreateToken{RequestId{1},
                                 {UserName{"op"}, true},
                                 role,
                                 name,
                                 serial,
                                 core.now.wall + Millis{900'000},
                                 false});
    EXPECT_TRUE(core.Answer<reply::Token>(RequestId{1}).has_value());
  }
  Result<reply::Done> Use(const std::string& serial, const std::string& role,
                          const std::string& name, bool rejoin = false) {
    core.Post(event::UseToken{RequestId{2}, serial, role, name, "new-" + serial, rejoin});
    return core.Answer<reply::Done>(RequestId{2});
  }
  TestCore core;
};

TEST_F(Token, OpensTheDoorOnce) {
  Create("s1", "node", "gpu1");
  EXPECT_TRUE(Use("s1", "node", "gpu1").has_value());
  EXPECT_EQ(core.state.nodes.at(NodeId{"gpu1"}).certificate_serial, "new-s1");
  const auto again = Use("s1", "node", "gpu1", true);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::kPermissionDenied);
}

TEST_F(Token, IsNotRevokedOnceItIsUsedButWhomItLetInIs) {
  Create("s1", "operator", "ana");
  ASSERT_TRUE(Use("s1", "user", "ana").has_value());
  core.Post(
      event::CreateToken{RequestId{3}, {UserName{"op"}, true}, "", "", "s1", WallTime{}, true});
  const auto late = core.Answer<reply::Token>(RequestId{3});
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().hint, "shut out whom it let in: launch token revoke --user ana");
  const auto revoke = [&](const std::string& caller, const std::string& role,
                          const std::string& name) {
    core.Post(event::RevokeMember{RequestId{4}, {UserName{caller}, caller != "bob"}, role, name});
    const auto answer = core.Answer<reply::Done>(RequestId{4});
    return answer ? "" : answer.error().message;
  };
  EXPECT_EQ(revoke("bob", "user", "ana"), "user bob is not an operator");
  EXPECT_EQ(revoke("ana", "user", "ana"), "you are ana yourself");
  EXPECT_EQ(revoke("op", "user", "eve"), "no user is called eve");
  EXPECT_EQ(revoke("op", "node", "gpu9"), "no node is called gpu9");
  EXPECT_EQ(revoke("op", "user", "ana"), "");
  const UserRecord& ana = core.state.users.at(UserName{"ana"});
  EXPECT_EQ(ana.revoked, core.now.wall);
  EXPECT_FALSE(ana.is_operator);
}

TEST_F(Token, IsForOneNameAndOneRole) {
  Create("s1", "node", "gpu1");
  EXPECT_FALSE(Use("s1", "node", "gpu2").has_value());
  EXPECT_FALSE(Use("s1", "user", "gpu1").has_value());
  EXPECT_FALSE(Use("unknown", "node", "gpu1").has_value());
  EXPECT_TRUE(Use("s1", "node", "gpu1").has_value());
}

TEST_F(Token, ARenewalKeepsTheOneThatAskedAndTheNewOneGood) {
  Create("s1", "node", "gpu1");
  ASSERT_TRUE(Use("s1", "node", "gpu1").has_value());
  const auto renew = [this](const std::string& with, const std::string& fresh) {
    core.Post(event::Renew{RequestId{5}, with, "node", "gpu1", fresh});
    return core.Answer<reply::Done>(RequestId{5});
  };
  const auto node = [this] { return core.state.nodes.at(NodeId{"gpu1"}); };
  ASSERT_TRUE(renew("new-s1", "r1").has_value());
  EXPECT_EQ(node().certificate_serial, "r1");
  EXPECT_EQ(node().earlier_serial, "new-s1");
  EXPECT_TRUE(core.state.denied.empty());
  // The answer was lost: it asks again with what it has, and what it never got is worth nothing.
  ASSERT_TRUE(renew("new-s1", "r2").has_value());
  EXPECT_EQ(node().certificate_serial, "r2");
  EXPECT_TRUE(core.state.denied.contains("r1"));
  // It asks with the new one: the first is over.
  ASSERT_TRUE(renew("r2", "r3").has_value());
  EXPECT_TRUE(core.state.denied.contains("new-s1"));
  EXPECT_FALSE(core.state.denied.contains("r2"));
  const auto late = renew("new-s1", "r4");
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(late.error().hint.find("token"), std::string::npos);
  // A rejoin ends both.
  Create("s2", "node", "gpu1");
  ASSERT_TRUE(Use("s2", "node", "gpu1", true).has_value());
  EXPECT_TRUE(core.state.denied.contains("r2"));
  EXPECT_TRUE(core.state.denied.contains("r3"));
  EXPECT_TRUE(node().earlier_serial.empty());
}

TEST_F(Token, OnlyMembersRenew) {
  core.Post(event::Renew{RequestId{5}, "x", "node", "gpu9", "y"});
  EXPECT_FALSE(core.Answer<reply::Done>(RequestId{5}).has_value());
  core.Post(event::Renew{RequestId{6}, "x", "user", "nobody", "y"});
  EXPECT_FALSE(core.Answer<reply::Done>(RequestId{6}).has_value());
}

TEST_F(Token, Expires) {
  Create("s1", "node", "gpu1");
  core.now.wall += Millis{900'001};
  EXPECT_FALSE(Use("s1", "node", "gpu1").has_value());
}

TEST_F(Token, CanBeRevoked) {
  Create("s1", "node", "gpu1");
  core.Post(event::CreateToken{RequestId{3}, {UserName{"op"}, true}, "", "", "s1", {}, true});
  EXPECT_TRUE(core.Answer<reply::Token>(RequestId{3}).has_value());
  EXPECT_FALSE(Use("s1", "node", "gpu1").has_value());
  core.Post(event::ListTokens{RequestId{4}, {UserName{"op"}, true}});
  const auto list = core.Answer<reply::Tokens>(RequestId{4});
  EXPECT_NE(list->rows.at(0).second.find("revoked"), std::string::npos);
}

TEST_F(Token, ReplacesANodeOnlyWithRejoin) {
  Create("s1", "node", "gpu1");
  EXPECT_TRUE(Use("s1", "node", "gpu1").has_value());
  core.Attach("gpu1", 1);
  Create("s2", "node", "gpu1");
  const auto refused = Use("s2", "node", "gpu1");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kAlreadyExists);
  EXPECT_TRUE(Use("s2", "node", "gpu1", true).has_value());
  EXPECT_TRUE(core.state.denied.contains("new-s1"));
  EXPECT_TRUE(core.Closed(core.session["gpu1"]));
  core.Detach("gpu1");
  from_node::Hello other_machine;
  other_machine.machine.install_id = "another";
  core.Attach(MakeInventory("gpu1", 1), other_machine);
  EXPECT_EQ(core.Node("gpu1").state, "idle");
}

TEST_F(Token, MakesUsersAndOperators) {
  Create("s1", "user", "ana");
  Create("s2", "operator", "op2");
  EXPECT_TRUE(Use("s1", "user", "ana").has_value());
  EXPECT_TRUE(Use("s2", "user", "op2").has_value());
  EXPECT_FALSE(core.state.users.at(UserName{"ana"}).is_operator);
  EXPECT_TRUE(core.state.users.at(UserName{"op2"}).is_operator);
}

TEST_F(Token, IsCreatedByOperatorsOnly) {
  core.Post(event::CreateToken{RequestId{9},
                               {UserName{"ana"}, false},
                               "node",
                               "gpu1",
                               "s1",
                               core.now.wall + Millis{1000},
                               false});
  const auto denied = core.Answer<reply::Token>(RequestId{9});
  ASSERT_FALSE(denied.has_value());
  EXPECT_EQ(denied.error().code, ErrorCode::kPermissionDenied);
}

}  // namespace
}  // namespace launch::controller
