// A server stream that asks its source for the next message whenever it could write one, so that a
// slow reader holds up nothing but itself.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>
#include <variant>

#include "common/annotated_mutex.h"

namespace launch::controller {

struct NothingYet {};  // Wake will be called, or was meanwhile

// Subclasses give the messages; who makes one calls Start of its handle, after which it may be gone
// at any time: the object deletes itself when the call is over.
template <class Reply>
class PullStream : public grpc::ServerWriteReactor<Reply> {
 public:
  using Next = std::variant<Reply, NothingYet, grpc::Status>;

  // Outlives the stream: whoever wakes it holds this and never the stream.
  class Handle {
   public:
    explicit Handle(PullStream* stream) : stream_(stream) {}
    // Once the stream is whole: a wake before it, from inside its constructor, does nothing.
    void Start() {
      {
        const MutexLock lock(mutex_);
        started_ = true;
      }
      Step(false, false);
    }
    void Wake() { Step(false, false); }

   private:
    friend class PullStream;
    // One thread at a time pulls, without the lock: who else wakes the stream leaves a note and
    // goes on, so that a long read of one stream holds up nobody.
    void Step(bool written, bool failed) {
      PullStream* stream = nullptr;
      {
        const MutexLock lock(mutex_);
        if (written) writing_ = false;
        if (failed) failed_ = true;
        again_ = true;
        if (!started_ || stream_ == nullptr || writing_ || finished_ || pulling_) return;
        pulling_ = true;
        stream = stream_;
      }
      // It lives until it has finished, and nobody else writes or finishes now.
      for (;;) {
        bool cancelled = false;
        {
          const MutexLock lock(mutex_);
          again_ = false;
          cancelled = failed_;
        }
        Next next = cancelled ? Next(grpc::Status::CANCELLED) : stream->Pull();
        auto* status = std::get_if<grpc::Status>(&next);
        {
          const MutexLock lock(mutex_);
          if (std::holds_alternative<NothingYet>(next)) {
            if (again_) continue;
            pulling_ = false;
            return;
          }
          (status != nullptr ? finished_ : writing_) = true;
          pulling_ = false;
        }
        if (status != nullptr) {
          stream->Finish(*status);
        } else {
          stream->current_ = std::move(std::get<Reply>(next));
          stream->StartWrite(&stream->current_);
        }
        return;
      }
    }

    Mutex mutex_;
    PullStream* stream_ LAUNCH_GUARDED_BY(mutex_);
    bool started_ LAUNCH_GUARDED_BY(mutex_) = false;
    bool pulling_ LAUNCH_GUARDED_BY(mutex_) = false;
    bool again_ LAUNCH_GUARDED_BY(mutex_) = false;  // woken while somebody pulled
    bool writing_ LAUNCH_GUARDED_BY(mutex_) = false;
    bool failed_ LAUNCH_GUARDED_BY(mutex_) = false;
    bool finished_ LAUNCH_GUARDED_BY(mutex_) = false;
  };

  const std::shared_ptr<Handle>& handle() const { return handle_; }

  void OnWriteDone(bool ok) final { Hold()->Step(true, !ok); }
  void OnCancel() final { Hold()->Step(false, true); }
  void OnDone() final {
    {
      const MutexLock lock(handle_->mutex_);
      handle_->stream_ = nullptr;
    }
    Ended();
    delete this;
  }

 protected:
  PullStream() : handle_(std::make_shared<Handle>(this)) {}
  virtual Next Pull() = 0;   // serialised; may be called from any thread
  virtual void Ended() = 0;  // the call is over: forget it

 private:
  std::shared_ptr<Handle> Hold() { return handle_; }

  std::shared_ptr<Handle> handle_;
  Reply current_;
};

// A stream that ends at once.
template <class Reply>
class RefusedStream final : public grpc::ServerWriteReactor<Reply> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace launch::controller
