// What a follower of logs is shown next: which attempt, which ranks, from where.
#include <algorithm>

#include "controller/log_follower.h"

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

// Where a follower without a choice begins: with what it was reading, else with the newest.
const AttemptView* LogRelay::Begun(const Follower& follower, const JobView& view) {
  if (!follower.seen.empty()) {
    const Attempt last = std::get<Attempt>(follower.seen.rbegin()->first);
    if (const AttemptView* attempt = FindAttempt(view, last)) return attempt;
  }
  return Newest(view);
}

void LogRelay::Advance(FollowerId id, Follower& follower) {
  if (follower.finished || !follower.view) return;
  const LogQuery& query = follower.query;
  const JobView& view = *follower.view;
  const bool job_over = IsTerminal(view.state);
  if (!follower.current) {
    const AttemptView* first =
        query.call.attempt ? FindAttempt(view, *query.call.attempt) : Begun(follower, view);
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
      const auto seen = follower.seen.find({attempt.attempt, rank->rank, stream});
      if (!source.located && seen != follower.seen.end()) {
        source.located = true;
        source.offset = seen->second;
      }
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

}  // namespace launch::controller
