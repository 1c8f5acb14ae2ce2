#include "controller/log_relay.h"

#include <algorithm>

#include "controller/access.h"

namespace launch::controller {
namespace {

constexpr char kSilent[] = "node silent";

template <class T>
bool Wanted(const std::vector<T>& chosen, const T& one) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), one) != chosen.end();
}

const AttemptView* FindAttempt(const JobView& view, Attempt attempt) {
  for (const AttemptView& one : view.attempts) {
    if (one.attempt == attempt) return &one;
  }
  return nullptr;
}

// The attempt to show first: the newest, for earlier ones are history.
const AttemptView* Newest(const JobView& view) {
  const AttemptView* newest = nullptr;
  for (const AttemptView& one : view.attempts) {
    if (newest == nullptr || newest->attempt < one.attempt) newest = &one;
  }
  return newest;
}

// The first attempt after `attempt`, so that a follower misses none.
const AttemptView* NextAttempt(const JobView& view, Attempt attempt) {
  const AttemptView* next = nullptr;
  for (const AttemptView& one : view.attempts) {
    if (attempt < one.attempt && (next == nullptr || one.attempt < next->attempt)) next = &one;
  }
  return next;
}

}  // namespace

// One stream of one rank of the attempt that is shown.
struct LogRelay::Source {
  Attempt attempt;
  Rank rank = 0;
  NodeId node;
  std::string stream;
  std::uint64_t read = 0;  // number on the wire; 0 = nothing asked for
  LinkId link;
  bool located = false;      // `offset` is known
  std::uint64_t offset = 0;  // of the next byte
  std::uint64_t credit = 0;  // bytes the agent may still send
  bool ended = false;
  std::uint64_t wait = 0;  // number of the wait for its node; 0 = none
  bool silent = false;     // that wait was in vain
  bool said_silent = false;
  WallTime wall{};  // of the newest item
  struct Waiting {
    std::uint64_t order = 0;  // of arrival
    WallTime wall{};
    LogPiece item;
  };
  std::deque<Waiting> items;
};

struct LogRelay::Follower {
  LogQuery query;
  std::function<void()> wake;
  bool waiting = false;  // Pull said LogWait
  bool fetching = false;
  bool dirty = false;  // changed while fetching
  bool finished = false;
  Result<void> status;
  std::optional<JobView> view;
  std::optional<Attempt> current;
  std::map<std::pair<Rank, std::string>, Source> sources;

