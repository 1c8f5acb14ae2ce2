#include "controller/log_relay.h"

#include <algorithm>
#include <tuple>

#include "common/planted.h"
#include "controller/access.h"
#include "controller/log_follower.h"

namespace launch::controller {
namespace {

constexpr std::size_t kJoinedBytes = 64 << 10;
constexpr std::size_t kPiecesMax = 10'000;

}  // namespace

LogRelay::LogRelay(FetchJob fetch, Later later)
    : LogRelay(std::move(fetch), std::move(later), Limits{}) {}
LogRelay::LogRelay(FetchJob fetch, Later later, Limits limits)
    : fetch_(std::move(fetch)), later_(std::move(later)), limits_(limits) {}
LogRelay::~LogRelay() = default;

LogRelay::FollowerId LogRelay::Open(LogQuery query, std::function<void()> wake) {
  After after;
  FollowerId id;
  {
    const MutexLock lock(mutex_);
    id = FollowerId{++last_id_};
    std::size_t of_user = 0;
    Follower* oldest = nullptr;
    for (auto& [other, follower] : followers_) {
      if (follower->query.caller.user != query.caller.user || follower->finished) continue;
      ++of_user;
      if (oldest == nullptr) oldest = follower.get();
    }
    if (of_user >= limits_.followers_per_user) {
      CloseReads(*oldest);
      oldest->Finish(Fail(ErrorCode::kResourceExhausted,
                          "closed for a newer one: " + std::to_string(limits_.followers_per_user) +
                              " log streams are open",
                          "end some `launch logs` of yours"));
      Wake(*oldest, after);
    }
    auto follower = std::make_unique<Follower>();
    follower->query = std::move(query);
    for (const LogPosition& at : follower->query.call.seen)
      follower->seen[{at.attempt, at.rank, at.stream}] = at.offset;
    follower->wake = std::move(wake);
    Refresh(id, *follower, after);
    followers_.emplace(id, std::move(follower));
  }
  for (const auto& run : after) run();
  return id;
}

LogPull LogRelay::Pull(FollowerId id) {
  const MutexLock lock(mutex_);
  const auto found = followers_.find(id);
  if (found == followers_.end()) return LogFinished{};
  Follower& follower = *found->second;
  if (!follower.finished && !follower.HasItems()) Advance(id, follower);
  Source* source = follower.Pick();
  if (source == nullptr) {
    if (follower.finished) return LogFinished{follower.status};
    follower.waiting = true;
    return LogWait{};
  }
  LogPiece item = std::move(source->items.front().item);
  source->items.pop_front();
  if (const auto* chunk = std::get_if<LogChunk>(&item); chunk != nullptr && source->read != 0) {
    source->credit += chunk->data.size();
    if (BulkLink* link = LinkOf(*source)) link->Credit(source->read, chunk->data.size());
  }
  return item;
}

void LogRelay::Close(FollowerId id) {
  const MutexLock lock(mutex_);
  const auto found = followers_.find(id);
  if (found == followers_.end()) return;
  CloseReads(*found->second);
  followers_.erase(found);
}

void LogRelay::CloseUser(const UserName& user, const Error& why) {
  After after;
  {
    const MutexLock lock(mutex_);
    for (auto& [id, follower] : followers_) {
      if (follower->query.caller.user != user) continue;
      CloseReads(*follower);
      follower->Finish(Unexpected(why));
      follower->Drop();
      Wake(*follower, after);
    }
  }
  for (const auto& run : after) run();
}

void LogRelay::JobChanged(JobId job) {
  After after;
  {
    const MutexLock lock(mutex_);
    for (auto& [id, follower] : followers_) {
      if (follower->query.call.job != job || !follower->query.call.follow || follower->finished)
        continue;
      Refresh(id, *follower, after);
    }
  }
  for (const auto& run : after) run();
}

LogRelay::LinkId LogRelay::NodeUp(const NodeId& node, SessionId session,
                                  std::shared_ptr<BulkLink> link) {
  After after;
  LinkId id;
  {
    const MutexLock lock(mutex_);
    if (const auto old = nodes_.find(node); old != nodes_.end()) {
      old->second.link->Drop("a newer bulk stream of this node");
      Unlink(old->second.id);
    }
    id = LinkId{++last_id_};
    nodes_[node] = Node{id, session, std::move(link)};
    AdvanceAll(after);
  }
  for (const auto& run : after) run();
  return id;
}

void LogRelay::NodeDown(LinkId link) {
  After after;
  {
    const MutexLock lock(mutex_);
    Unlink(link);
    AdvanceAll(after);
  }
  for (const auto& run : after) run();
}

void LogRelay::SessionOver(SessionId session) {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
      return entry.second.session == session;
    });
    if (found == nodes_.end()) return;
    found->second.link->Drop("its control stream ended");
    Unlink(found->second.id);
    AdvanceAll(after);
  }
  for (const auto& run : after) run();
}

