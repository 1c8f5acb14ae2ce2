// What the relay remembers of a follower and of each stream it shows; for log_relay.cc and
// log_advance.cc only, always under the relay's lock.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "controller/log_relay.h"

namespace launch::controller {

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
  // What the caller has of earlier streams of its own: offsets of the next bytes.
  std::map<std::tuple<Attempt, Rank, std::string>, std::uint64_t> seen;
  std::map<std::pair<Rank, std::string>, Source> sources;

  bool HasItems() const {
    return std::any_of(sources.begin(), sources.end(),
                       [](const auto& entry) { return !entry.second.items.empty(); });
  }
  void Finish(Result<void> with) {
    finished = true;
    status = std::move(with);
  }
  // What was not taken yet is nobody's any more.
  void Drop() {
    for (auto& [name, source] : sources) source.items.clear();
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

}  // namespace launch::controller
