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

void Doorkeeper::Forget(const Peer& peer) {
  if (unproved_.erase(peer) == 0) return;
  const auto source = of_source_.find(SourceOf(peer.first));
  if (--source->second == 0) of_source_.erase(source);
}

void Doorkeeper::Expire(BootTime now) {
  while (!by_age_.empty() && by_age_.front().first + limits_.unproved_for <= now) {
    const auto [since, peer] = by_age_.front();
    by_age_.pop_front();
    const auto found = unproved_.find(peer);
    if (found != unproved_.end() && found->second == since) Forget(peer);
  }
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

bool Doorkeeper::LetIn(const sockaddr_storage& from, BootTime now) {
  const std::optional<Peer> peer = PeerOf(from);
  if (!peer) return false;
  const Address source = SourceOf(peer->first);
  const MutexLock lock(mutex_);
  Expire(now);
  Forget(*peer);  // the port is used again: what came from it before is gone
  // Proved ones leave a line here until its time; many of them are no reason to keep more.
  const auto known = of_source_.find(source);
  if (unproved_.size() >= limits_.in_all) return false;
  if (known != of_source_.end() && known->second >= limits_.of_source) return false;
  unproved_[*peer] = now;
  ++of_source_[source];
  by_age_.emplace_back(now, *peer);
  return true;
}

void Doorkeeper::Proved(std::string_view name) {
  const std::optional<Peer> peer = PeerNamed(name);
  if (!peer) return;
  const MutexLock lock(mutex_);
  Forget(*peer);
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
  return unproved_.size();
}

}  // namespace launch::controller
