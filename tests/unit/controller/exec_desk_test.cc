// A user's stream and an agent's over one server, joined: order, back-pressure, ends, limits.
#include "controller/services/exec_desk.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "controller/services/exec_stream.h"
#include "proto/convert_exec.h"
#include "proto/launch.grpc.pb.h"
#include "proto/node.grpc.pb.h"

namespace launch::controller {
namespace {

const NodeId kNode{"gpu01"};
constexpr SessionId kControl{7};

// Both reactors without door and core: every user's stream waits for kNode.
struct Bench {
  template <class Base>
  class Reactor : public Base {
   public:
    explicit Reactor(Bench& bench) : bench_(bench) {}

   protected:
    Bench& bench_;
  };

  class User final : public Reactor<ExecUserReactor> {
   public:
    explicit User(Bench& bench) : Reactor(bench) {
      auto opened = bench_.desk.Open(UserName{"ana"});
      if (!opened) {
        Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, opened.error().message});
        return;
      }
      id_ = opened->id;
      session_ = opened->session;
      session_->BeginUser(this, &incoming_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) return session_->UserGone();
      if (incoming_.has_open()) {
        pb::ExecInput command;
        command.mutable_command()->add_argv("cat");
        session_->Expect(kNode, command);
        const MutexLock lock(bench_.mutex);
        bench_.newest = id_;
        bench_.newest_known = true;
        return;
      }
      ++bench_.taken_of_user;
      session_->FromUser(incoming_.input());
    }
    void OnWriteDone(bool ok) override { session_->UserWritten(ok); }
    void OnCancel() override {
      if (session_) session_->UserGone();
    }
    void OnDone() override {
      if (session_) {
        session_->UserReleased();
        bench_.desk.Forget(id_);
      }
      delete this;
    }

   private:
    std::string id_;
    std::shared_ptr<ExecSession> session_;
    pb::ExecRequest incoming_;
  };

  class Agent final : public Reactor<ExecNodeReactor> {
   public:
    explicit Agent(Bench& bench) : Reactor(bench) { StartRead(&incoming_); }
    void OnReadDone(bool ok) override {
      if (session_) return ok ? session_->FromNode(incoming_.output()) : session_->NodeGone();
      session_ = ok ? bench_.desk.Find(incoming_.open().exec()) : nullptr;
      if (session_ && session_->BeginNode(this, &incoming_, kNode, kControl)) return;
      session_.reset();
      Finish({grpc::StatusCode::NOT_FOUND, "nobody waits"});
    }
    void OnWriteDone(bool ok) override { session_->NodeWritten(ok); }
    void OnDone() override {
      if (session_) session_->NodeReleased();
      delete this;
    }

   private:
    std::shared_ptr<ExecSession> session_;
    pb::ExecUp incoming_;
  };

  struct LaunchService final : pb::Launch::CallbackService {
    explicit LaunchService(Bench& of) : bench(of) {}
    ExecUserReactor* Exec(grpc::CallbackServerContext*) override { return new User(bench); }
    Bench& bench;
  };
  struct NodeService final : pb::Node::CallbackService {
    explicit NodeService(Bench& of) : bench(of) {}
    ExecNodeReactor* Exec(grpc::CallbackServerContext*) override { return new Agent(bench); }
    Bench& bench;
  };

  Bench() : launch(*this), node(*this) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&launch);
    builder.RegisterService(&node);
    server = builder.BuildAndStart();
    users = pb::Launch::NewStub(server->InProcessChannel({}));
    agents = pb::Node::NewStub(server->InProcessChannel({}));
  }
  ~Bench() { server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1)); }

  std::string NewestId() {
    for (;;) {
      const MutexLock lock(mutex);
      if (std::exchange(newest_known, false)) return newest;
    }
  }

  ExecDesk desk{{.of_user = 2, .all = 3}};
  Mutex mutex;
  std::string newest LAUNCH_GUARDED_BY(mutex);
  bool newest_known LAUNCH_GUARDED_BY(mutex) = false;
  std::atomic<int> taken_of_user = 0;
  LaunchService launch;
  NodeService node;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<pb::Launch::Stub> users;
  std::unique_ptr<pb::Node::Stub> agents;
};

struct UserSide {
  explicit UserSide(Bench& bench) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    stream = bench.users->Exec(&context);
    pb::ExecRequest open;
    open.mutable_open()->set_job(1);
    stream->Write(open);
  }
  bool Say(const std::string& data) {
    pb::ExecRequest request;
    request.mutable_input()->set_data(data);
    return stream->Write(request);
  }
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<pb::ExecRequest, pb::ExecOutput>> stream;
};

struct AgentSide {
  AgentSide(Bench& bench, const std::string& id) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    stream = bench.agents->Exec(&context);
    pb::ExecUp open;
    open.mutable_open()->set_exec(id);
    stream->Write(open);
  }
  bool Say(const std::string& out) {
    pb::ExecUp up;
    up.mutable_output()->set_out(out);
    return stream->Write(up);
  }
  void End(int code) {
    pb::ExecUp up;
    up.mutable_output()->mutable_end()->set_code(code);
    stream->Write(up);
  }
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<pb::ExecUp, pb::ExecInput>> stream;
};

struct ExecDeskTest : testing::Test {
  Bench bench;
};

