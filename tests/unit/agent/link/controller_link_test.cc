#include "agent/link/controller_link.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <thread>

#include "agent/link/channel.h"
#include "agent/link/exec_links.h"
#include "agent/link/identity_files.h"
#include "common/mailbox.h"
#include "common/pki.h"
#include "proto/convert_node.h"
#include "proto/launch.grpc.pb.h"
#include "proto/node.grpc.pb.h"

namespace launch::agent {
namespace {

// A controller that welcomes, passes on what it hears, and reads one log.
class FakeController final : public v1::Node::Service {
 public:
  grpc::Status Attach(grpc::ServerContext*,
                      grpc::ServerReaderWriter<v1::ToNode, v1::FromNode>* stream) override {
    v1::FromNode message;
    while (stream->Read(&message)) {
      if (message.has_hello()) {
        ToNodeEnvelope welcome{.fence = {1, 1, 1}, .session = 42, .body = to_node::Welcome{"c"}};
        stream->Write(ToProto(welcome));
        if (speaks_nonsense) stream->Write(v1::ToNode());
      }
      if (message.has_notice() && message.notice().kind() == "hang.up")
        return {grpc::StatusCode::ABORTED, "go away"};
      heard.PushAlways(message);
    }
    return grpc::Status::OK;
  }
  grpc::Status Bulk(grpc::ServerContext*,
                    grpc::ServerReaderWriter<v1::BulkDown, v1::BulkUp>* stream) override {
    v1::BulkUp up;
    while (stream->Read(&up)) {
      if (up.has_open()) {
        v1::BulkDown down;
        auto* read = down.mutable_read();
        read->set_read(7);
        read->mutable_key()->set_job(1);
        read->mutable_key()->set_attempt(1);
        read->set_stream("out");
        read->set_from(0);
        read->set_credit(1 << 20);
        stream->Write(down);
      }
      bulk.PushAlways(up);
    }
    return grpc::Status::OK;
  }
  // Asks for `true`, and hears how that ended.
  grpc::Status Exec(grpc::ServerContext*,
                    grpc::ServerReaderWriter<v1::ExecInput, v1::ExecUp>* stream) override {
    v1::ExecUp up;
    while (stream->Read(&up)) {
      if (up.has_open()) {
        v1::ExecInput asked;
        asked.mutable_command()->add_argv("true");
        stream->Write(asked);
      } else if (up.output().has_end()) {
        exec_ends.PushAlways(up.output().end());
        return grpc::Status::OK;
      }
    }
    return grpc::Status::OK;
  }
  Mailbox<v1::ExecEnd> exec_ends{1000};
  bool speaks_nonsense = false;
  Mailbox<v1::FromNode> heard{1000};
  Mailbox<v1::BulkUp> bulk{1000};
};

// Signs for whoever asks, or refuses.
class FakeAuthority final : public v1::Identity::Service {
 public:
  FakeAuthority(const KeyPair& ca_key, const Certificate& ca) : ca_key_(ca_key), ca_(ca) {}
  grpc::Status Renew(grpc::ServerContext*, const v1::JoinRequest* request,
                     v1::JoinReply* reply) override {
    asked.PushAlways(request->csr_pem());
    if (signs_for.empty()) return {grpc::StatusCode::UNIMPLEMENTED, "an older release"};
    const auto fresh =
        SignCsr(request->csr_pem(), ca_key_, ca_,
                {Identity{"c", "node", signs_for}, Millis(3'600'000), {}, std::string(NewSerial())},
                SystemClock().WallNow());
    if (!fresh) return {grpc::StatusCode::INVALID_ARGUMENT, fresh.error().message};
    reply->set_certificate_pem(fresh->pem);
    reply->set_ca_pem(ca_.pem);
    return grpc::Status::OK;
  }
  std::string signs_for = "n1";
  Mailbox<std::string> asked{1000};

