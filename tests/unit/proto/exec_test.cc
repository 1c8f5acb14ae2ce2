#include <gtest/gtest.h>

#include "proto/convert_exec.h"
#include "proto/convert_node.h"
#include "proto/node.pb.h"

namespace launch {
namespace {

using namespace std::string_literals;

ExecCall SomeCall() {
  return {.job = JobId{7},
          .rank = 3,
          .command = {.argv = {"python", "-c", "print('\xff')"},
                      .terminal = TerminalSize{33, 101},
                      .term = "xterm-256color"}};
}

template <class M>
void ExpectRefusedAt(const std::string& field, const M& message) {
  const auto value = FromProto(message);
  ASSERT_FALSE(value) << "accepted a bad " << field;
  EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(value.error().message.find(field), std::string::npos) << value.error().message;
}

TEST(ExecMessages, ComeBackAsTheyWere) {
  const auto call = FromProto(ToProto(SomeCall()));
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(*call, SomeCall());
  const ExecEnd end{137, 9, "its node is being drained"};
  EXPECT_EQ(*FromProto(ToProto(end)), end);
  const ToNodeEnvelope envelope{
      {1, 2, 3}, 4, to_node::OpenExec{{JobId{7}, Attempt{2}}, 3, std::string(32, 'a')}};
  EXPECT_EQ(*FromProto(ToProto(envelope)), envelope);
}

TEST(ExecMessages, OfACopyComeBackAsTheyWere) {
  ExecCall call = SomeCall();
  call.command.archive = "out/model.pt";
  EXPECT_EQ(*FromProto(ToProto(call)), call);
  const JobCopy copy{.user = "ana", .root = std::string(64, 'b'), .workdir = "/proj", .used = true};
  const ToNodeEnvelope envelope{
      {1, 2, 3}, 4, to_node::OpenExec{{JobId{7}, Attempt{2}}, 3, std::string(32, 'a'), copy}};
  EXPECT_EQ(*FromProto(ToProto(envelope)), envelope);
  pb::ToNode bad = ToProto(envelope);
  bad.mutable_open_exec()->mutable_copy()->set_root("../../etc");
  EXPECT_FALSE(FromProto(bad)) << "it becomes a path";
}

TEST(ExecMessages, WhatCannotBeRunIsRefused) {
  const auto with = [](const auto& change) {
    pb::ExecRequest_Open open = ToProto(SomeCall());
    change(open);
    return open;
  };
  ExpectRefusedAt("job", with([](auto& m) { m.set_job(0); }));
  ExpectRefusedAt("rank", with([](auto& m) { m.set_rank(-1); }));
  ExpectRefusedAt("argv", with([](auto& m) { m.mutable_command()->set_argv(0, ""); }));
  ExpectRefusedAt("argv", with([](auto& m) { m.mutable_command()->set_argv(1, "a\0b"s); }));
  ExpectRefusedAt("term", with([](auto& m) { m.mutable_command()->set_term("x\0"s); }));
  ExpectRefusedAt("rows",
                  with([](auto& m) { m.mutable_command()->mutable_terminal()->set_rows(0); }));
  ExpectRefusedAt("columns", with([](auto& m) {
                    m.mutable_command()->mutable_terminal()->set_columns(100'000);
                  }));
  EXPECT_TRUE(FromProto(with([](auto& m) { m.mutable_command()->clear_argv(); }))) << "a shell";
  pb::ToNode order = ToProto(ToNodeEnvelope{
      {1, 2, 3}, 4, to_node::OpenExec{{JobId{7}, Attempt{2}}, 3, std::string(32, 'a')}});
  order.mutable_open_exec()->set_exec("not hex");
  const auto read = FromProto(order);
  ASSERT_FALSE(read);
  const auto instead = InsteadOf(order, read.error());
  ASSERT_TRUE(instead) << "it is no reason to close the stream";
  EXPECT_TRUE(std::holds_alternative<to_node::Pong>(instead->body));
}

TEST(ExecMessages, OnlyPiecesOfBoundedSizePassTheController) {
  pb::ExecInput input;
  EXPECT_FALSE(CheckPassedOn(input));
  input.set_data(std::string(kExecPiece, 'x'));
  EXPECT_TRUE(CheckPassedOn(input));
  input.set_data(std::string(kExecPiece + 1, 'x'));
  EXPECT_FALSE(CheckPassedOn(input));
  input.mutable_command()->add_argv("sh");
  EXPECT_FALSE(CheckPassedOn(input)) << "the command is the controller's to tell, once";
  input.mutable_size()->set_rows(1);
  EXPECT_FALSE(CheckPassedOn(input)) << "no columns";
  input.set_end(true);
  EXPECT_TRUE(CheckPassedOn(input));
  pb::ExecOutput output;
  EXPECT_FALSE(CheckPassedOn(output));
  output.set_err("");
  EXPECT_FALSE(CheckPassedOn(output));
  output.mutable_end()->set_code(256);
  EXPECT_FALSE(CheckPassedOn(output));
  output.mutable_end()->set_code(255);
  EXPECT_TRUE(CheckPassedOn(output));
}

}  // namespace
}  // namespace launch
