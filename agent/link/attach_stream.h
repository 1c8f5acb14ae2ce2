// The control stream of one connection: a gRPC reactor that posts what it reads as Told events.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "agent/link/write_queue.h"
#include "agent/runner/rank_runner.h"
#include "proto/node.grpc.pb.h"

namespace launch::agent {

// For one use. Callbacks come from gRPC's threads; every method may be called from any thread.
// After Start it must live until WaitEnd gave the end, and must not die on a thread of gRPC: with
// it goes the last channel, and gRPC 1.51 then waits for the very thread it is on.
class AttachStream final : public grpc::ClientBidiReactor<v1::FromNode, v1::ToNode> {
 public:
  AttachStream(std::uint64_t id, ToldSink sink) : id_(id), sink_(std::move(sink)) {}

  // `announce`: the connection stands, so the core may say Hello. Without it the call only finds
  // out why the connection does not stand.
  void Start(v1::Node::Stub& stub, bool announce);
  // Dropped when the stream has ended; closes the stream when the peer does not read.
  void Send(const FromNode& message);
  void Cancel(const std::string& why);
  // Returns the reason of the end, or absent after `timeout`.
  std::optional<std::string> WaitEnd(Millis timeout);
  std::uint64_t session() const { return session_.load(); }

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  Result<ToNodeEnvelope> ReadIncoming() const;
  void WriteNext();  // with mutex_ held

  const std::uint64_t id_;
  const ToldSink sink_;
  grpc::ClientContext context_;
  v1::ToNode incoming_;  // of the read in progress
  std::atomic<std::uint64_t> session_{0};
  std::atomic<bool> announced_{false};

  std::mutex mutex_;
  std::condition_variable ended_condition_;
  WriteQueue<v1::FromNode> queue_{8 * 1024 * 1024};  // guarded by mutex_
  v1::FromNode outgoing_;                            // guarded by mutex_; untouched while writing_
  bool writing_ = false;                             // guarded by mutex_
  bool closed_ = false;             // guarded by mutex_; no write may start any more
  std::string cancel_reason_;       // guarded by mutex_
  std::optional<std::string> end_;  // guarded by mutex_
};

}  // namespace launch::agent
