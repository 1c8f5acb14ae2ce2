// One way to dial a controller: mutual TLS, keepalive, no proxy, a connection of its own.
#pragma once

#include <memory>
#include <string>

#include "agent/link/identity_files.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace launch::agent {

// Name in the controller's certificate, whatever address it is reached by.
inline constexpr const char* kControllerTlsName = "launch-controller";

// Never shares a connection: flow-control windows are per connection, so log bytes on a shared one
// would delay heartbeats.
std::shared_ptr<grpc::Channel> Dial(const std::string& address, const IdentityFiles& identity);

}  // namespace launch::agent
