#include "agent/link/bulk_stream.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <deque>
#include <vector>

#include "agent/link/channel.h"
#include "agent/link/log_server.h"
#include "common/quoted.h"
#include "proto/node.grpc.pb.h"

namespace launch::agent {
namespace {

constexpr std::chrono::milliseconds kFollowPoll{100};  // of logs that somebody follows
constexpr std::chrono::milliseconds kIdle{500};        // to see the end of the agent
constexpr std::chrono::milliseconds kRedial{2000};

// One use. Callbacks come from gRPC's threads, the other methods from the serving thread, which
// keeps it until Wait said `ended` (see attach_stream.h).
class BulkStream final : public grpc::ClientBidiReactor<v1::BulkUp, v1::BulkDown> {
 public:
  void Start(v1::Node::Stub& stub) {
    stub.async()->Bulk(&context_, this);
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  struct Situation {
    std::vector<v1::BulkDown> received;
    bool can_write = false;
    bool ended = false;
  };
  // Waits at most `time` for something to do.
  Situation Wait(std::chrono::milliseconds time, bool wants_to_write) {
    std::unique_lock lock(mutex_);
    condition_.wait_for(lock, time, [&] {
      return done_ || !received_.empty() || (wants_to_write && !writing_ && !closed_);
    });
    Situation now{.can_write = !writing_ && !closed_, .ended = done_};
    now.received.assign(received_.begin(), received_.end());
    received_.clear();
    return now;
  }
  // Only after Wait said can_write.
  void Write(v1::BulkUp message) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    outgoing_ = std::move(message);
    writing_ = true;
    StartWrite(&outgoing_);
  }
  std::string why() {
    const std::lock_guard lock(mutex_);
    return status_.error_message();
  }

 private:
  void OnReadDone(bool ok) override {
    bool hold = true;
    {
      const std::lock_guard lock(mutex_);
      if (ok)
        received_.push_back(std::move(incoming_));
      else {
        closed_ = true;
        hold = false;
      }
    }
    condition_.notify_all();
    if (hold) {
      incoming_ = {};
      StartRead(&incoming_);
    } else {
      RemoveHold();
    }
  }
  void OnWriteDone(bool) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
    }
    condition_.notify_all();
  }
  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);  // the serving thread destroys it once it saw done_
    done_ = true;
    status_ = status;
    condition_.notify_all();
  }

  grpc::ClientContext context_;
  v1::BulkDown incoming_;
  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<v1::BulkDown> received_;  // guarded by mutex_, like all below
  v1::BulkUp outgoing_;                // untouched while writing_
  bool writing_ = false;
  bool closed_ = false;
  bool done_ = false;
  grpc::Status status_;
};

}  // namespace

BulkLink::BulkLink(std::string address, IdentityFiles identity, std::uint64_t session,
                   LogSource& logs)
    : address_(std::move(address)),
      identity_(std::move(identity)),
      session_(session),
      logs_(logs),
      thread_([this] { Run(); }) {}

BulkLink::~BulkLink() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_condition_.notify_all();
  thread_.join();
}

void BulkLink::Run() {
  for (;;) {
    ServeOnce();
    std::unique_lock lock(mutex_);
    if (stop_condition_.wait_for(lock, kRedial, [this] { return stopping_; })) return;
  }
}

void BulkLink::ServeOnce() {
  const auto channel = Dial(address_, identity_);
  const auto stub = v1::Node::NewStub(channel);
  const auto stream = std::make_unique<BulkStream>();
  stream->Start(*stub);
  v1::BulkUp first;
  first.mutable_open()->set_session(session_);
  stream->Write(std::move(first));
  LogServer server(logs_);
  std::optional<v1::BulkUp> next;
  for (;;) {
    auto now = stream->Wait(server.Following() ? kFollowPoll : kIdle, next.has_value());
    if (now.ended) break;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) stream->Cancel();
    }
    for (const v1::BulkDown& message : now.received) server.Accept(message);
    if (!now.can_write) continue;
    if (next) stream->Write(std::move(*next));
    next = server.Next();
  }
  spdlog::debug("bulk.down controller={} why={}", address_, Quoted(stream->why()));
}

}  // namespace launch::agent
