#include "controller/services/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <chrono>
#include <utility>

#include "controller/services/addresses.h"

namespace launch::controller {
namespace {

constexpr int kAgentMessageBytes = 4 << 20;  // users have 1 MiB, checked by the services
constexpr int kReplyBytes = 64 << 20;
constexpr int kMetadataBytes = 8 << 10;
constexpr int kStreams = 256;  // of one connection at once: an agent's control, bulk and exec
constexpr std::size_t kBufferBytes = std::size_t{1} << 30;  // of all connections
constexpr std::chrono::seconds kLookEvery{
    1};  // whether the certificate is another: three small reads

// gRPC with its defaults hangs up on agents that ping every 10 s.
void SetArguments(grpc::ServerBuilder& builder, const DoorLimits& limits) {
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreams);
  // An open stream is a call: agents and who follows something are never idle.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             static_cast<int>(limits.idle_for.count()));
  grpc::ResourceQuota quota("controller");
  quota.Resize(kBufferBytes);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kAgentMessageBytes);
  builder.SetMaxSendMessageSize(kReplyBytes);
}

}  // namespace

Result<std::unique_ptr<ControllerServer>> ControllerServer::Start(
    const HostPort& listen, const ServingFiles& identity,
    std::vector<std::unique_ptr<grpc::Service>> services, Doorkeeper& door, Clock& clock) {
  const auto pairs = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      identity.key, identity.certificate, identity.authority, kLookEvery.count());
  grpc::experimental::TlsServerCredentialsOptions tls(pairs);
  tls.watch_root_certs();
  tls.watch_identity_key_cert_pairs();
  tls.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);

  std::unique_ptr<ControllerServer> self(new ControllerServer());
  self->services_ = std::move(services);
  grpc::ServerBuilder builder;
  SetArguments(builder, door.limits());
  using External = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  self->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      External::FROM_FD, grpc::experimental::TlsServerCredentials(tls));
  for (const auto& service : self->services_) builder.RegisterService(service.get());
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr) return Fail(ErrorCode::kInternal, "gRPC does not start");
  auto listener = Listener::Open(listen);
  if (!listener) {
    return Fail(ErrorCode::kUnavailable,
                "cannot listen on " + HostPortText(listen.host, listen.port) + ": " +
                    listener.error().message,
                "port " + std::to_string(listen.port) +
                    " is in use by another program, or the address is not one of this host; "
                    "choose another with --listen");
  }
  self->listener_ = std::move(*listener);
  self->port_ = self->listener_->port();
  self->listener_->Serve(door, clock, [acceptor = self->acceptor_.get()](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    acceptor->HandleNewConnection(&connection);
  });
  self->address_ = HostPortText(listen.host, self->port_);
  return self;
}

ControllerServer::ControllerServer() = default;
ControllerServer::~ControllerServer() { Stop(Millis{0}); }

void ControllerServer::Stop(Millis within) {
  if (server_ == nullptr) return;
  if (listener_) listener_->Stop();
  server_->Shutdown(std::chrono::system_clock::now() + within);
  server_->Wait();
  server_.reset();
}

}  // namespace launch::controller
