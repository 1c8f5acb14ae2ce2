// The one gRPC server: port, mutual TLS and the channel arguments that fail silently when missing.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "controller/config.h"
#include "controller/enrolment.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace launch::controller {

class ControllerServer {
 public:
  // Serves when it returns. kUnavailable names the port that is in use.
  static Result<std::unique_ptr<ControllerServer>> Start(
      const HostPort& listen, const Credentials& credentials,
      std::vector<std::unique_ptr<grpc::Service>> services);
  ~ControllerServer();

  const std::string& address() const { return address_; }  // "host:port", the real port
  int port() const { return port_; }

  // New calls are refused; those under way are cancelled after `within`.
  void Stop(Millis within);

 private:
  ControllerServer() = default;

  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  int port_ = 0;
};

}  // namespace launch::controller
