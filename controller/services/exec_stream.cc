#include "controller/services/exec_stream.h"

#include <algorithm>
#include <utility>

#include "common/quoted.h"
#include "common/secret_text.h"
#include "proto/convert_error.h"
#include "proto/convert_exec.h"

namespace launch::controller {
namespace {

constexpr Millis kAgentWithin{10'000};
constexpr std::size_t kMostName = 300;  // of a program in the audit trail, in bytes

class UserStream final : public ExecUserReactor {
 public:
  UserStream(const LaunchServiceParts& parts, grpc::CallbackServerContext* context)
      : parts_(parts) {
    auto admitted = parts.gate.Admit(*context, "/launch.v1.Launch/Exec");
    if (!admitted) {
      Finish(ToStatus(admitted.error()));
      return;
    }
    caller_ = std::move(admitted->caller);
    auto opened = parts.execs.Open(caller_.user);
    if (!opened) {
      Finish(ToStatus(opened.error()));
      return;
    }
    id_ = std::move(opened->id);
    session_ = std::move(opened->session);
    session_->BeginUser(this, &incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      session_->UserGone();
    } else if (auto taken = Take(); !taken) {
      session_->Close(ToStatus(taken.error()));
    }
  }
  void OnWriteDone(bool ok) override { session_->UserWritten(ok); }
  void OnCancel() override {
    if (session_) session_->UserGone();
  }
  void OnDone() override {
    if (session_) {
      session_->UserReleased();
      parts_.execs.Forget(id_);
    }
    delete this;
  }

 private:
  Result<void> Take() {
    if (incoming_.has_open() && !opened_) return Open();
    if (!incoming_.has_input() || !opened_) {
      return Fail(ErrorCode::kInvalidArgument, "the first message is Open, and only that one");
    }
    LAUNCH_RETURN_IF_ERROR(CheckPassedOn(incoming_.input()));
    session_->FromUser(std::move(*incoming_.mutable_input()));
    return {};
  }

  Result<void> Open() {
    opened_ = true;
    LAUNCH_ASSIGN_OR_RETURN(const ExecCall call, FromProto(incoming_.open()));
    LAUNCH_RETURN_IF_ERROR(parts_.gate.MayWith(caller_, JobAct::kExec, call.job));
    const auto owner = parts_.directory.OwnerOf(call.job);
    const bool own = owner && *owner == caller_.user;
    if (!own && owner && !parts_.operator_exec) {
      return Fail(ErrorCode::kPermissionDenied,
                  "job " + std::to_string(call.job.value) + " belongs to " + owner->value +
                      "; operators may not run commands in jobs of others",
                  "its owner may; `operator_exec: true` in controller.yaml allows it to operators");
    }
    event::OpenExec event{
        {}, caller_, call.job, call.rank, id_, InAuditTrail(call.command), std::nullopt};
    if (call.command.archive) event.archive = Quoted(*call.command.archive);
    pb::ExecInput command;
    *command.mutable_command() = ToProto(call.command);
    parts_.requests.Ask(caller_.user.value, std::move(event),
                        [session = session_, command](Result<ReplyBody> body) {
                          if (!body) return session->Close(ToStatus(body.error()));
                          const auto* where = std::get_if<reply::ExecOpened>(&*body);
                          if (where != nullptr) session->Expect(where->node, command);
                        });
    parts_.executor.After(kAgentWithin, [waiting = std::weak_ptr(session_)] {
      if (const auto session = waiting.lock()) {
        session->CloseUnlessJoined(
            {grpc::StatusCode::DEADLINE_EXCEEDED, "the node's agent did not answer within 10 s"});
      }
    });
    return {};
  }

  const LaunchServiceParts parts_;
  Caller caller_;
  std::string id_;
  std::shared_ptr<ExecSession> session_;
  pb::ExecRequest incoming_;
  bool opened_ = false;  // of OnReadDone, one call after the other
};

class AgentStream final : public ExecNodeReactor {
 public:
  AgentStream(const NodeServiceParts& parts, grpc::CallbackServerContext* context) : parts_(parts) {
    auto admitted = parts.gate.Admit(*context, "/launch.v1.Node/Exec");
    if (!admitted) {
      Finish(ToStatus(admitted.error()));
      return;
    }
    node_ = NodeId{admitted->identity.name};
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    const auto session = Joined();
    if (!session) {
      if (auto joined = Join(ok); !joined) Finish(ToStatus(joined.error()));
    } else if (!ok) {
      session->NodeGone();
    } else if (!incoming_.has_output()) {
      session->Close({grpc::StatusCode::INVALID_ARGUMENT, "a second Open on one stream"});
    } else if (auto fine = CheckPassedOn(incoming_.output()); !fine) {
      session->Close(ToStatus(fine.error()));
    } else {
      session->FromNode(std::move(*incoming_.mutable_output()));
    }
  }
  void OnWriteDone(bool ok) override { Joined()->NodeWritten(ok); }
  void OnCancel() override {
    if (const auto session = Joined()) session->NodeGone();  // else the read ends
  }
  void OnDone() override {
    if (const auto session = Joined()) session->NodeReleased();
    delete this;
  }

 private:
  Result<void> Join(bool ok) {
    if (!ok) return Fail(ErrorCode::kUnavailable, "the stream ended before its Open");
    if (!incoming_.has_open()) {
      return Fail(ErrorCode::kInvalidArgument, "the first message must be Open");
    }
    const SessionId control{incoming_.open().session()};
    if (parts_.sessions.NodeOf(control) != node_) {
      return Fail(ErrorCode::kFailedPrecondition, "session " + std::to_string(control.value) +
                                                      " is not a live one of node " + node_.value);
    }
    const auto session = parts_.execs.Find(incoming_.open().exec());
    // Known before the first callback of what it begins.
    if (session) {
      const MutexLock lock(mutex_);
      session_ = session;
    }
    if (!session || !session->BeginNode(this, &incoming_, node_, control)) {
      const MutexLock lock(mutex_);
      session_.reset();
      return Fail(ErrorCode::kNotFound, "nobody waits for this command any more");
    }
    return {};
  }
  std::shared_ptr<ExecSession> Joined() LAUNCH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return session_;
  }

  const NodeServiceParts parts_;
  NodeId node_;
  pb::ExecUp incoming_;
  Mutex mutex_;
  std::shared_ptr<ExecSession> session_ LAUNCH_GUARDED_BY(mutex_);
};

}  // namespace

std::string InAuditTrail(const ExecCommand& command) {
  if (command.argv.empty()) return Quoted("a shell");
  std::string name = command.argv.front();
  name.resize(std::min(name.find_first_of(" \t\n="), name.size()));
  RemoveSecretTexts(name, {});
  if (name.size() > kMostName) name = name.substr(0, kMostName) + "...";
  const std::size_t others = command.argv.size() - 1;
  if (others == 0) return Quoted(name);
  return Quoted(name) + " with " + std::to_string(others) +
         (others == 1 ? " argument" : " arguments");
}

ExecUserReactor* MakeExecUserStream(const LaunchServiceParts& parts,
                                    grpc::CallbackServerContext* context) {
  return new UserStream(parts, context);
}

ExecNodeReactor* MakeExecNodeStream(const NodeServiceParts& parts,
                                    grpc::CallbackServerContext* context) {
  return new AgentStream(parts, context);
}

}  // namespace launch::controller
