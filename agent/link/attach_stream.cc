#include "agent/link/attach_stream.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <variant>

#include "proto/convert_error.h"
#include "proto/convert_node.h"

namespace launch::agent {
namespace {

// Slot of what may be replaced by a newer one; empty for what may not be lost.
std::string SlotOf(const FromNode& message) {
  if (std::holds_alternative<from_node::Beat>(message)) return "beat";
  if (std::holds_alternative<from_node::Heard>(message)) return "heard";
  if (std::holds_alternative<from_node::Samples>(message)) return "samples";
  if (const auto* staging = std::get_if<from_node::Staging>(&message))
    return "staging " + ToString(staging->key);
  return {};
}

std::string OneLine(const Error& error) {
  return error.hint.empty() ? error.message : error.message + " (" + error.hint + ")";
}

}  // namespace

void AttachStream::Start(v1::Node::Stub& stub, bool announce) {
  announced_ = announce;
  stub.async()->Attach(&context_, this);
  AddHold();  // writes start outside reactions; taken back when reading ends
  // Before the call, so that its end is always told after its beginning; writes until then wait.
  if (announce) sink_(told::LinkUp{id_});
  StartRead(&incoming_);
  StartCall();
}

void AttachStream::Send(const FromNode& message) {
  const std::string slot = SlotOf(message);
  v1::FromNode wire = ToProto(FromNodeEnvelope{.session = session_.load(), .body = message});
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    full = !queue_.Push(std::move(wire), slot);
    if (!full && !writing_) WriteNext();
  }
  if (full) Cancel("the controller does not read: 8 MiB are waiting");
}

void AttachStream::WriteNext() {
  auto next = queue_.Pop();
  if (!next) return;
  outgoing_ = std::move(*next);
  writing_ = true;
  StartWrite(&outgoing_);
}

void AttachStream::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (ok && !closed_) WriteNext();
}

// A bad body costs the attempt that it is about; the same bytes would come on every new stream.
Result<ToNodeEnvelope> AttachStream::ReadIncoming() const {
  auto envelope = FromProto(incoming_);
  if (envelope) return envelope;
  auto instead = InsteadOf(incoming_, envelope.error());
  if (!instead) return envelope;
  sink_(told::NodeNotice{{.kind = "node.bad_message",
                          .key = std::nullopt,
                          .rank = std::nullopt,
                          .text = "of the controller: " + envelope.error().message}});
  return std::move(*instead);
}

void AttachStream::OnReadDone(bool ok) {
  if (ok && IsOfNewerKind(incoming_)) {
    incoming_.Clear();
    return StartRead(&incoming_);
  }
  if (ok) {
    if (auto envelope = ReadIncoming()) {
      if (std::holds_alternative<to_node::Welcome>(envelope->body)) session_ = envelope->session;
      sink_(told::FromController{id_, std::move(*envelope)});
      incoming_.Clear();
      StartRead(&incoming_);
      return;
    } else {
      Cancel("invalid message of the controller: " + envelope.error().message);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  RemoveHold();
}

void AttachStream::Cancel(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (end_) return;
    if (cancel_reason_.empty()) cancel_reason_ = why;
  }
  context_.TryCancel();
}

void AttachStream::OnDone(const grpc::Status& status) {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    if (!cancel_reason_.empty())
      why = cancel_reason_;
    else if (status.ok())
      why = "the controller ended the stream";
    else
      why = OneLine(FromStatus(status, "the controller"));
  }
  if (announced_) sink_(told::LinkDown{id_, why});
  // Whoever waits may destroy this object from here on.
  const std::lock_guard lock(mutex_);
  end_ = why;
  ended_condition_.notify_all();
}

std::optional<std::string> AttachStream::WaitEnd(Millis timeout) {
  std::unique_lock lock(mutex_);
  ended_condition_.wait_for(lock, timeout, [this] { return end_.has_value(); });
  return end_;
}

}  // namespace launch::agent
