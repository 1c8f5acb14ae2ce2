#include "tests/bench/yardsticks.h"

#include <grpcpp/grpcpp.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "proto/launch.grpc.pb.h"

extern char** environ;

namespace launch::bench {
namespace {

class Echo final : public v1::Launch::CallbackService {
 public:
  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const v1::SubmitRequest* /*request*/,
                                   v1::SubmitReply* reply) override {
    reply->set_job(1);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

struct BareRpc::Parts {
  Echo service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<v1::Launch::Stub> stub;
};

std::int64_t MonotonicNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

Result<std::int64_t> SpawnNs(const std::string& program, const std::string& stamp_file) {
  std::string arguments[] = {program, stamp_file};
  char* argv[] = {arguments[0].data(), arguments[1].data(), nullptr};
  const std::int64_t begin = MonotonicNs();
  pid_t pid = 0;
  if (const int error = ::posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv, environ)) {
    return FailErrno("spawn " + program, error);
  }
  ::waitpid(pid, nullptr, 0);
  std::int64_t stamp = 0;
  std::ifstream(stamp_file) >> stamp;
  if (stamp == 0) return Fail(ErrorCode::kIo, program + " left no stamp in " + stamp_file);
  return stamp - begin;
}

Result<std::int64_t> SyncNs(int fd) {
  const std::string bytes(256, 'x');
  const std::int64_t begin = MonotonicNs();
  if (::write(fd, bytes.data(), bytes.size()) != 256 || ::fdatasync(fd) != 0) {
    return FailErrno("append and sync", errno);
  }
  return MonotonicNs() - begin;
}

BareRpc::BareRpc(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
BareRpc::BareRpc(BareRpc&&) noexcept = default;
BareRpc::~BareRpc() {
  if (parts_ != nullptr && parts_->server != nullptr) parts_->server->Shutdown();
}

Result<BareRpc> BareRpc::Make() {
  auto parts = std::make_unique<Parts>();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&parts->service);
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr) return Fail(ErrorCode::kIo, "the bare server did not start");
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  parts->stub = v1::Launch::NewStub(grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments));
  return BareRpc(std::move(parts));
}

Result<std::int64_t> BareRpc::CallNs(std::size_t bytes) {
  v1::SubmitRequest request;
  request.set_source(std::string(bytes, 'x'));
  v1::SubmitReply reply;
  grpc::ClientContext context;
  const std::int64_t begin = MonotonicNs();
  const grpc::Status status = parts_->stub->Submit(&context, request, &reply);
  if (!status.ok()) return Fail(ErrorCode::kIo, "bare call: " + status.error_message());
  return MonotonicNs() - begin;
}

}  // namespace launch::bench
