// Pongs that a node has not said it heard. Its own next beat would tell that it is deaf, but up to
// a beat later, and over a connection whose packets nobody acknowledges that beat does not come.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/clock.h"

namespace launch::controller {

class Unheard {
 public:
  // Notes that the Pong `n` goes out.
  void Sent(std::uint64_t n, BootTime now);
  // The node says that it came, and with it all before; one that is not waited for says nothing.
  void Arrived(std::uint64_t n, BootTime now);
  // What was sent tells nothing any more.
  void Clear() { sent_.clear(); }

  // Whether it says what it hears at all: an agent of before does not.
  bool Tells() const { return usual_.has_value(); }
  // When the node is taken to be deaf unless it says something; absent: never, as of one that does
  // not tell.
  std::optional<BootTime> OverAt() const;
  bool IsOver(BootTime now) const;

 private:
  std::map<std::uint64_t, BootTime> sent_;
  std::optional<Millis> usual_;  // how long it takes until a Pong is known to have come
  Millis varies_{0};             // by how much, as a mean: RFC 6298
};

}  // namespace launch::controller
