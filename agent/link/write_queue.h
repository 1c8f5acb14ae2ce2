// Messages of one stream that wait for the write in flight: telemetry is replaced, the rest is
// kept.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace launch::agent {

// Not thread-safe: its owner guards it. M is a protobuf message.
template <class M>
class WriteQueue {
 public:
  explicit WriteQueue(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // `slot` empty: kept in order. Else only the newest message of that slot is kept.
  // False = beyond the bound: the peer does not read, the stream must be closed and resent.
  [[nodiscard]] bool Push(M message, const std::string& slot) {
    if (!slot.empty()) {
      latest_[slot] = std::move(message);
      return true;
    }
    const std::size_t size = message.ByteSizeLong();
    if (!kept_.empty() && bytes_ + size > max_bytes_) return false;
    bytes_ += size;
    kept_.push_back(std::move(message));
    return true;
  }

  // What must not be lost goes first.
  std::optional<M> Pop() {
    if (!kept_.empty()) {
      M message = std::move(kept_.front());
      kept_.pop_front();
      bytes_ -= message.ByteSizeLong();
      return message;
    }
    if (latest_.empty()) return std::nullopt;
    auto node = latest_.extract(latest_.begin());
    return std::move(node.mapped());
  }

 private:
  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::deque<M> kept_;
  std::map<std::string, M> latest_;
};

}  // namespace launch::agent
