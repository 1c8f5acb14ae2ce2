#include "controller/plan_queue.h"

#include <string>
#include <utility>

namespace launch::controller {
namespace {

PlanQueue::Dropped NobodyWaits(const effect::PlanWanted& wanted) {
  return {wanted.ticket,
          {ErrorCode::kDeadlineExceeded, "nobody waits for this plan any more", "", std::nullopt}};
}

PlanQueue::Dropped TooMany(const effect::PlanWanted& wanted) {
  return {wanted.ticket,
          {ErrorCode::kResourceExhausted,
           std::to_string(PlanQueue::kMostOfUser) + " plans of " + wanted.owner.value +
               " are waiting to be made already; a user may have no more",
           "wait for some of them, then try again", std::nullopt}};
}

}  // namespace

bool PlanQueue::IsOver(const effect::PlanWanted& wanted) const {
  return wanted.request.value != 0 && !is_waiting_(wanted.request);
}

std::vector<PlanQueue::Dropped> PlanQueue::Add(effect::PlanWanted wanted) {
  std::vector<Dropped> dropped;
  if (wanted.placed) {
    placed_.Of(wanted.owner).push_back(std::move(wanted));
    return dropped;
  }
  std::deque<effect::PlanWanted>& own = asked_.Of(wanted.owner);
  if (own.size() >= kMostOfUser) {
    std::erase_if(own, [&](const effect::PlanWanted& one) {
      if (!IsOver(one)) return false;
      dropped.push_back(NobodyWaits(one));
      return true;
    });
  }
  if (own.size() >= kMostOfUser) {
    dropped.push_back(TooMany(wanted));
  } else {
    own.push_back(std::move(wanted));
  }
  return dropped;
}

std::optional<effect::PlanWanted> PlanQueue::Take(std::vector<Dropped>& dropped) {
  if (!placed_.empty()) return placed_.Next();
  while (!asked_.empty()) {
    effect::PlanWanted wanted = asked_.Next();
    if (!IsOver(wanted)) return wanted;
    dropped.push_back(NobodyWaits(wanted));
  }
  return std::nullopt;
}

void PlanQueue::Clear() {
  placed_.Clear();
  asked_.Clear();
}

effect::PlanWanted PlanQueue::Turns::Next() {
  auto next = waiting_.upper_bound(last_);
  if (next == waiting_.end()) next = waiting_.begin();
  last_ = next->first;
  effect::PlanWanted wanted = std::move(next->second.front());
  next->second.pop_front();
  if (next->second.empty()) waiting_.erase(next);
  return wanted;
}

}  // namespace launch::controller
