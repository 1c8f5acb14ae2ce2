// The services over real TLS on loopback: who gets in, and what each may do.
#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <future>
#include <map>

#include "common/mailbox.h"
#include "common/unique_fd.h"
#include "controller/access.h"
#include "controller/controller.h"
#include "controller/services/doorkeeper.h"
#include "controller/store/record_codec.h"
#include "proto/convert_error.h"
#include "proto/convert_node.h"
#include "proto/convert_user.h"
#include "proto/launch.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "tests/fakes/memory_store.h"

namespace launch::controller {
namespace {

constexpr Millis kHour{3600 * 1000};

// The host's boot time; a wall clock that tests may set, for certificates and tokens.
struct TestClock final : Clock {
  SystemClock host;
  std::atomic<std::int64_t> ahead_ms = 0;
  BootTime Now() override { return host.Now(); }
  WallTime WallNow() override { return host.WallNow() + Millis{ahead_ms}; }
};

// What a peer shows; empty = none.
struct Papers {
  std::string ca;
  std::string key;
  std::string certificate;
};

class ServicesTest : public ::testing::Test {
 protected:
  ServicesTest() : clock(std::make_shared<TestClock>()) {
    std::string pattern = (std::filesystem::temp_directory_path() / "launch-XXXXXX").string();
    dir = ::mkdtemp(pattern.data());
    PosixFileSystem files;
    const StatePaths paths(dir + "/state");
    auto init = InitCredentials(files, paths, {"lab", "root", clock->WallNow()});
    EXPECT_TRUE(init);
    credentials = init->credentials;
    op = {credentials.ca.pem, *files.Read(paths.operator_dir + "/key.pem", 65536),
          *files.Read(paths.operator_dir + "/cert.pem", 65536)};
    Serve(FirstRecords("lab", "root", init->operator_serial));
  }
  ~ServicesTest() override {
    controller.reset();
    std::filesystem::remove_all(dir);
  }

  // In the place of the controller before, with a new store that has these records.
  void Serve(const Decision& first, const DoorLimits& door = {}) {
    controller.reset();
    auto store = std::make_unique<::launch::testing::MemoryStore>();
    ASSERT_TRUE(InitStore(*store, EncodeRecord, first, clock->WallNow()));
    ControllerConfig config;
    config.listen = "127.0.0.1:0";
    auto started =
        Controller::Start({credentials, std::move(store), RecordCodec{EncodeRecord, DecodeRecord},
                           clock, config, dir, nullptr, door});
    ASSERT_TRUE(started) << FormatError(started.error());
    controller = std::move(*started);
  }
  // The same cluster with other limits at its door.
  void ServeWith(const DoorLimits& door) {
    Serve(FirstRecords("lab", "root", ReadCertificate(op.certificate)->serial), door);
  }

  // Papers for any identity, signed by the cluster's CA or by another.
  Papers Sign(const Identity& identity, Millis life = kHour, WallTime from = {},
              const Credentials* by = nullptr) {
    const Credentials& ca = by == nullptr ? credentials : *by;
    const auto key = MakeKey();
    const auto csr = MakeCsr(*key);
    const auto certificate = SignCsr(*csr, ca.ca_key, ca.ca, {identity, life, {}, NewSerial()},
                                     from == WallTime{} ? clock->host.WallNow() : from);
    EXPECT_TRUE(certificate);
    return {credentials.ca.pem, key->private_pem, certificate->pem};
  }

  std::shared_ptr<grpc::Channel> Dial(const Papers& papers) {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("launch-controller");
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        controller->address(), grpc::SslCredentials({papers.ca, papers.key, papers.certificate}),
        arguments);
  }

