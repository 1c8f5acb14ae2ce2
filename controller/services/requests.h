// Callers that wait for an answer of the core: each is answered exactly once, at the latest at its
// deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/annotated_mutex.h"
#include "common/mailbox.h"
#include "controller/core/effect.h"
#include "controller/core/event.h"
#include "controller/services/executor.h"

namespace launch::controller {

// Thread-safe.
class Requests {
 public:
  using Done = std::function<void(Result<ReplyBody>)>;  // on any thread; must not block
  using Gone = std::function<bool()>;  // whether the caller has hung up; asked before Done only

  struct Limits {
    Millis deadline{10'000};
    std::size_t per_caller = 256;  // waiting at once
  };

  Requests(Mailbox<Event>& mailbox, Executor& executor, Limits limits);
  Requests(Mailbox<Event>& mailbox, Executor& executor);

  // Posts `event` under a new request id. `caller` (a user or a joiner) is whom its limit counts
  // for.
  template <class E>
  void Ask(const std::string& caller, E event, Done done, Gone gone = {}) {
    const RequestId id = Open(caller, std::move(done), std::move(gone));
    if (id.value == 0) return;
    event.request = id;
    if (!mailbox_.Push(Event(std::move(event)))) {
      Complete(id, Fail(ErrorCode::kResourceExhausted, "the controller's queue is full",
                        "try again in a moment"));
    }
  }

  void Complete(RequestId id, Result<ReplyBody> body) LAUNCH_EXCLUDES(mutex_);
  // Whether its answer would still reach somebody.
  bool IsWaiting(RequestId id) const LAUNCH_EXCLUDES(mutex_);
  // For the controller's stop: gives `error` to all who wait and to whoever comes later.
  void Refuse(const Error& error) LAUNCH_EXCLUDES(mutex_);

 private:
  struct Waiting {
    std::string caller;
    Done done;
    Gone gone;
  };
  // Opens a request. Id 0: it was refused, and `done` was called with the error.
  RequestId Open(const std::string& caller, Done done, Gone gone) LAUNCH_EXCLUDES(mutex_);

  Mailbox<Event>& mailbox_;
  Executor& executor_;
  const Limits limits_;
  mutable Mutex mutex_;
  std::uint64_t last_ LAUNCH_GUARDED_BY(mutex_) = 0;
  std::map<RequestId, Waiting> waiting_ LAUNCH_GUARDED_BY(mutex_);
  std::map<std::string, std::size_t> of_caller_ LAUNCH_GUARDED_BY(mutex_);
  std::optional<Error> refusing_ LAUNCH_GUARDED_BY(mutex_);
};

}  // namespace launch::controller
