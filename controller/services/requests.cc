#include "controller/services/requests.h"

#include <utility>
#include <vector>

namespace launch::controller {

Requests::Requests(Mailbox<Event>& mailbox, Executor& executor)
    : Requests(mailbox, executor, Limits{}) {}
Requests::Requests(Mailbox<Event>& mailbox, Executor& executor, Limits limits)
    : mailbox_(mailbox), executor_(executor), limits_(limits) {}

RequestId Requests::Open(const std::string& caller, Done done, Gone gone) {
  std::optional<Error> refused;
  RequestId id;
  {
    const MutexLock lock(mutex_);
    std::size_t& count = of_caller_[caller];
    if (refusing_) {
      refused = refusing_;
    } else if (count >= limits_.per_caller) {
      refused = Error{ErrorCode::kResourceExhausted,
                      std::to_string(count) + " requests of " + caller + " are waiting already",
                      "wait for some of them, then try again", std::nullopt};
    } else {
      ++count;
      id = RequestId{++last_};
      waiting_.emplace(id, Waiting{caller, std::move(done), std::move(gone)});
    }
  }
  if (refused) {
    done(Unexpected(std::move(*refused)));
    return id;
  }
  executor_.After(limits_.deadline, [this, id] {
    Complete(id, Fail(ErrorCode::kDeadlineExceeded, "no answer of the controller in time",
                      "the outcome is unknown; the same command with the same --idempotency-key "
                      "does nothing twice"));
  });
  return id;
}

void Requests::Complete(RequestId id, Result<ReplyBody> body) {
  Waiting waiting;
  {
    const MutexLock lock(mutex_);
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;  // its deadline has passed
    waiting = std::move(found->second);
    waiting_.erase(found);
    const auto count = of_caller_.find(waiting.caller);
    if (--count->second == 0) of_caller_.erase(count);
  }
  waiting.done(std::move(body));
}

// Under the lock: what `gone` looks at lives until Done is called.
bool Requests::IsWaiting(RequestId id) const {
  const MutexLock lock(mutex_);
  const auto found = waiting_.find(id);
  return found != waiting_.end() && !(found->second.gone && found->second.gone());
}

void Requests::Refuse(const Error& error) {
  std::map<RequestId, Waiting> waiting;
  {
    const MutexLock lock(mutex_);
    refusing_ = error;
    waiting.swap(waiting_);
    of_caller_.clear();
  }
  for (auto& [id, one] : waiting) one.done(Unexpected(error));
}

}  // namespace launch::controller
