#include "controller/services/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "controller/services/addresses.h"

namespace launch::controller {
namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptsAtOnce = 64;  // of one socket, before the others are looked at
constexpr int kNoDescriptorPauseMs = 50;
constexpr unsigned kUnansweredMs = 5'000;  // data nobody acknowledges; as the keepalive's timeout
constexpr Millis kTellEach{10'000};
constexpr int kLookEachMs = 1'000;  // whose time is over, while somebody is connected

// Four fifths of what the process may open.
int HighestFd() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1 << 20;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20) * 4 / 5);
}

void SetOption(int fd, int level, int name, int value) {
  (void)::setsockopt(fd, level, name, &value, sizeof value);
}

// What accepted sockets inherit as well.
Result<UniqueFd> OpenSocket(const sockaddr* address, socklen_t length, bool both_families) {
  UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return FailErrno("socket", errno);
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(kUnansweredMs));
  if (address->sa_family == AF_INET6) {
    SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  }
  if (::bind(fd.get(), address, length) != 0) return FailErrno("bind", errno);
  if (::listen(fd.get(), kBacklog) != 0) return FailErrno("listen", errno);
  return fd;
}

int PortOf(const UniqueFd& fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

std::size_t Listener::MostConnections() { return static_cast<std::size_t>(HighestFd()) / 2; }

// Every address of a name, on one port; of a wildcard both families by one socket where the host
// has IPv6.
Result<void> Listener::Bind(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (const int failed = ::getaddrinfo(address.c_str(), service.c_str(), &hints, &found)) {
    return Fail(ErrorCode::kUnavailable, address + ": " + ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Error last{ErrorCode::kUnavailable, address + " has no address", "", std::nullopt};
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    sockaddr_storage storage{};
    std::memcpy(&storage, each->ai_addr, each->ai_addrlen);
    if (port_ != 0 && storage.ss_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(static_cast<std::uint16_t>(port_));
    } else if (port_ != 0) {
      reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(static_cast<std::uint16_t>(port_));
    }
    auto opened = OpenSocket(reinterpret_cast<const sockaddr*>(&storage), each->ai_addrlen,
                             IsWildcard(address));
    if (!opened) {
      last = opened.error();
      continue;
    }
    if (port_ == 0) port_ = PortOf(*opened);
    sockets_.push_back(std::move(*opened));
  }
  if (sockets_.empty()) return Unexpected(std::move(last));
  return {};
}

Result<std::unique_ptr<Listener>> Listener::Open(const HostPort& listen) {
  std::unique_ptr<Listener> self(new Listener());
  self->highest_fd_ = HighestFd();
  self->quit_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!self->quit_) return FailErrno("eventfd", errno);
  self->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!self->epoll_) return FailErrno("epoll_create1", errno);
  const bool wildcard = IsWildcard(listen.host);
  if (!wildcard || !self->Bind("::", listen.port)) {
    LAUNCH_RETURN_IF_ERROR(self->Bind(wildcard ? "0.0.0.0" : listen.host, listen.port));
  }
  if (!self->Watch(self->quit_.get(), EPOLLIN)) return FailErrno("epoll_ctl", errno);
  for (const UniqueFd& socket : self->sockets_) {
    if (!self->Watch(socket.get(), EPOLLIN)) return FailErrno("epoll_ctl", errno);
  }
  return self;
}

Listener::~Listener() { Stop(); }

void Listener::Serve(Doorkeeper& door, Clock& clock, std::function<void(int fd)> take) {
  thread_ = std::thread([this, &door, &clock, take = std::move(take)] { Run(door, clock, take); });
}

void Listener::Stop() {
  if (!thread_.joinable()) return;
  (void)::eventfd_write(quit_.get(), 1);
  thread_.join();
  sockets_.clear();
  held_.clear();
}

bool Listener::Watch(int fd, unsigned events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool Listener::IsListening(int fd) const {
  return std::ranges::any_of(sockets_, [fd](const UniqueFd& each) { return each.get() == fd; });
}

// EPOLLHUP is told unasked: at a reset, and when gRPC shuts both ways down, as it does before each
// close. The end of what the peer sends is none.
bool Listener::Hold(int fd, const sockaddr_storage& peer, Doorkeeper& door, BootTime now) {
  UniqueFd ours(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  const int handle = ours.get();
  if (!ours || !door.LetIn(peer, handle, now)) return false;
  held_[handle] = std::move(ours);
  if (Watch(handle, EPOLLET)) return true;
  LetGo(handle, door, now);
  return false;
}

// Without the first line epoll would go on with it for as long as gRPC has the other descriptor.
void Listener::LetGo(int handle, Doorkeeper& door, BootTime now) {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, handle, nullptr);
  door.Gone(handle, now);
  held_.erase(handle);
}

void Listener::CloseOverdue(Doorkeeper& door, BootTime now) {
  for (const int handle : door.Overdue(now)) {
    (void)::shutdown(handle, SHUT_RDWR);  // gRPC reads the end, and closes its own
    LetGo(handle, door, now);
    ++refused_;
  }
}

void Listener::Tell(const Doorkeeper& door, BootTime now) {
  if (refused_ == 0 || refused_told_ + kTellEach > now) return;
  refused_told_ = now;
  spdlog::warn("connections.refused count={} unproved={} open={} fd_limit={}",
               std::exchange(refused_, 0), door.unproved(), held_.size(), highest_fd_);
}

void Listener::AcceptAll(int listening, Doorkeeper& door, Clock& clock,
                         const std::function<void(int fd)>& take) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    UniqueFd fd(::accept4(listening, reinterpret_cast<sockaddr*>(&peer), &length,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      const bool none_left = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
      if (none_left) (void)::poll(nullptr, 0, kNoDescriptorPauseMs);
      if (errno == ECONNABORTED || errno == EINTR) continue;
      return;
    }
    const BootTime now = clock.Now();
    if (fd.get() <= highest_fd_ && Hold(fd.get(), peer, door, now)) {
      take(fd.Release());
    } else {
      ++refused_;
    }
  }
}

void Listener::Run(Doorkeeper& door, Clock& clock, const std::function<void(int fd)>& take) {
  std::array<epoll_event, kAcceptsAtOnce> events{};
  while (true) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), events.size(), held_.empty() ? -1 : kLookEachMs);
    const std::span ready(events.data(), static_cast<std::size_t>(std::max(count, 0)));
    // Ends first: a port that is used again is then no second connection.
    for (const epoll_event& event : ready) {
      if (event.data.fd == quit_.get()) return;
      if ((event.events & EPOLLHUP) == 0 || !held_.contains(event.data.fd)) continue;
      LetGo(event.data.fd, door, clock.Now());
    }
    CloseOverdue(door, clock.Now());
    for (const epoll_event& event : ready) {
      if (IsListening(event.data.fd)) AcceptAll(event.data.fd, door, clock, take);
    }
    Tell(door, clock.Now());
  }
}

}  // namespace launch::controller