TEST_F(ExecDeskTest, TheCommandComesFirstAndTheEndLast) {
  UserSide user(bench);
  AgentSide agent(bench, bench.NewestId());
  pb::ExecInput told;
  ASSERT_TRUE(agent.stream->Read(&told));
  EXPECT_EQ(told.command().argv(0), "cat");
  user.Say("one");
  ASSERT_TRUE(agent.stream->Read(&told));
  EXPECT_EQ(told.data(), "one");
  agent.Say("two");
  pb::ExecOutput said;
  ASSERT_TRUE(user.stream->Read(&said));
  EXPECT_EQ(said.out(), "two");
  agent.End(3);
  ASSERT_TRUE(user.stream->Read(&said));
  EXPECT_EQ(said.end().code(), 3);
  EXPECT_FALSE(user.stream->Read(&said));
  EXPECT_TRUE(user.stream->Finish().ok());
  EXPECT_FALSE(agent.stream->Read(&told));
  EXPECT_TRUE(agent.stream->Finish().ok());
}

// Without it a producer that is faster than its reader would fill the controller's memory. Inside
// of one process gRPC keeps no messages back: what is taken and not passed on is in our hands.
TEST_F(ExecDeskTest, TakesNothingThatItCannotPassOn) {
  UserSide user(bench);
  const std::string id = bench.NewestId();
  constexpr int kPieces = 200;
  std::thread writer([&] {
    for (int i = 0; i < kPieces; ++i) user.Say(std::string(1024, 'x'));
  });
  AgentSide agent(bench, id);
  pb::ExecInput told;
  ASSERT_TRUE(agent.stream->Read(&told));  // the command
  for (int passed_on = 0; passed_on < kPieces; ++passed_on) {
    EXPECT_LE(bench.taken_of_user, passed_on + 2);
    ASSERT_TRUE(agent.stream->Read(&told));
  }
  writer.join();
  agent.End(0);
  pb::ExecOutput said;
  EXPECT_TRUE(user.stream->Read(&said));
}

TEST_F(ExecDeskTest, AUserWhoGoesTakesTheCommandAlong) {
  auto user = std::make_unique<UserSide>(bench);
  AgentSide agent(bench, bench.NewestId());
  pb::ExecInput told;
  ASSERT_TRUE(agent.stream->Read(&told));
  user->context.TryCancel();
  EXPECT_FALSE(agent.stream->Read(&told));
  EXPECT_EQ(agent.stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ExecDeskTest, ACutConnectionToTheNodeIsSaid) {
  UserSide user(bench);
  AgentSide agent(bench, bench.NewestId());
  pb::ExecInput told;
  ASSERT_TRUE(agent.stream->Read(&told));
  agent.Say("last words");
  pb::ExecOutput said;
  ASSERT_TRUE(user.stream->Read(&said));
  agent.context.TryCancel();
  EXPECT_FALSE(user.stream->Read(&said));
  EXPECT_EQ(user.stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ExecDeskTest, EndsWithTheControlStreamOfItsNode) {
  UserSide user(bench);
  AgentSide agent(bench, bench.NewestId());
  pb::ExecInput told;
  ASSERT_TRUE(agent.stream->Read(&told));
  bench.desk.SessionOver(SessionId{8});
  agent.Say("still here");
  pb::ExecOutput said;
  ASSERT_TRUE(user.stream->Read(&said));
  bench.desk.SessionOver(kControl);
  EXPECT_FALSE(user.stream->Read(&said));
  EXPECT_FALSE(agent.stream->Read(&told));
}

TEST_F(ExecDeskTest, NobodyElseCanJoinAndNobodyTwice) {
  UserSide user(bench);
  const std::string id = bench.NewestId();
  AgentSide guess(bench, std::string(32, '0'));
  EXPECT_EQ(guess.stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  const auto session = bench.desk.Find(id);
  EXPECT_FALSE(session->BeginNode(nullptr, nullptr, NodeId{"gpu02"}, kControl)) << "another node";
  AgentSide agent(bench, id);
  pb::ExecInput told;
  ASSERT_TRUE(agent.stream->Read(&told));
  AgentSide again(bench, id);
  EXPECT_EQ(again.stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ExecDeskTest, SessionsAreBounded) {
  UserSide one(bench);
  bench.NewestId();
  UserSide two(bench);
  bench.NewestId();
  UserSide three(bench);
  EXPECT_EQ(three.stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(bench.desk.Open(UserName{"bob"}));
  EXPECT_FALSE(bench.desk.Open(UserName{"cy"})) << "the most of all users";
}

TEST(ExecAuditTest, AnEventNamesTheProgramAndNoArgument) {
  const auto said = [](std::vector<std::string> argv) {
    return InAuditTrail(ExecCommand{.argv = std::move(argv)});
  };
  EXPECT_EQ(said({}), "\"a shell\"");
  EXPECT_EQ(said({"/usr/bin/nvidia-smi"}), "\"/usr/bin/nvidia-smi\"");
  EXPECT_EQ(said({"bash", "-c"}), "\"bash\" with 1 argument");
  EXPECT_EQ(said({"curl", "-H", "X-Key: wEo8yQ", "https://x"}), "\"curl\" with 3 arguments");
  EXPECT_EQ(said({"mysql -pwEo8yQ"}), "\"mysql\"") << "not split by the shell";
  EXPECT_EQ(said({"KEY=wEo8yQ", "run"}), "\"KEY\" with 1 argument");
  EXPECT_EQ(said({"hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"}).find("hf_abcdef"), std::string::npos)
      << "pasted in the wrong place";
  EXPECT_EQ(said({std::string(5000, 'x')}).size(), 305u);
}

}  // namespace
}  // namespace launch::controller