  template <class Stub, class Request, class Reply>
  Result<Reply> Call(std::unique_ptr<Stub> stub,
                     grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                     const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    Reply reply;
    const grpc::Status status = (*stub.*method)(&context, request, &reply);
    if (!status.ok()) return Unexpected(FromStatus(status, "the controller"));
    return reply;
  }
  Result<pb::WhoAmIReply> WhoAmI(const std::shared_ptr<grpc::Channel>& channel) {
    return Call(pb::Identity::NewStub(channel), &pb::Identity::Stub::WhoAmI, pb::WhoAmIRequest());
  }
  Result<pb::WhoAmIReply> WhoAmI(const Papers& papers) { return WhoAmI(Dial(papers)); }
  // Whether the controller ends the connection, which nobody uses.
  static bool IsClosed(grpc::Channel& channel) {
    return channel.WaitForStateChange(GRPC_CHANNEL_READY,
                                      std::chrono::system_clock::now() + std::chrono::seconds(20));
  }
  void ShutOutUser(const std::string& name) {
    pb::RevokeTokenRequest revoke;
    revoke.set_user(name);
    ASSERT_TRUE(Call(pb::Operator::NewStub(Dial(op)), &pb::Operator::Stub::RevokeToken, revoke));
  }
  Result<pb::JobsReply> Jobs(const Papers& papers) {
    return Call(pb::Launch::NewStub(Dial(papers)), &pb::Launch::Stub::Jobs, pb::JobsRequest());
  }
  Result<pb::StatusReply> Status(const Papers& papers) {
    return Call(pb::Operator::NewStub(Dial(papers)), &pb::Operator::Stub::Status,
                pb::StatusRequest());
  }
  Result<JoinToken> Token(const std::string& role, const std::string& name) {
    pb::CreateTokenRequest request;
    request.set_role(role);
    request.set_name(name);
    auto reply = Call(pb::Operator::NewStub(Dial(op)), &pb::Operator::Stub::CreateToken, request);
    if (!reply) return Unexpected(reply.error());
    return ParseJoinToken(reply->token());
  }
  // Joins with `token`: the papers of the new member.
  Result<Papers> Join(const JoinToken& token, bool rejoin = false) {
    const auto key = MakeKey();
    pb::JoinRequest request;
    request.set_csr_pem(*MakeCsr(*key));
    request.set_rejoin(rejoin);
    const Papers joiner{token.ca_pem, token.key_pem, token.certificate_pem};
    auto reply = Call(pb::Identity::NewStub(Dial(joiner)), &pb::Identity::Stub::Join, request);
    if (!reply) return Unexpected(reply.error());
    return Papers{reply->ca_pem(), key->private_pem, reply->certificate_pem()};
  }

  // A call of any kind with an empty message.
  static grpc::Status SendNothing(const std::shared_ptr<grpc::Channel>& channel,
                                  const std::string& method) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Slice nothing("");
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer reply;
    std::promise<grpc::Status> ended;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &reply,
                   [&ended](const grpc::Status& status) { ended.set_value(status); });
    return ended.get_future().get();
  }

  // One control stream as an agent would open it.
  struct Agent {
    std::unique_ptr<pb::Node::Stub> stub;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<pb::FromNode, pb::ToNode>> stream;
    std::uint64_t session = 0;
  };
  std::unique_ptr<Agent> Attach(const Papers& papers, const std::string& claims) {
    auto agent = std::make_unique<Agent>();
    agent->stub = pb::Node::NewStub(Dial(papers));
    agent->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    agent->stream = agent->stub->Attach(&agent->context);
    agent->stream->Write(ToProto(FromNodeEnvelope{0, HelloOf(claims)}));
    return agent;
  }
  static from_node::Hello HelloOf(const std::string& node) {
    from_node::Hello hello;
    hello.version = "0.1.0";
    hello.machine.install_id = "11112222333344445555666677778888";
    hello.boot_id = "b0000000-0000-4000-8000-000000000001";
    hello.boot = BootMs(1000);
    hello.account = UserName{"ana"};
    hello.inventory.node = NodeId{node};
    hello.inventory.kernel = "6.1";
    hello.inventory.cores = 4;
    hello.inventory.threads = 4;
    hello.inventory.memory_bytes = 1ULL << 30;
    return hello;
  }

  std::string dir;
  std::shared_ptr<TestClock> clock;
  Credentials credentials;
  Papers op;
  std::unique_ptr<Controller> controller;
};

TEST_F(ServicesTest, TheFirstOperatorIsKnown) {
  const auto who = WhoAmI(op);
  ASSERT_TRUE(who) << FormatError(who.error());
  EXPECT_EQ(who->identity(), "/user/root");
  EXPECT_TRUE(who->is_operator());
  EXPECT_EQ(who->cluster(), "lab");
  const auto status = Status(op);
  ASSERT_TRUE(status);
  EXPECT_GT(status->epoch(), 0u);
}

