#include "controller/services/log_stream.h"

#include <utility>

#include "proto/convert_error.h"
#include "proto/convert_user.h"

namespace launch::controller {
namespace {

class LogStream final : public PullStream<pb::LogsReply> {
 public:
  LogStream(LogRelay& relay, LogQuery query) : relay_(relay) {
    follower_ = relay_.Open(std::move(query), [handle = handle()] { handle->Wake(); });
  }

 private:
  Next Pull() override {
    LogPull pulled = relay_.Pull(follower_);
    if (auto* piece = std::get_if<LogPiece>(&pulled)) return ToProto(*piece);
    if (auto* finished = std::get_if<LogFinished>(&pulled)) {
      return finished->status ? grpc::Status::OK : ToStatus(finished->status.error());
    }
    return NothingYet{};
  }
  void Ended() override { relay_.Close(follower_); }

  LogRelay& relay_;
  LogRelay::FollowerId follower_;
};

}  // namespace

grpc::ServerWriteReactor<pb::LogsReply>* MakeLogStream(LogRelay& relay, LogQuery query) {
  auto* stream = new LogStream(relay, std::move(query));
  const auto handle = stream->handle();
  handle->Start();
  return stream;
}

}  // namespace launch::controller
