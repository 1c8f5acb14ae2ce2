// Counts the calls of each user that wait, so that no user's take what all need.
#pragma once

#include <map>
#include <memory>

#include "common/annotated_mutex.h"
#include "common/ids.h"

namespace launch::controller {

// Thread-safe. Its places may outlive it.
class CallsOfUsers {
 public:
  using Place = std::shared_ptr<const void>;  // taken until its last copy is gone

  explicit CallsOfUsers(int most) : most_(most) {}

  // A place for one more call of the user; null: `most` of them wait.
  Place Take(const UserName& user) {
    {
      const MutexLock lock(waiting_->mutex);
      int& count = waiting_->of[user];
      if (count == most_) return nullptr;
      ++count;
    }
    return Place(waiting_.get(), [waiting = waiting_, user](const void*) {
      const MutexLock lock(waiting->mutex);
      if (--waiting->of[user] == 0) waiting->of.erase(user);
    });
  }

 private:
  struct Waiting {
    Mutex mutex;
    std::map<UserName, int> of LAUNCH_GUARDED_BY(mutex);
  };

  const int most_;
  const std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
};

}  // namespace launch::controller