TEST_F(ServicesTest, AMemberRenewsItsOwnCertificateAndNobodyElses) {
  const auto renew = [this](const Papers& papers) -> Result<Papers> {
    const auto key = MakeKey();
    pb::JoinRequest request;
    request.set_csr_pem(*MakeCsr(*key));
    auto reply = Call(pb::Identity::NewStub(Dial(papers)), &pb::Identity::Stub::Renew, request);
    if (!reply) return Unexpected(reply.error());
    return Papers{reply->ca_pem(), key->private_pem, reply->certificate_pem()};
  };
  const auto fresh = renew(op);
  ASSERT_TRUE(fresh) << FormatError(fresh.error());
  EXPECT_EQ(WhoAmI(*fresh)->identity(), "/user/root");
  EXPECT_TRUE(WhoAmI(*fresh)->is_operator());

  const auto node = Join(*Token("node", "gpu01"));
  ASSERT_TRUE(node);
  const auto renewed = renew(*node);
  ASSERT_TRUE(renewed) << FormatError(renewed.error());
  EXPECT_EQ(WhoAmI(*renewed)->identity(), "/node/gpu01");
  EXPECT_TRUE(WhoAmI(*node)) << "the answer might have been lost";
  const auto token = Token("node", "gpu02");
  const auto joiner = renew({token->ca_pem, token->key_pem, token->certificate_pem});
  ASSERT_FALSE(joiner) << "a token is not a member";
  EXPECT_EQ(joiner.error().code, ErrorCode::kPermissionDenied);
  EXPECT_FALSE(renew(Sign({"lab", "node", "gpu03"}))) << "signed by the CA, and never joined";
}

TEST_F(ServicesTest, TheControllersCertificateIsRenewedWhileItServes) {
  const auto serving = [this] {
    return ReadCertificate(*PosixFileSystem().Read(dir + "/tls/current/cert.pem", 65536))->serial;
  };
  controller.reset();
  // As if it had been running for 61 of 90 days; its first look renews.
  const auto key = MakeKey();
  const auto aged = SignCsr(
      *MakeCsr(*key), credentials.ca_key, credentials.ca,
      {Identity{"lab", "controller", ""}, 90 * 24 * kHour, {"launch-controller"}, NewSerial()},
      clock->host.WallNow() - 61 * 24 * kHour);
  ASSERT_TRUE(aged);
  credentials.key = *key;
  credentials.certificate = *aged;
  auto store = std::make_unique<::launch::testing::MemoryStore>();
  ASSERT_TRUE(InitStore(*store, EncodeRecord, FirstRecords("lab", "root", "s"), clock->WallNow()));
  ControllerConfig config;
  config.listen = "127.0.0.1:0";
  auto started =
      Controller::Start({credentials, std::move(store), RecordCodec{EncodeRecord, DecodeRecord},
                         clock, config, dir, nullptr});
  ASSERT_TRUE(started);
  controller = std::move(*started);
  // Who connects before, while and after: nobody is refused.
  const std::string before = ReadCertificate(aged->pem)->serial;
  for (int i = 0; serving() == before; ++i) {
    ASSERT_LT(i, 10'000);
    ASSERT_TRUE(WhoAmI(op));
  }
  EXPECT_TRUE(WhoAmI(op));
}

TEST_F(ServicesTest, WithoutACertificateNothingIsAnswered) {
  const auto who = WhoAmI({credentials.ca.pem, "", ""});
  ASSERT_FALSE(who);
  EXPECT_EQ(who.error().code, ErrorCode::kUnavailable);
}

TEST_F(ServicesTest, ACertificateOfAnotherAuthorityIsWorthNothing) {
  PosixFileSystem files;
  const auto other =
      InitCredentials(files, StatePaths(dir + "/other"), {"lab", "root", clock->WallNow()});
  ASSERT_TRUE(other);
  const auto forged = Sign({"lab", "user", "root"}, kHour, {}, &other->credentials);
  ASSERT_FALSE(WhoAmI(forged));
  EXPECT_EQ(WhoAmI(forged).error().code, ErrorCode::kUnavailable);
}

TEST_F(ServicesTest, AnExpiredOrAForeignClustersCertificateIsWorthNothing) {
  EXPECT_FALSE(WhoAmI(Sign({"lab", "user", "root"}, kHour, clock->host.WallNow() - 48 * kHour)));
  const auto foreign = WhoAmI(Sign({"lab2", "user", "root"}));
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, ErrorCode::kPermissionDenied);
  EXPECT_FALSE(WhoAmI(Sign({"lab", "controller", ""}))) << "the controller calls nobody";
}

