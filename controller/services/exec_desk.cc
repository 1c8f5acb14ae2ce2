#include "controller/services/exec_desk.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/pki.h"
#include "proto/convert_exec.h"

namespace launch::controller {
namespace {

// Finish comes last and never beside a write; a read that is pending then ends by itself.
template <class End>
void WriteOrFinish(End& end) {
  if (end.reactor == nullptr || end.finished || end.writing) return;
  if (end.next) {
    end.outgoing = std::move(*end.next);
    end.next.reset();
    end.writing = true;
    end.reactor->StartWrite(&end.outgoing);
  } else if (end.closing) {
    end.finished = true;
    end.reactor->Finish(*end.closing);
  }
}

// Once what was read before has been written to the `other` side.
template <class End, class Other>
void ReadOn(End& end, const Other& other) {
  const bool passed_on = other.reactor != nullptr && !other.next && !other.writing;
  if (end.reactor == nullptr || end.finished || end.closing || end.reading || !passed_on) return;
  end.reading = true;
  end.reactor->StartRead(end.incoming);
}

}  // namespace

void ExecSession::Step() {
  WriteOrFinish(user_);
  WriteOrFinish(node_);
  ReadOn(user_, node_);
  ReadOn(node_, user_);
}

void ExecSession::CloseBoth(const grpc::Status& status) {
  if (!user_.closing) user_.closing = status;
  if (!node_.closing) node_.closing = status;
  node_.next.reset();
}

void ExecSession::BeginUser(ExecUserReactor* user, pb::ExecRequest* incoming) {
  const MutexLock lock(mutex_);
  user_.reactor = user;
  user_.incoming = incoming;
  user_.reading = true;
  user->StartRead(incoming);
}

void ExecSession::Expect(const NodeId& node, pb::ExecInput command) {
  const MutexLock lock(mutex_);
  user_.reading = false;
  expected_ = node;
  node_.next = std::move(command);
}

void ExecSession::FromUser(pb::ExecInput message) {
  const MutexLock lock(mutex_);
  user_.reading = false;
  if (!node_.closing) node_.next = std::move(message);
  Step();
}

void ExecSession::UserWritten(bool ok) {
  const MutexLock lock(mutex_);
  user_.writing = false;
  if (!ok) CloseBoth(grpc::Status::CANCELLED);
  Step();
}

void ExecSession::UserGone() { Close(grpc::Status::CANCELLED); }

void ExecSession::UserReleased() {
  const MutexLock lock(mutex_);
  user_.reactor = nullptr;
  CloseBoth(grpc::Status::CANCELLED);
  Step();
}

bool ExecSession::BeginNode(ExecNodeReactor* node, pb::ExecUp* incoming, const NodeId& who,
                            SessionId control) {
  const MutexLock lock(mutex_);
  if (expected_ != who || node_.closing) return false;
  expected_.reset();
  control_ = control;
  node_.reactor = node;
  node_.incoming = incoming;
  Step();
  return true;
}

void ExecSession::FromNode(pb::ExecOutput message) {
  const MutexLock lock(mutex_);
  node_.reading = false;
  const bool last = message.has_end();
  if (!user_.closing) user_.next = std::move(message);
  if (last) CloseBoth(grpc::Status::OK);
  Step();
}

void ExecSession::NodeWritten(bool ok) {
  const MutexLock lock(mutex_);
  node_.writing = false;
  if (!ok) CloseBoth({grpc::StatusCode::UNAVAILABLE, "the connection to the node was cut"});
  Step();
}

void ExecSession::NodeGone() {
  Close({grpc::StatusCode::UNAVAILABLE, "the connection to the node was cut"});
}

void ExecSession::NodeReleased() {
  const MutexLock lock(mutex_);
  node_.reactor = nullptr;
  CloseBoth({grpc::StatusCode::UNAVAILABLE, "the connection to the node was cut"});
  Step();
}

void ExecSession::Close(const grpc::Status& status) {
  const MutexLock lock(mutex_);
  CloseBoth(status);
  Step();
}

void ExecSession::CloseUnlessJoined(const grpc::Status& status) {
  const MutexLock lock(mutex_);
  if (control_) return;
  CloseBoth(status);
  Step();
}

bool ExecSession::IsOf(SessionId control) {
  const MutexLock lock(mutex_);
  return control_ == control;
}

Result<ExecDesk::Opened> ExecDesk::Open(const UserName& user) {
  const MutexLock lock(mutex_);
  const auto of_user = static_cast<std::size_t>(std::ranges::count_if(
      sessions_, [&](const auto& entry) { return entry.second.user == user; }));
  if (of_user >= limits_.of_user || sessions_.size() >= limits_.all) {
    return Fail(ErrorCode::kResourceExhausted,
                std::to_string(of_user) + " commands of user " + user.value +
                    " run beside ranks, and " + std::to_string(sessions_.size()) + " in all",
                std::to_string(limits_.of_user) + " and " + std::to_string(limits_.all) +
                    " are the most; end one of them");
  }
  Opened opened{RandomHex(16), std::make_shared<ExecSession>()};
  sessions_.emplace(opened.id, One{user, opened.session});
  return opened;
}

void ExecDesk::Forget(const std::string& id) {
  const MutexLock lock(mutex_);
  sessions_.erase(id);
}

std::shared_ptr<ExecSession> ExecDesk::Find(const std::string& id) {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.session;
}

void ExecDesk::SessionOver(SessionId control) {
  std::vector<std::shared_ptr<ExecSession>> over;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, one] : sessions_) {
      if (one.session->IsOf(control)) over.push_back(one.session);
    }
  }
  for (const auto& session : over) session->NodeGone();
}

void ExecDesk::CloseUser(const UserName& user, const grpc::Status& status) {
  std::vector<std::shared_ptr<ExecSession>> theirs;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, one] : sessions_) {
      if (one.user == user) theirs.push_back(one.session);
    }
  }
  for (const auto& session : theirs) session->Close(status);
}

void ExecDesk::CloseAll(const grpc::Status& status) {
  std::vector<std::shared_ptr<ExecSession>> all;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, one] : sessions_) all.push_back(one.session);
  }
  for (const auto& session : all) session->Close(status);
}

}  // namespace launch::controller