 private:
  const KeyPair& ca_key_;
  const Certificate& ca_;
};

class OneLog final : public LogSource {
 public:
  Result<LogPiece> Read(const Key&, Rank, const std::string&, std::uint64_t from,
                        std::size_t) override {
    const std::string text = "hello\n";
    LogPiece piece{.gap = {}, .data = text.substr(std::min<std::size_t>(from, text.size()))};
    piece.next = from + piece.data.size();
    piece.complete = piece.data.empty();
    return piece;
  }
  Result<std::uint64_t> OffsetOfLastLines(const Key&, Rank, const std::string&,
                                          std::uint32_t) override {
    return 0;
  }
};

class LinkOverTls : public testing::Test {
 protected:
  LinkOverTls() {
    std::string pattern = testing::TempDir() + "/linkXXXXXX";
    dir_ = mkdtemp(pattern.data());
    const WallTime now = SystemClock().WallNow();
    ca_key_ = *MakeKey();
    ca_ = *MakeCa(ca_key_, "c", now);
    const KeyPair server_key = *MakeKey();
    const Certificate server_certificate =
        Sign(server_key, Identity{"c", "controller", ""}, {"launch-controller"});
    const KeyPair node_key = *MakeKey();
    const Certificate node = Sign(node_key, Identity{"c", "node", "n1"}, {});
    EXPECT_TRUE(WriteIdentity(files_, dir_, {ca_.pem, node.pem, node_key.private_pem}).has_value());
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = ca_.pem;
    options.pem_key_cert_pairs.push_back({server_key.private_pem, server_certificate.pem});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port_);
    builder.RegisterService(&controller_);
    builder.RegisterService(&authority_);
    server_ = builder.BuildAndStart();
  }
  ~LinkOverTls() override {
    link_.reset();
    server_->Shutdown(std::chrono::system_clock::now());
    std::filesystem::remove_all(dir_);
  }
  Certificate Sign(const KeyPair& key, const Identity& identity, std::vector<std::string> names,
                   Millis age = Millis(0)) {
    return *SignCsr(*MakeCsr(key), ca_key_, ca_,
                    {.identity = identity,
                     .life = Millis(3'600'000),
                     .dns_names = std::move(names),
                     .serial = NewSerial()},
                    SystemClock().WallNow() - age);
  }
  // An identity that was made some time ago, and lives for an hour in all.
  std::string Aged(Millis age) {
    const KeyPair key = *MakeKey();
    const Certificate made = Sign(key, Identity{"c", "node", "n1"}, {}, age);
    EXPECT_TRUE(WriteIdentity(files_, dir_, {ca_.pem, made.pem, key.private_pem}).has_value());
    return made.pem;
  }
  void Connect() {
    link_ = std::make_unique<ControllerLink>(
        LinkSettings{.controllers = {"127.0.0.1:" + std::to_string(port_)}, .state_dir = dir_},
        files_, logs_, [this](Told event) { told_.PushAlways(std::move(event)); });
  }
  // The next event of one kind; others are dropped.
  template <class T>
  std::optional<T> Next() {
    for (int i = 0; i < 100; ++i)
      for (Told& event : told_.TakeBatch(1, 10'000))
        if (auto* found = std::get_if<T>(&event)) return std::move(*found);
    return std::nullopt;
  }
  v1::FromNode NextHeard() {
    auto batch = controller_.heard.TakeBatch(1, 10'000);
    return batch.empty() ? v1::FromNode() : batch.front();
  }

  std::string dir_;
  PosixFileSystem files_;
  OneLog logs_;
  KeyPair ca_key_;
  Certificate ca_;
  FakeController controller_;
  FakeAuthority authority_{ca_key_, ca_};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  Mailbox<Told> told_{1000};
  std::unique_ptr<ControllerLink> link_;
};

// What pthread_create says at the limit of processes.
std::thread NoneLeft(const std::function<void()>&) {
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
}

TEST_F(LinkOverTls, ACommandIsRefusedWhereNoThreadCanBeStarted) {
  ExecLinks execs(NoneLeft);
  for (const char* id : {"x1", "x2"}) {
    ExecWish wish;
    wish.controller = "127.0.0.1:" + std::to_string(port_);
    wish.session = 42;
    wish.identity = *ReadIdentity(files_, dir_);
    wish.place.id = id;
    execs.Open(std::move(wish));
    const auto ends = controller_.exec_ends.TakeBatch(1, 10'000);
    ASSERT_EQ(ends.size(), 1u);
    EXPECT_EQ(ends[0].code(), 126);
    EXPECT_NE(ends[0].why().find("the agent cannot start a thread for it"), std::string::npos);
    EXPECT_NE(ends[0].why().find("ulimit -u"), std::string::npos);
  }
  EXPECT_TRUE(execs.Leaders().empty());
}

from_node::Hello SomeHello() {
  from_node::Hello hello{.version = "1", .boot_id = "b"};
  hello.inventory.node = NodeId{"n1"};
  hello.machine.install_id = "i";
  hello.account = UserName{"ana"};
  return hello;
}

TEST_F(LinkOverTls, CarriesMessagesBothWaysAndNamesTheSession) {
  Connect();
  const auto up = Next<told::LinkUp>();
  ASSERT_TRUE(up.has_value());
  EXPECT_EQ(up->stream, 1u);
  link_->Send(1, SomeHello());
  EXPECT_TRUE(NextHeard().has_hello());
  const auto welcome = Next<told::FromController>();
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->envelope.session, 42u);
  link_->Send(1, from_node::Notice{.kind = "x"});
  const v1::FromNode notice = NextHeard();
  EXPECT_EQ(notice.session(), 42u);
  EXPECT_EQ(notice.notice().kind(), "x");
}

TEST_F(LinkOverTls, DialsAgainWithAHigherNumber) {
  Connect();
  ASSERT_TRUE(Next<told::LinkUp>().has_value());
  link_->Send(1, from_node::Notice{.kind = "hang.up"});
  const auto down = Next<told::LinkDown>();
  ASSERT_TRUE(down.has_value());
  EXPECT_NE(down->why.find("go away"), std::string::npos);
  const auto up = Next<told::LinkUp>();
  ASSERT_TRUE(up.has_value());
  EXPECT_EQ(up->stream, 2u);
}

TEST_F(LinkOverTls, AnInvalidMessageEndsTheStream) {
  controller_.speaks_nonsense = true;
  Connect();
  ASSERT_TRUE(Next<told::LinkUp>().has_value());
  link_->Send(1, SomeHello());
  const auto down = Next<told::LinkDown>();
  ASSERT_TRUE(down.has_value());
  EXPECT_NE(down->why.find("invalid message"), std::string::npos);
}

TEST_F(LinkOverTls, ClosesOnDemandAndIgnoresOldNumbers) {
  Connect();
  ASSERT_TRUE(Next<told::LinkUp>().has_value());
  link_->Close(7, "not this one");
  link_->Close(1, "by the core");
  const auto down = Next<told::LinkDown>();
  ASSERT_TRUE(down.has_value());
  EXPECT_EQ(down->why, "by the core");
}

TEST_F(LinkOverTls, ServesLogsOnASecondConnection) {
  Connect();
  ASSERT_TRUE(Next<told::LinkUp>().has_value());
  link_->Send(1, SomeHello());
  std::vector<v1::BulkUp> ups;
  while (ups.size() < 3) {
    auto batch = controller_.bulk.TakeBatch(1, 20'000);
    ASSERT_FALSE(batch.empty());
    ups.push_back(batch.front());
  }
  EXPECT_EQ(ups[0].open().session(), 42u);
  EXPECT_EQ(ups[1].chunk().data(), "hello\n");
  EXPECT_TRUE(ups[2].end().complete());
}

TEST_F(LinkOverTls, RenewsItsCertificateAfterTwoThirdsOfItsLifeAndComesBackWithIt) {
  const std::string before = Aged(Millis(41 * 60'000));
  const std::string key_before = ReadIdentity(files_, dir_)->key_pem;
  Connect();
  ASSERT_TRUE(Next<told::LinkUp>().has_value());
  link_->Send(1, SomeHello());
  const auto down = Next<told::LinkDown>();
  ASSERT_TRUE(down.has_value());
  EXPECT_NE(down->why.find("renewed"), std::string::npos) << down->why;
  const auto up = Next<told::LinkUp>();
  ASSERT_TRUE(up.has_value());
  EXPECT_EQ(up->stream, 2u);
  const auto now = ReadIdentity(files_, dir_);
  ASSERT_TRUE(now.has_value());
  EXPECT_NE(now->certificate_pem, before);
  EXPECT_NE(now->key_pem, key_before) << "the key is a new one";
  // The new one is young: one renewal, not a row of them.
  link_->Send(2, SomeHello());
  EXPECT_EQ(Next<told::FromController>()->stream, 2u);
  link_->Close(2, "enough");
  EXPECT_EQ(Next<told::LinkDown>()->why, "enough");
  EXPECT_EQ(authority_.asked.TakeBatch(10, 0).size(), 1u);
}

TEST_F(LinkOverTls, AYoungCertificateIsLeftAlone) {
  const std::string before = Aged(Millis(39 * 60'000));
  Connect();
  ASSERT_TRUE(Next<told::LinkUp>().has_value());
  link_->Send(1, SomeHello());
  ASSERT_TRUE(Next<told::FromController>().has_value());
  link_->Close(1, "enough");
  EXPECT_EQ(Next<told::LinkDown>()->why, "enough");
  EXPECT_EQ(authority_.asked.TakeBatch(10, 0).size(), 0u);
  EXPECT_EQ(ReadIdentity(files_, dir_)->certificate_pem, before);
}

TEST_F(LinkOverTls, WhereNobodyRenewsOrSignsForAnotherTheOldOneIsKept) {
  for (const char* signs_for : {"", "n2"}) {
    authority_.signs_for = signs_for;
    const std::string before = Aged(Millis(50 * 60'000));
    Connect();
    const auto up = Next<told::LinkUp>();
    ASSERT_TRUE(up.has_value());
    link_->Send(up->stream, SomeHello());
    ASSERT_EQ(authority_.asked.TakeBatch(1, 10'000).size(), 1u);
    link_->Close(up->stream, "enough");
    EXPECT_EQ(Next<told::LinkDown>()->why, "enough");
    link_.reset();
    EXPECT_EQ(ReadIdentity(files_, dir_)->certificate_pem, before);
  }
}

// Whoever has the key of a node or of a user is no controller to the others.
TEST_F(LinkOverTls, AMemberOfTheClusterIsNotTakenForItsController) {
  for (const Identity& member : {Identity{"c", "node", "n2"}, Identity{"c", "user", "eve"}}) {
    const KeyPair key = *MakeKey();
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = ca_.pem;
    options.pem_key_cert_pairs.push_back({key.private_pem, Sign(key, member, {}).pem});
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port);
    builder.RegisterService(&authority_);
    const auto impostor = builder.BuildAndStart();
    for (const auto& [to, taken] : {std::pair(port, false), std::pair(port_, true)}) {
      const auto channel = Dial("127.0.0.1:" + std::to_string(to), *ReadIdentity(files_, dir_));
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
      v1::JoinReply reply;
      const auto status = v1::Identity::NewStub(channel)->Renew(&context, {}, &reply);
      EXPECT_EQ(status.error_code() == grpc::StatusCode::UNAVAILABLE, !taken)
          << status.error_message();
      EXPECT_EQ(authority_.asked.TakeBatch(10, 0).size(), taken ? 1u : 0u);
    }
    impostor->Shutdown();
  }
}

TEST_F(LinkOverTls, EndsWhileNobodyAnswers) {
  server_->Shutdown();
  Connect();
  link_.reset();
  SUCCEED();
}

TEST(ReconnectDelay, GrowsFromHalfASecondToFifteenWithJitter) {
  EXPECT_EQ(ReconnectDelay(1, 0.5), Millis{500});
  EXPECT_EQ(ReconnectDelay(2, 0.5), Millis{1000});
  EXPECT_EQ(ReconnectDelay(100, 0.5), Millis{15'000});
  EXPECT_EQ(ReconnectDelay(1, 0.0), Millis{400});
  EXPECT_LT(ReconnectDelay(1, 0.999), Millis{600});
}

}  // namespace
}  // namespace launch::agent
