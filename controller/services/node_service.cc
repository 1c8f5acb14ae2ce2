#include "controller/services/node_service.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "controller/services/bulk_stream.h"
#include "controller/services/chunk_calls.h"
#include "controller/services/exec_stream.h"
#include "controller/services/node_stream.h"
#include "controller/services/pull_stream.h"
#include "proto/convert_node.h"
#include "proto/node.grpc.pb.h"

namespace launch::controller {
namespace {

constexpr Millis kHelloWithin{10'000};

using ControlOutbox = Outbox<pb::FromNode, pb::ToNode>;

// What the loop and the clean-up see of a control stream.
class ControlLink final : public SessionLink {
 public:
  ControlLink(std::shared_ptr<ControlOutbox> outbox, std::uint32_t protocol)
      : outbox_(std::move(outbox)), protocol_(protocol) {}

  void Send(const ToNodeEnvelope& envelope) override {
    pb::ToNode message = ToProto(envelope);
    if (message.has_welcome()) message.mutable_welcome()->set_protocol(protocol_);
    outbox_->Push(std::move(message));
  }
  void Close(const std::string& why) override {
    outbox_->Close(grpc::Status(grpc::StatusCode::ABORTED, why));
  }

 private:
  const std::shared_ptr<ControlOutbox> outbox_;
  const std::uint32_t protocol_;  // of this stream
};

class ControlStream final : public NodeStream<pb::FromNode, pb::ToNode> {
 public:
  ControlStream(const NodeServiceParts& parts, grpc::CallbackServerContext* context)
      : NodeStream(parts.gate, context, "/launch.v1.Node/Attach"), parts_(parts) {
    if (!admitted()) return;
    parts_.executor.After(kHelloWithin, [greeted = greeted_, outbox = std::weak_ptr(outbox())] {
      const auto held = outbox.lock();
      if (held && !*greeted) {
        held->Close(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "no Hello in time"));
      }
    });
    Begin();
  }

 private:
  void Ended() override {
    if (!session_) return;
    parts_.sessions.Forget(*session_);
    parts_.relay.SessionOver(*session_);
    parts_.execs.SessionOver(*session_);
    spdlog::info("node.detached node={} session={}", node().value, session_->value);
    parts_.mailbox.PushAlways(
        event::NodeDetached{*session_, node(), "its connection to the controller ended"});
  }

  Result<void> Take(pb::FromNode& message) override {
    if (IsOfNewerKind(message)) return {};
    if (message.has_hello()) {
      LAUNCH_ASSIGN_OR_RETURN(protocol_, CommonProtocol({message.hello().protocol_min(),
                                                         message.hello().protocol_max()},
                                                        kNodeProtocols));
    }
    auto read = FromProto(message);
    if (!read) {
      // What is wrong about one attempt costs that attempt; cut off, the node would say it again.
      auto instead = session_ ? InsteadOf(message, read.error()) : std::nullopt;
      if (!instead) return Unexpected(std::move(read).error());
      spdlog::warn("node.bad_message node={} session={} why={}", node().value, session_->value,
                   Quoted(read.error().message));
      read = std::move(*instead);
    }
    FromNodeEnvelope envelope = std::move(*read);
    if (auto* hello = std::get_if<from_node::Hello>(&envelope.body)) {
      return Greet(std::move(*hello));
    }
    if (!session_) return Fail(ErrorCode::kInvalidArgument, "the first message must be Hello");
    if (envelope.session != 0 && envelope.session != session_->value) return {};  // of an older one
    if (const auto* beat = std::get_if<from_node::Beat>(&envelope.body)) {
      Answer(*beat);
      return {};
    }
    if (const auto* heard = std::get_if<from_node::Heard>(&envelope.body)) {
      (void)parts_.mailbox.Push(event::NodeHeard{*session_, node(), heard->n});
      return {};
    }
    if (const auto* changed = std::get_if<from_node::InventoryChanged>(&envelope.body)) {
      LAUNCH_RETURN_IF_ERROR(SpeaksForItself(changed->inventory.node));
    }
    const bool telemetry = std::holds_alternative<from_node::Samples>(envelope.body) ||
                           std::holds_alternative<from_node::Staging>(envelope.body);
    const bool taken =
        parts_.mailbox.Push(event::NodeSaid{*session_, node(), std::move(envelope.body)});
    if (!taken && !telemetry) {
      // Nothing is lost: after the next Hello the agent sends again what is not acknowledged.
      return Fail(ErrorCode::kResourceExhausted, "the controller's queue is full", "connect again");
    }
    return {};
  }

  Result<void> Greet(from_node::Hello hello) {
    if (session_) return Fail(ErrorCode::kInvalidArgument, "a second Hello on one stream");
    LAUNCH_RETURN_IF_ERROR(SpeaksForItself(hello.inventory.node));
    *greeted_ = true;
    session_ =
        parts_.sessions.Open(node(), serial(), std::make_shared<ControlLink>(outbox(), protocol_));
    // A certificate that was revoked since the stream opened: either it is denied by now, or the
    // one who denies it finds the session.
    if (const auto why = parts_.directory.WhyDenied(serial())) {
      return Fail(ErrorCode::kPermissionDenied, "the certificate was revoked: " + *why,
                  "join again with a new token");
    }
    spdlog::info("node.attached node={} session={} version={} peer={} boot={}", node().value,
                 session_->value, Quoted(hello.version), peer(), hello.boot_id);
    const std::uint64_t revision = parts_.directory.Position().revision;
    if (!parts_.mailbox.Push(
            event::NodeAttached{*session_, node(), std::move(hello), serial(), revision})) {
      return Fail(ErrorCode::kResourceExhausted, "the controller's queue is full", "connect again");
    }
    return {};
  }

  void Answer(const from_node::Beat& beat) {
    // First: what the core does not hear of may not make a node's lease longer.
    if (!parts_.mailbox.Push(event::NodeBeat{*session_, node(), beat.pong_age_ms, beat.n})) {
      return;
    }
    const StorePosition at = parts_.directory.Position();
    outbox()->Push(
        ToProto(ToNodeEnvelope{Fence{at.incarnation, at.epoch, at.revision}, session_->value,
                               to_node::Pong{.n = beat.n, .wants_heard = true}}),
        true);
  }

  Result<void> SpeaksForItself(const NodeId& claimed) const {
    if (claimed == node()) return {};
    return Fail(ErrorCode::kPermissionDenied,
                "the certificate is that of node " + node().value + "; the message speaks for " +
                    claimed.value,
                "a node's name is fixed when it joins");
  }

  const NodeServiceParts parts_;
  const std::shared_ptr<std::atomic<bool>> greeted_ = std::make_shared<std::atomic<bool>>(false);
  std::optional<SessionId> session_;
  std::uint32_t protocol_ = kNodeProtocols.max;
};

class NodeService final : public pb::Node::CallbackService {
 public:
  explicit NodeService(const NodeServiceParts& parts) : parts_(parts) {}

  grpc::ServerBidiReactor<pb::FromNode, pb::ToNode>* Attach(
      grpc::CallbackServerContext* context) override {
    return new ControlStream(parts_, context);
  }
  grpc::ServerBidiReactor<pb::BulkUp, pb::BulkDown>* Bulk(
      grpc::CallbackServerContext* context) override {
    return MakeBulkStream(parts_, context);
  }
  ExecNodeReactor* Exec(grpc::CallbackServerContext* context) override {
    return MakeExecNodeStream(parts_, context);
  }
  grpc::ServerWriteReactor<pb::FetchChunksReply>* FetchChunks(
      grpc::CallbackServerContext* context, const pb::FetchChunksRequest* request) override {
    const auto who = parts_.gate.Admit(*context, "/launch.v1.Node/FetchChunks");
    if (!who) return new RefusedStream<pb::FetchChunksReply>(ToStatus(who.error()));
    const NodeId node{who->identity.name};
    return MakeFetchStream(parts_.chunks, parts_.directory.OwnerFor(node, JobId{request->job()}),
                           *request);
  }

 private:
  const NodeServiceParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeNodeService(const NodeServiceParts& parts) {
  return std::make_unique<NodeService>(parts);
}

}  // namespace launch::controller
