#include "controller/core/unheard.h"

#include <algorithm>
#include <chrono>

namespace launch::controller {
namespace {

// With the beat in which the fault begins this is below 3.5 beats, and a pause of 2 s is none.
constexpr Millis kLateBy{2'300};
constexpr std::size_t kMost = 16;  // the oldest is what counts
// Of RFC 6298, for the time that answers take: one late answer changes little of what is usual, and
// where it varies more is waited.
constexpr int kSlowly = 8;
constexpr int kSlowlyVaries = 4;
constexpr int kVariations = 4;
constexpr Millis kUsualAtMost{10'000};

}  // namespace

void Unheard::Sent(std::uint64_t n, BootTime now) {
  if (sent_.size() < kMost) sent_.emplace(n, now);
}

void Unheard::Arrived(std::uint64_t n, BootTime now) {
  const auto found = sent_.find(n);
  if (found != sent_.end()) {
    const Millis took = std::min(now - found->second, kUsualAtMost);
    if (usual_) {
      varies_ += (std::chrono::abs(took - *usual_) - varies_) / kSlowlyVaries;
      *usual_ += (took - *usual_) / kSlowly;
    } else {
      usual_ = took;
    }
  }
  sent_.erase(sent_.begin(), sent_.upper_bound(n));
}

std::optional<BootTime> Unheard::OverAt() const {
  if (!usual_ || sent_.empty()) return std::nullopt;
  return sent_.begin()->second + kLateBy + *usual_ + kVariations * varies_;
}

bool Unheard::IsOver(BootTime now) const {
  const std::optional<BootTime> at = OverAt();
  return at && *at < now;
}

}  // namespace launch::controller
