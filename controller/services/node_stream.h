// What both streams of an agent do alike: a node's certificate opens them, messages are read one
// after the other, and the first that is wrong ends them.
#pragma once

#include <grpcpp/support/server_callback.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/ids.h"
#include "common/quoted.h"
#include "controller/services/gate.h"
#include "controller/services/outbox.h"
#include "proto/convert_error.h"

namespace launch::controller {

// Owns itself from `new` to OnDone. A derived class ends its constructor with Begin: reads may be
// answered from another thread at once.
template <class In, class Out>
class NodeStream : public grpc::ServerBidiReactor<In, Out> {
 public:
  void OnReadDone(bool ok) final {
    if (!ok) {
      outbox_->Close(grpc::Status::OK);
      return;
    }
    if (outbox_->closing()) return;  // what a closed stream still sends is dropped
    if (auto taken = Take(incoming_); !taken) {
      spdlog::warn("node.refused node={} peer={} stream={} why={}", node_.value, peer_, method_,
                   Quoted(taken.error().message));
      outbox_->Close(ToStatus(taken.error()));
      return;
    }
    this->StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) final { outbox_->OnWriteDone(ok); }
  void OnCancel() final { outbox_->Close(grpc::Status::CANCELLED); }
  void OnDone() final {
    outbox_->Detach();
    Ended();
    delete this;
  }

 protected:
  // Closes the stream when the caller may not open it.
  NodeStream(const Gate& gate, grpc::CallbackServerContext* context, std::string_view method)
      : outbox_(std::make_shared<Outbox<In, Out>>(this)), peer_(context->peer()), method_(method) {
    auto admitted = gate.Admit(*context, method_);
    if (!admitted) {
      outbox_->Close(ToStatus(admitted.error()));
      return;
    }
    node_ = NodeId{admitted->identity.name};
    serial_ = admitted->serial;
  }
  ~NodeStream() override = default;

  bool admitted() const { return !node_.value.empty(); }
  void Begin() {
    if (admitted()) this->StartRead(&incoming_);
  }

  virtual Result<void> Take(In& message) = 0;  // an error is told to the peer and ends the stream
  virtual void Ended() = 0;

  const std::shared_ptr<Outbox<In, Out>>& outbox() const { return outbox_; }
  const NodeId& node() const { return node_; }
  const std::string& serial() const { return serial_; }
  const std::string& peer() const { return peer_; }

 private:
  const std::shared_ptr<Outbox<In, Out>> outbox_;
  const std::string peer_;
  const std::string method_;
  NodeId node_;  // of the certificate
  std::string serial_;
  In incoming_;
};

}  // namespace launch::controller
