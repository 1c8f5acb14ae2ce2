// A server stream that asks its source for the next message whenever it could write one, so that a
// slow reader holds up nothing but itself.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>
#include <variant>

#include "common/annotated_mutex.h"

namespace launch::controller {

struct NothingYet {};  // Wake will be called

// Subclasses give the messages; the object deletes itself when the call is over.
template <class Reply>
class PullStream : public grpc::ServerWriteReactor<Reply> {
 public:
  using Next = std::variant<Reply, NothingYet, grpc::Status>;

  // Outlives the stream: whoever wakes it holds this and never the stream.
  class Handle {
   public:
    explicit Handle(PullStream* stream) : stream_(stream) {}
    void Wake() { Step(false, false); }

   private:
    friend class PullStream;
    void Step(bool written, bool failed) {
      PullStream* stream = nullptr;
      Next next;
      {
        const MutexLock lock(mutex_);
        if (written) writing_ = false;
        if (failed) failed_ = true;
        if (stream_ == nullptr || writing_ || finished_) return;
        stream = stream_;
        next = failed_ ? Next(grpc::Status::CANCELLED) : stream->Pull();
        if (std::holds_alternative<NothingYet>(next)) return;
        if (std::holds_alternative<grpc::Status>(next)) {
          finished_ = true;
        } else {
          writing_ = true;
        }
      }
      // It lives until it has finished, and it cannot finish beside this write.
      if (auto* status = std::get_if<grpc::Status>(&next)) {
        stream->Finish(*status);
      } else {
        stream->current_ = std::move(std::get<Reply>(next));
        stream->StartWrite(&stream->current_);
      }
    }

    Mutex mutex_;
    PullStream* stream_ LAUNCH_GUARDED_BY(mutex_);
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
