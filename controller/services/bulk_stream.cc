#include "controller/services/bulk_stream.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <string>
#include <utility>

#include "controller/services/node_stream.h"
#include "proto/convert_value.h"

namespace launch::controller {
namespace {

using BulkOutbox = Outbox<pb::BulkUp, pb::BulkDown>;

class WireBulkLink final : public BulkLink {
 public:
  explicit WireBulkLink(std::shared_ptr<BulkOutbox> outbox) : outbox_(std::move(outbox)) {}

  void Read(const LogRead& read) override {
    pb::BulkDown message;
    auto& m = *message.mutable_read();
    m.set_read(read.read);
    *m.mutable_key() = ToProto(read.key);
    m.set_rank(read.rank);
    m.set_stream(read.stream);
    if (read.from) m.set_from(*read.from);
    if (read.last_lines) m.set_last_lines(*read.last_lines);
    m.set_follow(read.follow);
    m.set_credit(read.credit);
    outbox_->Push(std::move(message));
  }
  void Credit(std::uint64_t read, std::uint64_t bytes) override {
    pb::BulkDown message;
    message.mutable_credit()->set_read(read);
    message.mutable_credit()->set_bytes(bytes);
    outbox_->Push(std::move(message));
  }
  void Close(std::uint64_t read) override {
    pb::BulkDown message;
    message.mutable_close()->set_read(read);
    outbox_->Push(std::move(message));
  }
  void Drop(const std::string& why) override {
    outbox_->Close(grpc::Status(grpc::StatusCode::ABORTED, why));
  }

 private:
  const std::shared_ptr<BulkOutbox> outbox_;
};

class BulkStream final : public NodeStream<pb::BulkUp, pb::BulkDown> {
 public:
  BulkStream(const NodeServiceParts& parts, grpc::CallbackServerContext* context)
      : NodeStream(parts.gate, context, "/launch.v1.Node/Bulk"), parts_(parts) {
    Begin();
  }

 private:
  void Ended() override {
    if (link_) parts_.relay.NodeDown(*link_);
  }

  Result<void> Take(pb::BulkUp& message) override {
    if (message.has_open()) return Open(SessionId{message.open().session()});
    if (!link_) return Fail(ErrorCode::kInvalidArgument, "the first message must be Open");
    if (message.has_chunk()) {
      auto& chunk = *message.mutable_chunk();
      parts_.relay.OnChunk(*link_, chunk.read(), chunk.offset(), std::move(*chunk.mutable_data()),
                           WallMs(chunk.wall_ms()));
    } else if (message.has_gap()) {
      const auto& gap = message.gap();
      parts_.relay.OnGap(*link_, gap.read(), gap.from(), gap.to(), gap.why());
    } else if (message.has_end()) {
      const auto& end = message.end();
      parts_.relay.OnEnd(*link_, end.read(), end.offset(), end.complete(), end.error());
    } else {
      return Fail(ErrorCode::kInvalidArgument, "a bulk message without a body");
    }
    return {};
  }

  Result<void> Open(SessionId session) {
    if (link_) return Fail(ErrorCode::kInvalidArgument, "a second Open on one stream");
    if (parts_.sessions.NodeOf(session) != node()) {
      return Fail(
          ErrorCode::kFailedPrecondition,
          "session " + std::to_string(session.value) + " is not a live one of node " + node().value,
          "open the bulk stream with the session of the newest Welcome");
    }
    link_ = parts_.relay.NodeUp(node(), session, std::make_shared<WireBulkLink>(outbox()));
    return {};
  }

  const NodeServiceParts parts_;
  std::optional<LogRelay::LinkId> link_;
};

}  // namespace

grpc::ServerBidiReactor<pb::BulkUp, pb::BulkDown>* MakeBulkStream(
    const NodeServiceParts& parts, grpc::CallbackServerContext* context) {
  return new BulkStream(parts, context);
}

}  // namespace launch::controller
