// The one gRPC server: mutual TLS and the channel arguments that fail silently when missing.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/controller_config.h"
#include "common/error.h"
#include "controller/services/doorkeeper.h"
#include "controller/services/listener.h"
#include "controller/serving_files.h"

namespace grpc {
class Server;
namespace experimental {
class ExternalConnectionAcceptor;
}  // namespace experimental
}  // namespace grpc

namespace launch::controller {

class ControllerServer {
 public:
  // Serves when it returns, with whatever pair `identity` names at the time of a handshake.
  // kUnavailable names the port that is in use. `door` and `clock` outlive it.
  static Result<std::unique_ptr<ControllerServer>> Start(
      const HostPort& listen, const ServingFiles& identity,
      std::vector<std::unique_ptr<grpc::Service>> services, Doorkeeper& door, Clock& clock);
  ~ControllerServer();

  const std::string& address() const { return address_; }  // "host:port", the real port
  int port() const { return port_; }

  // New calls are refused; those under way are cancelled after `within`.
  void Stop(Millis within);

 private:
  ControllerServer();

  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;
  std::string address_;
  int port_ = 0;
};

}  // namespace launch::controller
