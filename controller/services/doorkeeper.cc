#include "controller/services/doorkeeper.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace launch::controller {
namespace {

constexpr Millis kJoinWindow{60'000};
constexpr std::size_t kPrefixBytes = 8;  // of IPv6: hosts are given a /64 and use all of it

using Bytes = std::array<std::uint8_t, 16>;

constexpr Bytes kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};

bool IsMapped(const Bytes& address) {
  return std::equal(kMapped.begin(), kMapped.begin() + 12, address.begin());
}

Bytes Map(const in_addr& v4) {
  Bytes address = kMapped;
  std::memcpy(address.data() + 12, &v4, 4);
  return address;
}

std::optional<Bytes> ParseAddress(std::string text) {
  text.erase(std::min(text.find('%'), text.size()));  // the scope of a link-local address
  Bytes address{};
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return Map(v4);
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  return std::nullopt;
}

}  // namespace

DoorLimits LimitsWithin(std::size_t connections) {
  DoorLimits limits;
  limits.of_source = std::min(limits.of_source, connections / 4);
  limits.in_all = std::min(limits.in_all, connections / 2);
  limits.of_identity = std::min(limits.of_identity, connections / 4);
  return limits;
}

Doorkeeper::Address Doorkeeper::SourceOf(Address address) {
  if (!IsMapped(address)) std::fill(address.begin() + kPrefixBytes, address.end(), 0);
  return address;
}

// "ipv4:1.2.3.4:5", "ipv6:[::1]:5"; the brackets may be percent-encoded.
std::optional<Doorkeeper::Peer> Doorkeeper::PeerNamed(std::string_view peer) {
  const std::size_t scheme = peer.find(':');
  const std::size_t last = peer.rfind(':');
  if (scheme == std::string_view::npos || last <= scheme) return std::nullopt;
  std::string host(peer.substr(scheme + 1, last - scheme - 1));
  for (const auto& [from, to] : {std::pair("%5B", ""), std::pair("%5D", ""), std::pair("[", ""),
                                 std::pair("]", ""), std::pair("%25", "%")}) {
    if (const std::size_t at = host.find(from); at != std::string::npos) {
      host.replace(at, std::strlen(from), to);
    }
  }
  const std::optional<Bytes> address = ParseAddress(std::move(host));
  const std::string_view port = peer.substr(last + 1);
  const auto end = port.data() + port.size();
  std::uint16_t number = 0;
  const auto read = std::from_chars(port.data(), end, number);
  if (!address || read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return Peer{*address, number};
}

std::optional<Doorkeeper::Peer> Doorkeeper::PeerOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return Peer{Map(v4.sin_addr), ntohs(v4.sin_port)};
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  Peer peer{{}, ntohs(v6.sin6_port)};
  std::memcpy(peer.first.data(), &v6.sin6_addr, peer.first.size());
  return peer;
}

Doorkeeper::Connection* Doorkeeper::Named(std::string_view name) {
  const std::optional<Peer> peer = PeerNamed(name);
  if (!peer) return nullptr;
  const auto handle = handles_.find(*peer);
  return handle == handles_.end() ? nullptr : &open_.at(handle->second);
}

void Doorkeeper::Count(const Address& source) {
  ++of_source_[source];
  ++unproved_;
}

void Doorkeeper::Uncount(const Address& source) {
  const auto known = of_source_.find(source);
  if (--known->second == 0) of_source_.erase(known);
  --unproved_;
}

void Doorkeeper::UncountMember(const std::string& who) {
  const auto known = of_identity_.find(who);
  if (--known->second == 0) of_identity_.erase(known);
}

void Doorkeeper::ForgetEnded(BootTime now) {
  while (!ended_.empty() && ended_.front().first + limits_.remembered_for <= now) {
    Uncount(ended_.front().second);
    ended_.pop_front();
  }
}

bool Doorkeeper::LetIn(const sockaddr_storage& from, int handle, BootTime now) {
  const std::optional<Peer> peer = PeerOf(from);
  if (!peer) return false;
  const Address source = SourceOf(peer->first);
  const MutexLock lock(mutex_);
  ForgetEnded(now);
  if (unproved_ >= limits_.in_all) return false;
  const auto known = of_source_.find(source);
  if (known != of_source_.end() && known->second >= limits_.of_source) return false;
  // One port may reach two addresses of ours: gRPC does not tell the two apart. The next try has
  // another port.
  if (!handles_.try_emplace(*peer, handle).second) return false;
  open_.insert_or_assign(handle, Connection{*peer, now, {}});
  by_age_.emplace_back(now, handle);
  Count(source);
  return true;
}

bool Doorkeeper::Proved(std::string_view peer, const std::string& who) {
  const MutexLock lock(mutex_);
  Connection* const connection = Named(peer);
  if (connection == nullptr || !connection->who.empty()) return true;
  const auto known = of_identity_.try_emplace(who, 0).first;
  if (known->second >= limits_.of_identity) return false;
  ++known->second;
  connection->who = who;
  Uncount(SourceOf(connection->peer.first));
  return true;
}

void Doorkeeper::Refused(std::string_view peer, BootTime now) {
  const MutexLock lock(mutex_);
  Connection* const connection = Named(peer);
  if (connection == nullptr || connection->who.empty()) return;
  UncountMember(connection->who);
  connection->who.clear();
  connection->since = now;
  by_age_.emplace_back(now, handles_.at(connection->peer));
  Count(SourceOf(connection->peer.first));
}

std::vector<int> Doorkeeper::Overdue(BootTime now) {
  std::vector<int> overdue;
  const MutexLock lock(mutex_);
  while (!by_age_.empty() && by_age_.front().first + limits_.unproved_for <= now) {
    const auto [since, handle] = by_age_.front();
    by_age_.pop_front();
    const auto found = open_.find(handle);
    if (found == open_.end() || !found->second.who.empty()) continue;
    if (found->second.since == since) overdue.push_back(handle);
  }
  return overdue;
}

void Doorkeeper::Gone(int handle, BootTime now) {
  const MutexLock lock(mutex_);
  const auto found = open_.find(handle);
  if (found == open_.end()) return;
  const Connection& connection = found->second;
  if (connection.who.empty()) {
    ended_.emplace_back(now, SourceOf(connection.peer.first));
  } else {
    UncountMember(connection.who);
  }
  handles_.erase(connection.peer);
  open_.erase(found);
}

bool Doorkeeper::MayJoin(const std::string& serial, BootTime now) {
  const MutexLock lock(mutex_);
  const auto known = joins_.find(serial);
  if (known == joins_.end() && joins_.size() >= limits_.tokens) {
    std::erase_if(joins_,
                  [&](const auto& entry) { return entry.second.since + kJoinWindow <= now; });
    if (joins_.size() >= limits_.tokens) return false;
  }
  Joins& joins = joins_.try_emplace(serial, Joins{now, 0}).first->second;
  if (joins.since + kJoinWindow <= now) joins = {now, 0};
  return joins.calls++ < limits_.joins_of_token;
}

std::size_t Doorkeeper::unproved() const {
  const MutexLock lock(mutex_);
  return unproved_;
}

}  // namespace launch::controller
