// The sending half of a bidirectional stream: any thread may push, one write is in flight, memory
// is bounded, and Finish is called exactly once, never beside a write.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/annotated_mutex.h"

namespace launch::controller {

// Shared between the reactor, which lives until OnDone, and whoever may still want to send. After
// Detach nothing reaches the reactor.
template <class In, class Out>
class Outbox {
 public:
  using Reactor = grpc::ServerBidiReactor<In, Out>;
  struct Limits {
    std::size_t telemetry_bytes = 1 << 20;  // beyond it what may be dropped is dropped
    std::size_t bytes = 64 << 20;           // beyond it the peer is too slow: the stream ends
  };

  explicit Outbox(Reactor* reactor) : Outbox(reactor, Limits{}) {}
  Outbox(Reactor* reactor, Limits limits) : limits_(limits), reactor_(reactor) {}

  // False once the stream is ending.
  bool Push(Out message, bool may_drop = false) {
    {
      const MutexLock lock(mutex_);
      if (reactor_ == nullptr || closing_) return false;
      const std::size_t size = message.ByteSizeLong();
      if (may_drop && bytes_ + size > limits_.telemetry_bytes) return true;
      if (bytes_ + size > limits_.bytes && !queue_.empty()) {
        closing_ = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                "the peer reads too slowly; connect again");
        queue_.clear();
        bytes_ = 0;
      } else {
        bytes_ += size;
        queue_.emplace_back(std::move(message), size);
      }
    }
    Go();
    return true;
  }

  // Ends the stream after the write in flight; what waits is dropped.
  void Close(grpc::Status status) {
    {
      const MutexLock lock(mutex_);
      if (reactor_ == nullptr || closing_) return;
      closing_ = std::move(status);
      queue_.clear();
      bytes_ = 0;
    }
    Go();
  }

  bool closing() {
    const MutexLock lock(mutex_);
    return closing_.has_value();
  }

  // To be called by the reactor.
  void OnWriteDone(bool ok) {
    {
      const MutexLock lock(mutex_);
      writing_ = false;
      if (!ok && !closing_) closing_ = grpc::Status::CANCELLED;
    }
    Go();
  }
  void Detach() {
    const MutexLock lock(mutex_);
    reactor_ = nullptr;
  }

 private:
  // The reactor cannot go away between the lock and the call: it ends only after Finish, and
  // Finish is never called while `writing_`.
  void Go() {
    Reactor* reactor = nullptr;
    std::optional<grpc::Status> finish;
    {
      const MutexLock lock(mutex_);
      if (reactor_ == nullptr || writing_ || finished_) return;
      reactor = reactor_;
      if (closing_) {
        finished_ = true;
        finish = closing_;
      } else if (!queue_.empty()) {
        writing_ = true;
        current_ = std::move(queue_.front().first);
        bytes_ -= queue_.front().second;
        queue_.pop_front();
      } else {
        return;
      }
    }
    if (finish) {
      reactor->Finish(*finish);
    } else {
      reactor->StartWrite(&current_);
    }
  }

  const Limits limits_;
  Mutex mutex_;
  Reactor* reactor_ LAUNCH_GUARDED_BY(mutex_);
  bool writing_ LAUNCH_GUARDED_BY(mutex_) = false;
  bool finished_ LAUNCH_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> closing_ LAUNCH_GUARDED_BY(mutex_);
  std::deque<std::pair<Out, std::size_t>> queue_ LAUNCH_GUARDED_BY(mutex_);
  std::size_t bytes_ LAUNCH_GUARDED_BY(mutex_) = 0;
  Out current_;  // being written; touched only by whoever set writing_
};

}  // namespace launch::controller