void LogRelay::OnChunk(LinkId link, std::uint64_t read, std::uint64_t offset, std::string data,
                       WallTime wall) {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto [follower, source] = Find(link, read);
    if (source == nullptr || data.empty()) return;  // closed meanwhile
    if (data.size() > source->credit && !Planted(Bug::kUnboundedFollower)) {
      LinkOf(*source)->Drop("more log bytes than it had credit for");
      return;
    }
    source->credit -= data.size();
    source->wall = std::max(source->wall, wall);
    const std::uint64_t end = offset + data.size();
    if (source->located && offset > source->offset) {
      Put(*source, LogGap{source->attempt, source->rank, source->offset, offset, "lost"});
    } else if (source->located && offset < source->offset) {
      // After a new connection the agent may send again what we have.
      const std::uint64_t known = std::min<std::uint64_t>(source->offset - offset, data.size());
      data.erase(0, known);
      offset += known;
      source->credit += known;
      LinkOf(*source)->Credit(read, known);
    }
    source->located = true;
    source->offset = std::max(source->offset, end);
    if (!data.empty()) {
      LogChunk chunk{source->attempt, source->rank,    source->node, source->stream,
                     offset,          std::move(data), wall};
      if (!Joined(*follower, *source, chunk)) Put(*source, std::move(chunk));
    }
    Wake(*follower, after);
  }
  for (const auto& run : after) run();
}

void LogRelay::OnGap(LinkId link, std::uint64_t read, std::uint64_t from, std::uint64_t to,
                     std::string why) {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto [follower, source] = Find(link, read);
    if (source == nullptr) return;
    if (source->items.size() >= kPiecesMax) {  // gaps cost no credit
      LinkOf(*source)->Drop("more log gaps than a reader takes");
      return;
    }
    source->located = true;
    source->offset = std::max(source->offset, to);
    Put(*source, LogGap{source->attempt, source->rank, from, to, std::move(why)});
    Wake(*follower, after);
  }
  for (const auto& run : after) run();
}

void LogRelay::OnEnd(LinkId link, std::uint64_t read, std::uint64_t offset, bool complete,
                     std::string error) {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto [follower, source] = Find(link, read);
    if (source == nullptr) return;
    const FollowerId id = reads_.at(read).first;
    reads_.erase(read);
    source->read = 0;
    source->offset = std::max(source->offset, offset);
    EndSource(*follower, *source, complete, std::move(error));
    Advance(id, *follower);
    Wake(*follower, after);
  }
  for (const auto& run : after) run();
}

void LogRelay::Refresh(FollowerId id, Follower& follower, After& after) {
  if (follower.fetching) {
    follower.dirty = true;
    return;
  }
  follower.fetching = true;
  follower.dirty = false;
  after.push_back([this, id, caller = follower.query.caller, job = follower.query.call.job] {
    fetch_(caller, job, [this, id](Result<JobView> view) { OnView(id, std::move(view)); });
  });
}

void LogRelay::OnView(FollowerId id, Result<JobView> view) {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto found = followers_.find(id);
    if (found == followers_.end() || found->second->finished) return;
    Follower& follower = *found->second;
    follower.fetching = false;
    const LogQuery& query = follower.query;
    if (view && !MaySeeInFull(query.caller, UserName{view->user})) {
      view = Unexpected(NotYourJob(query.caller, query.call.job));
    }
    if (!view) {
      CloseReads(follower);
      follower.Finish(Unexpected(std::move(view).error()));
    } else {
      follower.view = std::move(*view);
      Advance(id, follower);
      if (follower.dirty) Refresh(id, follower, after);
    }
    Wake(follower, after);
  }
  for (const auto& run : after) run();
}

void LogRelay::Unlink(LinkId link) {
  std::erase_if(nodes_, [&](const auto& entry) { return entry.second.id == link; });
  for (auto it = reads_.begin(); it != reads_.end();) {
    Source& source = *it->second.second;
    if (source.link != link) {
      ++it;
      continue;
    }
    source.read = 0;
    source.credit = 0;
    it = reads_.erase(it);
  }
}

void LogRelay::CloseReads(Follower& follower) {
  for (auto& [name, source] : follower.sources) {
    if (source.read == 0) continue;
    if (BulkLink* link = LinkOf(source)) link->Close(source.read);
    reads_.erase(source.read);
    source.read = 0;
  }
}

void LogRelay::AdvanceAll(After& after) {
  for (auto& [id, follower] : followers_) {
    Advance(id, *follower);
    Wake(*follower, after);
  }
}

void LogRelay::Put(Source& source, LogPiece item) {
  source.items.push_back({++last_id_, source.wall, std::move(item)});
}

// A follower that stopped reading must not cost an item for every line that is printed meanwhile.
bool LogRelay::Joined(const Follower& follower, Source& source, const LogChunk& chunk) {
  if (!follower.query.call.follow || source.items.empty()) return false;
  auto& last = source.items.back();
  auto* before = std::get_if<LogChunk>(&last.item);
  if (before == nullptr || before->offset + before->data.size() != chunk.offset ||
      before->data.size() + chunk.data.size() > kJoinedBytes) {
    return false;
  }
  before->data += chunk.data;
  before->wall = last.wall = source.wall;
  return true;
}

void LogRelay::Wake(Follower& follower, After& after) {
  if (!follower.waiting) return;
  if (!follower.finished && follower.Pick() == nullptr) return;
  follower.waiting = false;
  after.push_back(follower.wake);
}

std::pair<LogRelay::Follower*, LogRelay::Source*> LogRelay::Find(LinkId link, std::uint64_t read) {
  const auto found = reads_.find(read);
  if (found == reads_.end() || found->second.second->link != link) return {nullptr, nullptr};
  return {followers_.at(found->second.first).get(), found->second.second};
}

BulkLink* LogRelay::LinkOf(const Source& source) {
  const auto node = nodes_.find(source.node);
  return node != nodes_.end() && node->second.id == source.link ? node->second.link.get() : nullptr;
}

}  // namespace launch::controller