TEST_F(ServicesTest, ACertificateThatExpiresWhileItsConnectionIsOpenIsWorthNothing) {
  ASSERT_NO_FATAL_FAILURE(ServeWith({.unproved_for = Millis{3'000}}));
  const auto ana = Dial(Sign({"lab", "user", "ana"}));
  ASSERT_TRUE(WhoAmI(ana));
  clock->ahead_ms = kHour.count() - 60'000;
  EXPECT_TRUE(WhoAmI(ana)) << "good for a minute more";
  clock->ahead_ms = kHour.count() + 60'000;
  const auto late = WhoAmI(ana);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(late.error().message.find("/user/ana expired "), std::string::npos)
      << late.error().message;
  EXPECT_TRUE(IsClosed(*ana));
}

TEST_F(ServicesTest, EachRoleGetsItsRowsAndNoOthers) {
  const Papers user = Sign({"lab", "user", "ana"});
  const Papers node = Sign({"lab", "node", "gpu01"});
  const Papers join = Sign({"lab", "join", "node:gpu01"});
  EXPECT_TRUE(Jobs(user));
  EXPECT_FALSE(WhoAmI(user)->is_operator());
  EXPECT_EQ(Status(user).error().code, ErrorCode::kPermissionDenied);
  EXPECT_TRUE(WhoAmI(node));
  EXPECT_EQ(Jobs(node).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(Status(node).error().code, ErrorCode::kPermissionDenied);
  for (const auto& error : {WhoAmI(join).error(), Jobs(join).error(), Status(join).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kPermissionDenied);
  }
  auto agent = Attach(user, "ana");
  pb::ToNode ignored;
  EXPECT_FALSE(agent->stream->Read(&ignored));
  EXPECT_EQ(agent->stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

// The handlers themselves, over the wire: each asks the table, and by its own name.
TEST_F(ServicesTest, EveryHandlerAsksTheTableWhoMayCallIt) {
  const std::map<Role, std::pair<Identity, Papers>> callers = {
      {Role::kJoin, {{"lab", "join", "node:gpu01"}, Sign({"lab", "join", "node:gpu01"})}},
      {Role::kNode, {{"lab", "node", "gpu01"}, Sign({"lab", "node", "gpu01"})}},
      {Role::kUser, {{"lab", "user", "ana"}, Sign({"lab", "user", "ana"})}},
      {Role::kOperator, {{"lab", "user", "root"}, op}}};
  int denied = 0;
  for (const auto& [role, caller] : callers) {
    const auto channel = Dial(caller.second);
    for (const auto* file :
         {pb::SubmitRequest::descriptor()->file(), pb::Hello::descriptor()->file()}) {
      for (int s = 0; s < file->service_count(); ++s) {
        for (int m = 0; m < file->service(s)->method_count(); ++m) {
          const auto* method = file->service(s)->method(m);
          const std::string name = "/" + file->service(s)->full_name() + "/" + method->name();
          const auto allowed = CheckAccess(name, role, caller.first);
          // A stream that is let in has no end of its own.
          if (allowed && (method->client_streaming() || method->server_streaming())) continue;
          const grpc::Status status = SendNothing(channel, name);
          const bool by_table = status.error_message().find("(role ") != std::string::npos;
          EXPECT_EQ(by_table, !allowed)
              << name << " by " << caller.first.role << ": " << status.error_message();
          if (by_table) EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << name;
          denied += by_table ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(denied, 40);
}

TEST_F(ServicesTest, AJoinTokenWorksOnceAndMakesAMember) {
  const auto token = Token("node", "gpu01");
  ASSERT_TRUE(token) << FormatError(token.error());
  EXPECT_EQ(token->addresses, std::vector<std::string>{controller->address()});
  const auto papers = Join(*token);
  ASSERT_TRUE(papers) << FormatError(papers.error());
  EXPECT_EQ(WhoAmI(*papers)->identity(), "/node/gpu01");
  const auto again = Join(*token);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("used"), std::string::npos) << again.error().message;
}

TEST_F(ServicesTest, ATokenIsNotSpentOnARequestThatCannotBeSigned) {
  const auto token = Token("node", "gpu01");
  ASSERT_TRUE(token) << FormatError(token.error());
  pb::JoinRequest request;
  request.set_csr_pem("no request at all");
  const Papers joiner{token->ca_pem, token->key_pem, token->certificate_pem};
  const auto refused =
      Call(pb::Identity::NewStub(Dial(joiner)), &pb::Identity::Stub::Join, request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(Join(*token));
}

TEST_F(ServicesTest, ATokenThatExpiredOrWasRevokedOrWasNeverRecordedOpensNothing) {
  const auto token = Token("node", "gpu01");
  ASSERT_TRUE(token);
  clock->ahead_ms = kHour.count();
  const auto late = Join(*token);
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("expired"), std::string::npos) << late.error().message;
  clock->ahead_ms = 0;
  pb::RevokeTokenRequest revoke;
  revoke.set_serial(ReadCertificate(token->certificate_pem)->serial);
  ASSERT_TRUE(Call(pb::Operator::NewStub(Dial(op)), &pb::Operator::Stub::RevokeToken, revoke));
  EXPECT_EQ(Join(*token).error().code, ErrorCode::kPermissionDenied);
  // Signed by our own CA, but no operator asked for it.
  const Papers stray = Sign({"lab", "join", "node:gpu02"});
  EXPECT_FALSE(Join({"lab", {}, stray.ca, stray.key, stray.certificate}));
}

TEST_F(ServicesTest, AUserWhoIsShutOutNeedsANewToken) {
  const auto first = Join(*Token("user", "ana"));
  const auto second = Join(*Token("user", "ana"));
  ASSERT_TRUE(first && second && WhoAmI(*first) && WhoAmI(*second));
  pb::RevokeTokenRequest revoke;
  revoke.set_user("ana");
  const auto as = [&](const Papers& papers) {
    return Call(pb::Operator::NewStub(Dial(papers)), &pb::Operator::Stub::RevokeToken, revoke);
  };
  EXPECT_EQ(as(*first).error().code, ErrorCode::kPermissionDenied);
  ASSERT_TRUE(as(op));
  for (const Papers& papers : {*first, *second}) {
    const auto refused = WhoAmI(papers);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("was revoked: by an operator"), std::string::npos)
        << refused.error().message;
  }
  clock->ahead_ms = 1'000;  // certificates name whole seconds
  const auto again = Join(*Token("user", "ana"));
  ASSERT_TRUE(again);
  EXPECT_TRUE(WhoAmI(*again));
}

TEST_F(ServicesTest, WhatAUserHadOpenEndsWhenTheUserIsShutOut) {
  const auto ana = Join(*Token("user", "ana"));
  ASSERT_TRUE(ana);
  auto stub = pb::Launch::NewStub(Dial(*ana));
  grpc::ClientContext watching;
  pb::WatchRequest everything;
  everything.set_follow(true);
  auto watch = stub->Watch(&watching, everything);
  ASSERT_TRUE(Join(*Token("node", "gpu01")));
  pb::WatchReply event;
  ASSERT_TRUE(watch->Read(&event)) << "what becomes of nodes is everybody's to see";
  grpc::ClientContext shell;
  auto exec = stub->Exec(&shell);  // says nothing yet, and has its place at the desk
  pb::RevokeTokenRequest revoke;
  revoke.set_user("ana");
  ASSERT_TRUE(Call(pb::Operator::NewStub(Dial(op)), &pb::Operator::Stub::RevokeToken, revoke));
  while (watch->Read(&event)) {
  }
  const auto ended = watch->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::PERMISSION_DENIED) << ended.error_message();
  EXPECT_NE(ended.error_message().find("revoked"), std::string::npos) << ended.error_message();
  pb::ExecOutput output;
  EXPECT_FALSE(exec->Read(&output));
  EXPECT_EQ(exec->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(ServicesTest, ANodeThatIsShutOutIsCutOffAtOnce) {
  const auto papers = Join(*Token("node", "gpu01"));
  ASSERT_TRUE(papers);
  auto agent = Attach(*papers, "gpu01");
  pb::ToNode message;
  ASSERT_TRUE(agent->stream->Read(&message));
  pb::RevokeTokenRequest revoke;
  revoke.set_node("gpu01");
  ASSERT_TRUE(Call(pb::Operator::NewStub(Dial(op)), &pb::Operator::Stub::RevokeToken, revoke));
  while (agent->stream->Read(&message)) {
  }
  EXPECT_FALSE(agent->stream->Finish().ok());
  EXPECT_EQ(WhoAmI(*papers).error().code, ErrorCode::kPermissionDenied);
}

TEST_F(ServicesTest, ARejoinRevokesTheOldCertificateAtOnce) {
  const auto first = Join(*Token("node", "gpu01"));
  ASSERT_TRUE(first);
  EXPECT_EQ(Join(*Token("node", "gpu01")).error().code, ErrorCode::kAlreadyExists);
  auto agent = Attach(*first, "gpu01");
  pb::ToNode message;
  ASSERT_TRUE(agent->stream->Read(&message));
  const auto second = Join(*Token("node", "gpu01"), true);
  ASSERT_TRUE(second) << FormatError(second.error());
  while (agent->stream->Read(&message)) {
  }
  EXPECT_FALSE(agent->stream->Finish().ok()) << "the open stream is cut";
  EXPECT_EQ(WhoAmI(*first).error().code, ErrorCode::kPermissionDenied);
  EXPECT_TRUE(WhoAmI(*second));
}

TEST_F(ServicesTest, AStreamThatWasOpenBeforeItsCertificateWasRevokedGetsNoFurther) {
  const auto first = Join(*Token("node", "gpu01"));
  ASSERT_TRUE(first);
  // Admitted before the rejoin or not: it must not get in either way.
  auto stub = pb::Node::NewStub(Dial(*first));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  auto stream = stub->Attach(&context);
  ASSERT_TRUE(Join(*Token("node", "gpu01"), true));
  stream->Write(ToProto(FromNodeEnvelope{0, HelloOf("gpu01")}));
  pb::ToNode message;
  EXPECT_FALSE(stream->Read(&message)) << message.ShortDebugString();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(ServicesTest, ABadFactAboutAnAttemptDoesNotCutItsNodeOff) {
  const auto papers = Join(*Token("node", "gpu01"));
  ASSERT_TRUE(papers);
  auto agent = Attach(*papers, "gpu01");
  pb::ToNode message;
  ASSERT_TRUE(agent->stream->Read(&message));
  const std::uint64_t session = message.session();
  pb::FromNode bad;
  bad.set_session(session);
  bad.mutable_ready()->mutable_key()->set_job(5);
  bad.mutable_ready()->mutable_key()->set_attempt(1);
  bad.mutable_ready()->set_digest("no digest");
  agent->stream->Write(bad);
  agent->stream->Write(ToProto(FromNodeEnvelope{session, from_node::Beat{6, {}, 0}}));
  while (agent->stream->Read(&message) && !message.has_pong()) {
  }
  EXPECT_EQ(message.pong().n(), 6u) << "the stream goes on";
  agent->context.TryCancel();
}

TEST_F(ServicesTest, ANodeIsWelcomedAndItsBeatsAreAnswered) {
  const auto papers = Join(*Token("node", "gpu01"));
  ASSERT_TRUE(papers);
  auto agent = Attach(*papers, "gpu01");
  pb::ToNode message;
  ASSERT_TRUE(agent->stream->Read(&message));
  ASSERT_TRUE(message.has_welcome());
  EXPECT_EQ(message.session() >> 32, message.fence().epoch())
      << "session numbers grow with the epoch";
  EXPECT_GT(message.fence().epoch(), 0u);
  EXPECT_GT(message.fence().revision(), 0u);
  agent->stream->Write(ToProto(FromNodeEnvelope{message.session(), from_node::Beat{5, {}, 0}}));
  while (agent->stream->Read(&message) && !message.has_pong()) {
  }
  EXPECT_EQ(message.pong().n(), 5u);
  const auto nodes =
      Call(pb::Launch::NewStub(Dial(op)), &pb::Launch::Stub::Nodes, pb::NodesRequest());
  ASSERT_TRUE(nodes);
  ASSERT_EQ(nodes->nodes_size(), 1);
  agent->stream->WritesDone();
  while (agent->stream->Read(&message)) {
  }
}

TEST_F(ServicesTest, ANodeThatSpeaksForAnotherIsCutOff) {
  const auto papers = Join(*Token("node", "gpu01"));
  ASSERT_TRUE(papers);
  for (const std::string claims : {"gpu02", "gpu0", "gpu011"}) {
    auto agent = Attach(*papers, claims);
    pb::ToNode message;
    EXPECT_FALSE(agent->stream->Read(&message)) << claims;
    EXPECT_EQ(agent->stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED) << claims;
  }
}

TEST_F(ServicesTest, ABulkStreamNeedsALiveSessionOfItsOwnNode) {
  const auto first = Join(*Token("node", "gpu01"));
  const auto second = Join(*Token("node", "gpu02"));
  ASSERT_TRUE(first && second);
  auto agent = Attach(*first, "gpu01");
  pb::ToNode welcome;
  ASSERT_TRUE(agent->stream->Read(&welcome));
  auto stub = pb::Node::NewStub(Dial(*second));
  grpc::ClientContext context;
  auto bulk = stub->Bulk(&context);
  pb::BulkUp open;
  open.mutable_open()->set_session(welcome.session());
  bulk->Write(open);
  pb::BulkDown message;
  EXPECT_FALSE(bulk->Read(&message));
  EXPECT_EQ(bulk->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  agent->context.TryCancel();
}

TEST_F(ServicesTest, PiecesOfACopyGoOnlyToNodesWithAnAttemptOfItsJob) {
  JobRecord job;  // that is here, with a piece of its copy, and waits
  job.id = JobId{1};
  job.owner = UserName{"root"};
  job.held = true;
  SpecRecord spec;
  spec.id = job.id;
  spec.spec.workdir = "/work";
  spec.spec.run = "true";
  spec.context.submit_dir = "/work";
  Decision first = FirstRecords("lab", "root", ReadCertificate(op.certificate)->serial);
  first.records.emplace_back(Put{job});
  first.records.emplace_back(Put{spec});
  ASSERT_NO_FATAL_FAILURE(Serve(first));
  pb::PutChunksRequest put;
  put.add_chunks("a piece");
  ASSERT_TRUE(Call(pb::Launch::NewStub(Dial(op)), &pb::Launch::Stub::PutChunks, put));

  const auto papers = Join(*Token("node", "gpu01"));
  ASSERT_TRUE(papers);
  pb::FetchChunksRequest request;
  request.set_job(1);
  request.add_digests(Sha256Hex("a piece"));
  for (const auto& [who, code] : {std::pair{*papers, grpc::StatusCode::NOT_FOUND},
                                  std::pair{op, grpc::StatusCode::PERMISSION_DENIED}}) {
    const auto stub = pb::Node::NewStub(Dial(who));
    grpc::ClientContext context;
    const auto stream = stub->FetchChunks(&context, request);
    pb::FetchChunksReply reply;
    EXPECT_FALSE(stream->Read(&reply));
    EXPECT_EQ(stream->Finish().error_code(), code);
  }
}

TEST_F(ServicesTest, AUserLearnsTheSameOfOthersJobsAsOfNone) {
  const Papers ana = Sign({"lab", "user", "ana"});
  pb::JobRequest request;
  request.set_job(1);
  const auto none = Call(pb::Launch::NewStub(Dial(ana)), &pb::Launch::Stub::Job, request);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(Call(pb::Launch::NewStub(Dial(op)), &pb::Launch::Stub::Job, request).error().code,
            ErrorCode::kNotFound);
}

TEST_F(ServicesTest, WatchShowsStoredEventsAndGoesOnWithNewOnes) {
  auto stub = pb::Launch::NewStub(Dial(op));
  grpc::ClientContext context;
  pb::WatchRequest request;
  request.set_follow(true);
  auto stream = stub->Watch(&context, request);
  pb::WatchReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.event().kind(), "cluster.created");
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.event().kind(), "controller.started");
  ASSERT_TRUE(Token("node", "gpu01"));
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.event().kind(), "token.created");
  EXPECT_EQ(reply.event().seq(), 3u);
  context.TryCancel();
}

TEST_F(ServicesTest, AnOversizedUserMessageIsRefused) {
  pb::RevokeTokenRequest request;
  request.set_serial(std::string(2 << 20, 'a'));
  EXPECT_EQ(
      Call(pb::Operator::NewStub(Dial(op)), &pb::Operator::Stub::RevokeToken, request).error().code,
      ErrorCode::kResourceExhausted);
}

// Connected from an address of its own, so that it is another source; no byte is sent.
UniqueFd Knock(const std::string& address, const std::string& from) {
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in local{};
  local.sin_family = AF_INET;
  EXPECT_EQ(::inet_pton(AF_INET, from.c_str(), &local.sin_addr), 1);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local), 0);
  sockaddr_in to = local;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return fd;
}

// Whether the other end closes within `ms` without a word.
bool ClosedWithin(const UniqueFd& fd, int ms) {
  pollfd watched{fd.get(), POLLIN, 0};
  char byte = 0;
  return ::poll(&watched, 1, ms) == 1 && ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) <= 0;
}

TEST_F(ServicesTest, StrangersThatSayNothingAreBoundedAndKeepNobodyOut) {
  constexpr std::size_t kAllowed = DoorLimits{}.of_source;
  std::vector<UniqueFd> silent;
  for (std::size_t i = 0; i < kAllowed; ++i) {
    silent.push_back(Knock(controller->address(), "127.0.0.2"));
  }
  for (int i = 0; i < 5; ++i) {
    const UniqueFd one_more = Knock(controller->address(), "127.0.0.2");
    EXPECT_TRUE(ClosedWithin(one_more, 4'000));
  }
  EXPECT_TRUE(WhoAmI(op)) << "another source";
  for (std::size_t i = 0; i < kAllowed + 10; ++i) {
    const auto who = WhoAmI(op);
    ASSERT_TRUE(who) << i
                     << ": who shows a certificate does not count: " << FormatError(who.error());
  }
  EXPECT_TRUE(ClosedWithin(silent.front(), 20'000)) << "a handshake has its time";
}

TEST_F(ServicesTest, ConnectionsOfARevokedCertificateCountAsThoseOfStrangers) {
  const auto ana = Join(*Token("user", "ana"));
  ASSERT_TRUE(ana);
  pb::RevokeTokenRequest revoke;
  revoke.set_user("ana");
  ASSERT_TRUE(Call(pb::Operator::NewStub(Dial(op)), &pb::Operator::Stub::RevokeToken, revoke));
  constexpr std::size_t kRefused = 3;
  std::vector<UniqueFd> silent;
  for (std::size_t i = kRefused; i < DoorLimits{}.of_source; ++i) {
    silent.push_back(Knock(controller->address(), "127.0.0.1"));
  }
  for (std::size_t i = 0; i < kRefused; ++i) {
    EXPECT_EQ(WhoAmI(*ana).error().code, ErrorCode::kPermissionDenied);
  }
  const UniqueFd one_more = Knock(controller->address(), "127.0.0.1");
  EXPECT_TRUE(ClosedWithin(one_more, 2'000));
}

TEST_F(ServicesTest, AConnectionOfARevokedCertificateIsClosed) {
  ASSERT_NO_FATAL_FAILURE(ServeWith({.unproved_for = Millis{3'000}}));
  const auto ana = Join(*Token("user", "ana"));
  ASSERT_TRUE(ana);
  const auto proved = Dial(*ana);  // before she is shut out
  ASSERT_TRUE(WhoAmI(proved));
  ASSERT_NO_FATAL_FAILURE(ShutOutUser("ana"));
  const auto late = Dial(*ana);
  for (const auto& channel : {proved, late}) {
    EXPECT_EQ(WhoAmI(channel).error().code, ErrorCode::kPermissionDenied);
    EXPECT_TRUE(IsClosed(*channel));
  }
}

TEST_F(ServicesTest, OneIdentityHasABoundedNumberOfConnections) {
  ASSERT_NO_FATAL_FAILURE(ServeWith({.unproved_for = Millis{3'000}, .of_identity = 2}));
  const auto ana = Join(*Token("user", "ana"));
  ASSERT_TRUE(ana);
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < 2; ++i) {
    channels.push_back(Dial(*ana));
    ASSERT_TRUE(WhoAmI(channels.back()));
  }
  const auto one_more = Dial(*ana);
  const auto refused = WhoAmI(one_more);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("/user/ana has 2 connections"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(WhoAmI(channels.front())) << "what she has goes on";
  EXPECT_TRUE(WhoAmI(op));
  EXPECT_TRUE(IsClosed(*one_more));
  channels.pop_back();
  const BootTime before = clock->Now();
  while (!WhoAmI(one_more)) {
    ASSERT_LT(clock->Now() - before, Millis{20'000}) << "an ended connection does not count";
  }
}

TEST_F(ServicesTest, AConnectionWithoutACallIsClosedAndOneWithAStreamIsNot) {
  ASSERT_NO_FATAL_FAILURE(ServeWith({.idle_for = Millis{1'000}}));
  const auto following = Dial(op);
  auto stub = pb::Launch::NewStub(following);
  grpc::ClientContext context;
  pb::WatchRequest request;
  request.set_follow(true);
  auto stream = stub->Watch(&context, request);
  pb::WatchReply reply;
  do {
    ASSERT_TRUE(stream->Read(&reply));
  } while (reply.event().kind() != "controller.started");
  const auto idle = Dial(op);
  ASSERT_TRUE(WhoAmI(idle));
  EXPECT_TRUE(IsClosed(*idle));
  EXPECT_TRUE(WhoAmI(idle)) << "it connects again by itself";
  EXPECT_EQ(following->GetState(false), GRPC_CHANNEL_READY);
  ASSERT_TRUE(Token("node", "gpu01"));
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.event().kind(), "token.created");
  context.TryCancel();
}

TEST_F(ServicesTest, ATokenThatIsTriedTooOftenWaits) {
  const auto token = Token("node", "gpu01");
  ASSERT_TRUE(token);
  const Papers joiner{token->ca_pem, token->key_pem, token->certificate_pem};
  pb::JoinRequest request;
  request.set_csr_pem("no request");
  std::optional<ErrorCode> last;
  std::size_t calls = 0;
  while (last != ErrorCode::kResourceExhausted && calls++ < 2 * DoorLimits{}.joins_of_token) {
    last =
        Call(pb::Identity::NewStub(Dial(joiner)), &pb::Identity::Stub::Join, request).error().code;
  }
  EXPECT_EQ(calls, DoorLimits{}.joins_of_token + 1);
  EXPECT_EQ(Join(*token).error().code, ErrorCode::kResourceExhausted);
}

TEST_F(ServicesTest, AStopIsQuickAlthoughStreamsAreOpen) {
  const auto papers = Join(*Token("node", "gpu01"));
  ASSERT_TRUE(papers);
  auto agent = Attach(*papers, "gpu01");
  pb::ToNode message;
  ASSERT_TRUE(agent->stream->Read(&message));
  const BootTime before = clock->Now();
  controller->Stop();
  EXPECT_LT(clock->Now() - before, Millis{2000});
  agent->context.TryCancel();
}

}  // namespace
}  // namespace launch::controller
