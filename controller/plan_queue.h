// Plans that wait for the worker, in the order in which they are made: those of jobs that are about
// to start first, then what users ask for; the owners of each kind take turns.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "controller/core/effect.h"

namespace launch::controller {

class PlanQueue {
 public:
  // Of one user, beside those of placed jobs, of which the core has few at once.
  static constexpr std::size_t kMostOfUser = 64;

  // Whether somebody still waits for the answer to a request.
  using IsWaiting = std::function<bool(RequestId)>;

  explicit PlanQueue(IsWaiting is_waiting) : is_waiting_(std::move(is_waiting)) {}

  // What will not be planned, with the reason: `wanted` itself, where its owner has too many that
  // wait, and others of its owner for which nobody waits any more.
  struct Dropped {
    std::uint64_t ticket = 0;
    Error why;
  };
  std::vector<Dropped> Add(effect::PlanWanted wanted);

  // The next one to plan. `dropped` gets those in front of it for which nobody waits any more.
  std::optional<effect::PlanWanted> Take(std::vector<Dropped>& dropped);

  bool empty() const { return placed_.empty() && asked_.empty(); }
  void Clear();

 private:
  // By owner; none is empty. The owner behind the last one that was served is next.
  class Turns {
   public:
    std::deque<effect::PlanWanted>& Of(const UserName& owner) { return waiting_[owner]; }
    effect::PlanWanted Next();
    bool empty() const { return waiting_.empty(); }
    void Clear() { waiting_.clear(); }

   private:
    std::map<UserName, std::deque<effect::PlanWanted>> waiting_;
    UserName last_;
  };

  bool IsOver(const effect::PlanWanted& wanted) const;

  const IsWaiting is_waiting_;
  Turns placed_;
  Turns asked_;
};

}  // namespace launch::controller
