#include "controller/services/sessions.h"

#include <utility>
#include <vector>

namespace launch::controller {

SessionId Sessions::Open(const NodeId& node, std::string serial,
                         std::shared_ptr<SessionLink> link) {
  const MutexLock lock(mutex_);
  const SessionId id{(epoch_ << 32) | ++counter_};
  sessions_.emplace(id, One{node, std::move(serial), std::move(link)});
  return id;
}

void Sessions::Forget(SessionId session) {
  const MutexLock lock(mutex_);
  sessions_.erase(session);
}

void Sessions::Send(SessionId session, const Fence& fence, ToNode message) {
  std::shared_ptr<SessionLink> link;
  {
    const MutexLock lock(mutex_);
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) return;  // the node will say Hello and be told again
    link = found->second.link;
  }
  link->Send(ToNodeEnvelope{fence, session.value, std::move(message)});
}

void Sessions::Close(SessionId session, const std::string& why) {
  std::shared_ptr<SessionLink> link;
  {
    const MutexLock lock(mutex_);
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) return;
    link = found->second.link;
  }
  link->Close(why);
}

void Sessions::CloseSerial(const std::string& serial, const std::string& why) {
  std::vector<std::shared_ptr<SessionLink>> links;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, one] : sessions_) {
      if (one.serial == serial) links.push_back(one.link);
    }
  }
  for (const auto& link : links) link->Close(why);
}

void Sessions::CloseAll(const std::string& why) {
  std::vector<std::shared_ptr<SessionLink>> links;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, one] : sessions_) links.push_back(one.link);
  }
  for (const auto& link : links) link->Close(why);
}

std::optional<NodeId> Sessions::NodeOf(SessionId session) {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return std::nullopt;
  return found->second.node;
}

}  // namespace launch::controller
