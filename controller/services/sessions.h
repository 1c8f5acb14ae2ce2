// Live control streams by session: where the loop sends what nodes must do.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/annotated_mutex.h"
#include "common/node_messages.h"
#include "controller/core/event.h"

namespace launch::controller {

// One agent's control stream, as others may use it.
class SessionLink {
 public:
  virtual ~SessionLink() = default;
  virtual void Send(const ToNodeEnvelope& envelope) = 0;
  virtual void Close(const std::string& why) = 0;
};

// Thread-safe.
class Sessions {
 public:
  // A session's number is epoch and a counter, so it grows over restarts of the controller too.
  explicit Sessions(std::uint64_t epoch) : epoch_(epoch) {}

  SessionId Open(const NodeId& node, std::string serial, std::shared_ptr<SessionLink> link)
      LAUNCH_EXCLUDES(mutex_);
  void Forget(SessionId session) LAUNCH_EXCLUDES(mutex_);

  void Send(SessionId session, const Fence& fence, ToNode message) LAUNCH_EXCLUDES(mutex_);
  void Close(SessionId session, const std::string& why) LAUNCH_EXCLUDES(mutex_);
  // Ends every stream that was opened with this certificate.
  void CloseSerial(const std::string& serial, const std::string& why) LAUNCH_EXCLUDES(mutex_);
  void CloseAll(const std::string& why) LAUNCH_EXCLUDES(mutex_);
  // The node of a live session.
  std::optional<NodeId> NodeOf(SessionId session) LAUNCH_EXCLUDES(mutex_);

 private:
  struct One {
    NodeId node;
    std::string serial;
    std::shared_ptr<SessionLink> link;
  };
  const std::uint64_t epoch_;
  Mutex mutex_;
  std::uint64_t counter_ LAUNCH_GUARDED_BY(mutex_) = 0;
  std::map<SessionId, One> sessions_ LAUNCH_GUARDED_BY(mutex_);
};

}  // namespace launch::controller
