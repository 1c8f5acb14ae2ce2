// What strangers can make us hold: a connection counts against its source until a certificate of
// this cluster was read on it, or until the handshake's time is over. TLS itself, message sizes and
// streams are bounded by gRPC (server.cc); connections are not, in any version that we support.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/annotated_mutex.h"
#include "common/clock.h"

namespace launch::controller {

struct DoorLimits {
  std::size_t of_source = 256;  // an IPv4 address, or a /64 of IPv6
  std::size_t in_all = 2'048;   // about 64 KiB each while they shake hands: 128 MiB
  Millis unproved_for{6'000};   // the handshake has 5 s
  // Calls with one join token in a minute: a join that fails does not spend it.
  std::size_t joins_of_token = 20;
  std::size_t tokens = 1'024;  // remembered at once
};

// Thread-safe. Time is a parameter.
class Doorkeeper {
 public:
  explicit Doorkeeper(DoorLimits limits = {}) : limits_(limits) {}

  // A connection from `peer` was accepted: false = close it.
  bool LetIn(const sockaddr_storage& peer, BootTime now) LAUNCH_EXCLUDES(mutex_);
  // The connection showed a certificate of this cluster. `peer` as gRPC names it:
  // "ipv4:10.0.0.1:5000".
  void Proved(std::string_view peer) LAUNCH_EXCLUDES(mutex_);
  bool MayJoin(const std::string& serial, BootTime now) LAUNCH_EXCLUDES(mutex_);

  std::size_t unproved() const LAUNCH_EXCLUDES(mutex_);

 private:
  using Address = std::array<std::uint8_t, 16>;  // IPv4 as its mapped address
  using Peer = std::pair<Address, std::uint16_t>;
  static Address SourceOf(Address address);
  static std::optional<Peer> PeerOf(const sockaddr_storage& address);
  static std::optional<Peer> PeerNamed(std::string_view name);
  void Forget(const Peer& peer) LAUNCH_REQUIRES(mutex_);
  void Expire(BootTime now) LAUNCH_REQUIRES(mutex_);

  const DoorLimits limits_;
  mutable Mutex mutex_;
  std::map<Peer, BootTime> unproved_ LAUNCH_GUARDED_BY(mutex_);
  std::map<Address, std::size_t> of_source_ LAUNCH_GUARDED_BY(mutex_);
  std::deque<std::pair<BootTime, Peer>> by_age_ LAUNCH_GUARDED_BY(mutex_);
  struct Joins {
    BootTime since{};
    std::size_t calls = 0;
  };
  std::map<std::string, Joins> joins_ LAUNCH_GUARDED_BY(mutex_);
};

}  // namespace launch::controller
