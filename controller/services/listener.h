// The listening sockets and the thread that accepts: gRPC takes over what the doorkeeper lets in.
// Of each connection we keep a second descriptor, which tells when it ends and lets us close it:
// what gRPC does with its own is not told.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/controller_config.h"
#include "common/error.h"
#include "common/unique_fd.h"
#include "controller/services/doorkeeper.h"

namespace launch::controller {

class Listener {
 public:
  // Binds; nothing is accepted before Serve. kUnavailable: the port is in use, or no such address.
  static Result<std::unique_ptr<Listener>> Open(const HostPort& listen);
  ~Listener();

  // How many this process can have at once, with what it may open now.
  static std::size_t MostConnections();

  int port() const { return port_; }
  // `take` owns the descriptor. Both outlive the listener.
  void Serve(Doorkeeper& door, Clock& clock, std::function<void(int fd)> take);
  void Stop();

 private:
  Listener() = default;
  Result<void> Bind(const std::string& address, int port);
  void Run(Doorkeeper& door, Clock& clock, const std::function<void(int fd)>& take);
  void AcceptAll(int listening, Doorkeeper& door, Clock& clock,
                 const std::function<void(int fd)>& take);
  bool Watch(int fd, unsigned events);
  bool Hold(int fd, const sockaddr_storage& peer, Doorkeeper& door, BootTime now);
  void LetGo(int handle, Doorkeeper& door, BootTime now);
  void CloseOverdue(Doorkeeper& door, BootTime now);
  void Tell(const Doorkeeper& door, BootTime now);
  bool IsListening(int fd) const;

  std::vector<UniqueFd> sockets_;
  UniqueFd quit_;
  UniqueFd epoll_;
  std::map<int, UniqueFd> held_;  // of the thread: our descriptors of what is connected
  std::thread thread_;
  int port_ = 0;
  int highest_fd_ = 0;       // above it none is taken: the rest is for files and pipes
  std::size_t refused_ = 0;  // or closed, and not told yet
  BootTime refused_told_{};
};

}  // namespace launch::controller
