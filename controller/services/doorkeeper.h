// What strangers and members can make us hold. A connection counts against its source until a
// certificate was let in on it, and is closed when its time for that is over; then it counts
// against who was let in, until it ends. TLS itself, message sizes and streams are bounded by gRPC
// (server.cc); connections are not, in any version that we support.
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
#include <vector>

#include "common/annotated_mutex.h"
#include "common/clock.h"

namespace launch::controller {

struct DoorLimits {
  // Connections on which no certificate was let in.
  std::size_t of_source = 256;   // an IPv4 address, or a /64 of IPv6
  std::size_t in_all = 2'048;    // about 110 KiB each: 220 MiB
  Millis unproved_for{30'000};   // then it is closed: 5 s for the handshake, the rest for a call
  Millis remembered_for{6'000};  // it counts for so long after its end: short ones flood too
  // Open connections of one user, node or join line. An agent has two, and one for each command.
  std::size_t of_identity = 512;
  // Without a call; gRPC closes it then, and clients connect again by themselves.
  Millis idle_for{300'000};
  // Calls with one join token in a minute: a join that fails does not spend it.
  std::size_t joins_of_token = 20;
  std::size_t tokens = 1'024;  // remembered at once
};

// The usual limits, smaller where a process can have only so many connections: strangers get half
// of them at most, one source and one member a quarter.
DoorLimits LimitsWithin(std::size_t connections);

// Thread-safe. Time is a parameter.
class Doorkeeper {
 public:
  explicit Doorkeeper(DoorLimits limits = {}) : limits_(limits) {}

  const DoorLimits& limits() const { return limits_; }

  // A connection from `from` was accepted: false = close it. `handle` names it until it is Gone.
  bool LetIn(const sockaddr_storage& from, int handle, BootTime now) LAUNCH_EXCLUDES(mutex_);
  // A certificate of `who` was let in on the connection; each call says so again. False: `who` has
  // as many connections as one may have, and this one stays a stranger's. `peer` as gRPC names it:
  // "ipv4:10.0.0.1:5000".
  bool Proved(std::string_view peer, const std::string& who) LAUNCH_EXCLUDES(mutex_);
  // Its certificate is not let in any more: it is a stranger's again, as from `now`.
  void Refused(std::string_view peer, BootTime now) LAUNCH_EXCLUDES(mutex_);
  // Strangers' connections whose time is over, to be closed. Each is named once.
  std::vector<int> Overdue(BootTime now) LAUNCH_EXCLUDES(mutex_);
  // The connection has ended.
  void Gone(int handle, BootTime now) LAUNCH_EXCLUDES(mutex_);
  bool MayJoin(const std::string& serial, BootTime now) LAUNCH_EXCLUDES(mutex_);

  std::size_t unproved() const LAUNCH_EXCLUDES(mutex_);

 private:
  using Address = std::array<std::uint8_t, 16>;  // IPv4 as its mapped address
  using Peer = std::pair<Address, std::uint16_t>;
  struct Connection {
    Peer peer;
    BootTime since;   // of being a stranger's
    std::string who;  // empty: a stranger
  };
  static Address SourceOf(Address address);
  static std::optional<Peer> PeerOf(const sockaddr_storage& address);
  static std::optional<Peer> PeerNamed(std::string_view peer);
  Connection* Named(std::string_view name) LAUNCH_REQUIRES(mutex_);
  void Count(const Address& source) LAUNCH_REQUIRES(mutex_);
  void Uncount(const Address& source) LAUNCH_REQUIRES(mutex_);
  void UncountMember(const std::string& who) LAUNCH_REQUIRES(mutex_);
  void ForgetEnded(BootTime now) LAUNCH_REQUIRES(mutex_);

  const DoorLimits limits_;
  mutable Mutex mutex_;
  std::map<int, Connection> open_ LAUNCH_GUARDED_BY(mutex_);
  std::map<Peer, int> handles_ LAUNCH_GUARDED_BY(mutex_);  // of those that are open
  // Strangers: their number by source and in all, with those that ended a moment ago.
  std::map<Address, std::size_t> of_source_ LAUNCH_GUARDED_BY(mutex_);
  std::size_t unproved_ LAUNCH_GUARDED_BY(mutex_) = 0;
  std::deque<std::pair<BootTime, int>> by_age_ LAUNCH_GUARDED_BY(mutex_);
  std::deque<std::pair<BootTime, Address>> ended_ LAUNCH_GUARDED_BY(mutex_);
  std::map<std::string, std::size_t> of_identity_ LAUNCH_GUARDED_BY(mutex_);
  struct Joins {
    BootTime since{};
    std::size_t calls = 0;
  };
  std::map<std::string, Joins> joins_ LAUNCH_GUARDED_BY(mutex_);
};

}  // namespace launch::controller