  bool HasItems() const {
    return std::any_of(sources.begin(), sources.end(),
                       [](const auto& entry) { return !entry.second.items.empty(); });
  }
  void Finish(Result<void> with) {
    finished = true;
    status = std::move(with);
  }
  // Whose item is next. Following: in order of arrival. Otherwise ranks are merged by time, which
  // needs the head of every rank that still sends.
  Source* Pick() {
    Source* best = nullptr;
    for (auto& [name, source] : sources) {
      if (source.items.empty()) {
        const bool more = !source.ended && (source.read != 0 || source.wait != 0);
        if (!query.call.follow && more) return nullptr;
        continue;
      }
      const auto& head = source.items.front();
      if (best == nullptr) {
        best = &source;
        continue;
      }
      const auto& other = best->items.front();
      const bool earlier =
          query.call.follow ? head.order < other.order
                            : std::tie(head.wall, head.order) < std::tie(other.wall, other.order);
      if (earlier) best = &source;
    }
    return best;
  }
};

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
    if (data.size() > source->credit) {
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
      Put(*source, LogChunk{source->attempt, source->rank, source->node, source->stream, offset,
                            std::move(data), wall});
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

void LogRelay::Advance(FollowerId id, Follower& follower) {
  if (follower.finished || !follower.view) return;
  const LogQuery& query = follower.query;
  const JobView& view = *follower.view;
  const bool job_over = IsTerminal(view.state);
  if (!follower.current) {
    const AttemptView* first =
        query.call.attempt ? FindAttempt(view, *query.call.attempt) : Newest(view);
    if (first == nullptr) {
      if (query.call.attempt) {
        follower.Finish(Fail(ErrorCode::kNotFound, "job " + std::to_string(query.call.job.value) +
                                                       " has no attempt " +
                                                       std::to_string(query.call.attempt->value)));
      } else if (job_over || !query.call.follow) {
        follower.Finish({});
      }
      return;
    }
    follower.current = first->attempt;
  }
  for (;;) {
    const AttemptView* attempt = FindAttempt(view, *follower.current);
    if (attempt == nullptr) return follower.Finish({});
    // What is still waiting goes out first: the next attempt comes after the End of this one.
    if (!ReadsOver(id, follower, *attempt) || follower.HasItems()) return;
    if (!query.call.follow || query.call.attempt) {
      const bool live = query.call.follow && attempt->phase != "ended" && !job_over;
      if (!live) follower.Finish({});
      return;
    }
    const AttemptView* next = NextAttempt(view, attempt->attempt);
    if (next == nullptr) {
      if (job_over) follower.Finish({});
      return;
    }
    follower.current = next->attempt;
    follower.sources.clear();
  }
}

// Asks for what can be asked for; true when nothing more will come of this attempt.
bool LogRelay::ReadsOver(FollowerId id, Follower& follower, const AttemptView& attempt) {
  const LogQuery& query = follower.query;
  const JobView& view = *follower.view;
  const bool over = attempt.phase == "ended" || IsTerminal(view.state) ||
                    NextAttempt(view, attempt.attempt) != nullptr;
  std::vector<const RankView*> ranks;
  for (const RankView& rank : attempt.ranks) {
    if (Wanted(query.call.ranks, rank.rank) && Wanted(query.call.nodes, rank.node))
      ranks.push_back(&rank);
  }
  std::vector<std::string> streams = {"out"};
  if (view.spec && view.spec->logs.split) streams.push_back("err");
  const std::uint64_t credit = std::max<std::uint64_t>(
      limits_.read_bytes_min,
      limits_.follower_bytes / std::max<std::uint64_t>(1, ranks.size() * streams.size()));
  bool all_over = true;
  for (const RankView* rank : ranks) {
    for (const std::string& stream : streams) {
      Source& source = follower.sources[{rank->rank, stream}];
      source.attempt = attempt.attempt;
      source.rank = rank->rank;
      source.node = rank->node;
      source.stream = stream;
      if (source.ended) continue;
      if (source.read != 0) {
        all_over = false;
        continue;
      }
      const bool started = rank->pid != 0 || rank->exit.has_value() || rank->state != "waiting";
      if (!started) {
        if (!over && query.call.follow) all_over = false;
        continue;
      }
      const auto node = nodes_.find(rank->node);
      if (node != nodes_.end()) {
        source.read = ++last_id_;
        source.link = node->second.id;
        source.credit = credit;
        for (const auto& waiting : source.items) {  // of an earlier connection, not yet delivered
          if (const auto* chunk = std::get_if<LogChunk>(&waiting.item)) {
            source.credit -= std::min<std::uint64_t>(source.credit, chunk->data.size());
          }
        }
        source.wait = 0;
        source.silent = source.said_silent = false;
        reads_[source.read] = {id, &source};
        LogRead read{source.read, Key{query.call.job, attempt.attempt}, rank->rank,   stream, {},
                     {},          query.call.follow && !over,           source.credit};
        if (source.located) {
          read.from = source.offset;
        } else if (query.call.last_lines) {
          read.last_lines = query.call.last_lines;
        } else {
          read.from = 0;
        }
        node->second.link->Read(read);
        all_over = false;
        continue;
      }
      if (!source.silent) {
        if (source.wait == 0) Await(id, source);
        all_over = false;
        continue;
      }
      if (!source.said_silent) {
        source.said_silent = true;
        Put(source, LogGap{source.attempt, source.rank, source.offset, source.offset, kSilent});
      }
      if (query.call.follow && !over) {
        all_over = false;
      } else {
        EndSource(follower, source, false, kSilent);
      }
    }
  }
  return all_over;
}

void LogRelay::Await(FollowerId id, Source& source) {
  source.wait = ++last_id_;
  later_(limits_.silence, [this, id, wait = source.wait] { OnAwaited(id, wait); });
}

void LogRelay::OnAwaited(FollowerId id, std::uint64_t wait) {
  After after;
  {
    const MutexLock lock(mutex_);
    const auto found = followers_.find(id);
    if (found == followers_.end()) return;
    for (auto& [name, source] : found->second->sources) {
      if (source.wait == wait) source.silent = true;
    }
    Advance(id, *found->second);
    Wake(*found->second, after);
  }
  for (const auto& run : after) run();
}

// One End a rank, when all its streams have ended; its offset is that of "out".
void LogRelay::EndSource(Follower& follower, Source& source, bool complete, std::string error) {
  source.ended = true;
  for (const auto& [name, other] : follower.sources) {
    if (name.first == source.rank && !other.ended) return;
  }
  const std::uint64_t offset = follower.sources.at({source.rank, "out"}).offset;
  Put(source, LogEnd{source.attempt, source.rank, offset, complete, std::move(error)});
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
