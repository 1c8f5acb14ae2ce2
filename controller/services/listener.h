// The listening sockets and the thread that accepts: gRPC takes over what the doorkeeper lets in.
#pragma once

#include <functional>
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

  std::vector<UniqueFd> sockets_;
  UniqueFd quit_;
  std::thread thread_;
  int port_ = 0;
  int highest_fd_ = 0;  // above it none is taken: the rest is for files and pipes
  std::size_t refused_ = 0;
  BootTime refused_told_{};
};

}  // namespace launch::controller
