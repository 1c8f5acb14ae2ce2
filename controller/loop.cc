#include "controller/loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "common/planted.h"
#include "common/quoted.h"

namespace launch::controller {
namespace {

std::optional<SessionId> SessionOf(const Event& event) {
  if (const auto* e = std::get_if<event::NodeAttached>(&event)) return e->session;
  if (const auto* e = std::get_if<event::NodeSaid>(&event)) {
    // The next ones come by themselves.
    if (std::holds_alternative<from_node::Samples>(e->message)) return std::nullopt;
    return e->session;
  }
  return std::nullopt;
}

std::optional<JobId> JobOf(const Entity& entity) {
  if (const auto* job = std::get_if<JobRecord>(&entity)) return job->id;
  if (const auto* attempt = std::get_if<AttemptRecord>(&entity)) return attempt->key.job;
  if (const auto* alloc = std::get_if<AllocRecord>(&entity)) return alloc->key.job;
  if (const auto* rank = std::get_if<RankRecord>(&entity)) return rank->key.job;
  return std::nullopt;
}

}  // namespace

Decision CoreBrain::Decide(const Event& event, const Now& now) {
  return controller::Decide(state_, event, now);
}
void CoreBrain::Undo(const Decision& decision) { controller::Undo(state_, decision); }
std::optional<BootTime> CoreBrain::NextDeadline() { return controller::NextDeadline(state_); }

Loop::Loop(Parts parts, Revision revision, Fence fence) : Loop(parts, revision, fence, Limits{}) {}

Loop::Loop(Parts parts, Revision revision, Fence fence, Limits limits)
    : brain_(parts.brain),
      store_(parts.store),
      mailbox_(parts.mailbox),
      outside_(parts.outside),
      clock_(parts.clock),
      encode_(parts.encode),
      limits_(limits),
      revision_(revision),
      fence_(fence),
      turned_(clock_.Now()) {
  fence_.revision = revision;
}

Result<void> Loop::Commit(const Decision& decision) {
  deadline_.reset();
  std::vector<Pending> pending;
  pending.push_back(Encode(decision));
  std::uint64_t last_event = 0;
  LAUNCH_RETURN_IF_ERROR(Write(pending, last_event));
  LetOut(pending, last_event);
  return {};
}

Result<void> Loop::Run() {
  while (!stopping_) LAUNCH_RETURN_IF_ERROR(Turn());
  return {};
}

Result<void> Loop::Turn() {
  const int wait = WaitMs();
  return TurnWith(mailbox_.TakeBatch(limits_.events_per_batch, wait), wait);
}

Result<void> Loop::TurnWith(std::vector<Event> events, int waited_ms) {
  const BootTime now = clock_.Now();
  if (waited_ms >= 0 && now - turned_ > Millis{waited_ms} + limits_.stall) {
    spdlog::warn("controller.stalled ms={}", (now - turned_).count());
    hold_ticks_ = now + limits_.after_stall;
  }
  if (now < hold_ticks_) {
    // That nodes did not hear us is our own doing; it says nothing about the network.
    for (Event& event : events) {
      if (auto* beat = std::get_if<event::NodeBeat>(&event)) {
        beat->pong_age_ms = 0;
        beat->after_stall = true;
      } else if (auto* heard = std::get_if<event::NodeHeard>(&event)) {
        heard->after_stall = true;
      }
    }
  }
  if (const bool low = store_.Low(now); low != low_) {
    low_ = low;
    spdlog::warn("store.space low={}", low_);
    events.insert(events.begin(), event::StoreSpace{low_});
  }
  // The mailbox was emptied first: what peers said before a deadline counts before it. Decided with
  // what was read, not after its commit, for in the time that a slow disk takes mail waits again.
  if (events.size() < limits_.events_per_batch && TickIsDue()) events.emplace_back(event::Tick{});
  if (!events.empty()) LAUNCH_RETURN_IF_ERROR(Take(events));
  turned_ = clock_.Now();
  return {};
}

void Loop::Stop() {
  stopping_ = true;
  mailbox_.PushAlways(event::Tick{});
}

// Looks at everything that waits, so it is asked once between decisions.
std::optional<BootTime> Loop::Deadline() {
  if (!deadline_) deadline_ = brain_.NextDeadline();
  return *deadline_;
}

bool Loop::TickIsDue() {
  const auto deadline = Deadline();
  const BootTime now = clock_.Now();
  return deadline && *deadline <= now && hold_ticks_ <= now;
}

int Loop::WaitMs() {
  const auto deadline = Deadline();
  if (!deadline) return -1;
  const auto wait = std::max(*deadline, hold_ticks_) - clock_.Now();
  return static_cast<int>(std::clamp<std::int64_t>(wait.count(), 0, 60'000));
}

// Each event is decided on the state that the earlier ones left; what fits is committed together.
Result<void> Loop::Take(const std::vector<Event>& events) {
  deadline_.reset();
  const StoreLimits store = store_.Limits();
  std::vector<Pending> pending;
  std::size_t rows = 0;
  std::size_t bytes = 0;
  for (const Event& event : events) {
    const Now now{clock_.Now(), clock_.WallNow()};
    Pending one = Encode(brain_.Decide(event, now));
    one.session = SessionOf(event);
    one.read = IsRead(event) ? &event : nullptr;
    if (const auto too_large = WhyTooLarge(one)) {
      // No store will ever take it: it costs the one who asked, not the process.
      const std::optional<JobId> job = too_large->job;
      std::vector<Pending> alone;
      alone.push_back(std::move(one));
      TakeBack(alone, too_large->error);
      if (!job) continue;
      // And it would be decided again by the next event, whoever sends that.
      one = Encode(brain_.Decide(event::Unstorable{*job, too_large->error.message}, now));
      if (const auto still = WhyTooLarge(one)) {
        alone.push_back(std::move(one));
        TakeBack(alone, still->error);
        continue;
      }
    }
    const bool full = rows + one.rows.size() > store.records_per_batch ||
                      bytes + one.bytes > store.bytes_per_batch;
    if (full && !pending.empty()) {
      std::uint64_t last_event = 0;
      if (auto written = Write(pending, last_event); written) {
        LetOut(pending, last_event);
      } else if (written.error().code == ErrorCode::kResourceExhausted) {
        pending.push_back(std::move(one));  // decided on top of what is taken back now
        TakeBack(pending, written.error());
        one = {};
      } else {
        return written;
      }
      pending.clear();
      rows = bytes = 0;
    }
    rows += one.rows.size();
    bytes += one.bytes;
    pending.push_back(std::move(one));
  }
  return Flush(pending);
}

Result<void> Loop::Flush(std::vector<Pending>& pending) {
  std::uint64_t last_event = 0;
  if (Planted(Bug::kEffectsBeforeCommit)) {
    std::vector<Pending> early = pending;
    LetOut(early, last_event);
    for (Pending& one : pending) one.decision.effects.clear();
  }
  if (auto written = Write(pending, last_event); written) {
    LetOut(pending, last_event);
  } else if (written.error().code == ErrorCode::kResourceExhausted) {
    TakeBack(pending, written.error());
  } else {
    return written;
  }
  return {};
}

Loop::Pending Loop::Encode(Decision decision) const {
  Pending pending;
  for (const Record& record : decision.records) {
    if (const auto* put = std::get_if<Put>(&record)) {
      pending.rows.emplace_back(KeyOf(put->entity), encode_(put->entity));
      pending.early.push_back(std::holds_alternative<PlanChunkRecord>(put->entity));
      pending.bytes += pending.rows.back().first.size() + pending.rows.back().second->size();
    } else if (const auto* gone = std::get_if<Delete>(&record)) {
      pending.rows.emplace_back(KeyOf(gone->entity), std::nullopt);
      pending.early.push_back(false);
      pending.bytes += pending.rows.back().first.size();
    } else {
      const auto& event = std::get<EventRow>(record);
      pending.bytes += event.kind.size() + event.subject.size() + event.text.size();
    }
  }
  pending.decision = std::move(decision);
  return pending;
}

std::optional<Loop::TooLarge> Loop::WhyTooLarge(const Pending& one) const {
  const StoreLimits store = store_.Limits();
  for (const auto& [key, value] : one.rows) {
    const std::size_t size = value ? value->size() : 0;
    if (key.size() <= store.bytes_per_key && size <= store.bytes_per_value) continue;
    TooLarge large{Error{ErrorCode::kInvalidArgument,
                         "row " + key.substr(0, 100) + " would have " + std::to_string(size) +
                             " bytes; the store takes " + std::to_string(store.bytes_per_value),
                         "keep large files beside the job, not in it", std::nullopt},
                   std::nullopt};
    for (const Record& record : one.decision.records) {
      const auto* put = std::get_if<Put>(&record);
      if (put != nullptr && KeyOf(put->entity) == key) large.job = JobOf(put->entity);
    }
    return large;
  }
  return std::nullopt;
}

// One transaction; but what is larger than a transaction may be goes in parts, of which all but the
// last are plan chunks, and those mean nothing until the last one names them.
Result<void> Loop::Write(const std::vector<Pending>& pending, std::uint64_t& last_event) {
  const StoreLimits store = store_.Limits();
  std::size_t rows = 0;
  std::size_t bytes = 0;
  for (const Pending& one : pending) {
    rows += one.rows.size();
    bytes += one.bytes;
  }
  const bool large = rows > store.records_per_batch || bytes > store.bytes_per_batch;
  std::map<std::string, std::optional<std::string>> last;  // only the last value of a key counts
  Batch batch;
  std::size_t early_bytes = 0;
  for (const Pending& one : pending) {
    for (std::size_t i = 0; i < one.rows.size(); ++i) {
      const auto& [key, value] = one.rows[i];
      if (!large || !one.early[i] || !value) {
        last[key] = value;
        continue;
      }
      if (!batch.puts.empty() &&
          (early_bytes + key.size() + value->size() > store.bytes_per_batch ||
           batch.puts.size() >= store.records_per_batch)) {
        LAUNCH_RETURN_IF_ERROR(WriteBatch(std::exchange(batch, {}), last_event));
        early_bytes = 0;
      }
      early_bytes += key.size() + value->size();
      batch.puts.emplace_back(key, *value);
    }
  }
  if (!batch.empty()) LAUNCH_RETURN_IF_ERROR(WriteBatch(std::exchange(batch, {}), last_event));
  for (auto& [key, value] : last) {
    if (value) {
      batch.puts.emplace_back(key, std::move(*value));
    } else {
      batch.deletes.push_back(key);
    }
  }
  for (const Pending& one : pending) {
    for (const Record& record : one.decision.records) {
      if (const auto* event = std::get_if<EventRow>(&record)) {
        batch.events.push_back({event->kind, event->subject, event->text});
      }
    }
  }
  if (batch.empty()) return {};
  return WriteBatch(std::move(batch), last_event);
}

Result<void> Loop::WriteBatch(Batch batch, std::uint64_t& last_event) {
  batch.expected = revision_;
  batch.at = clock_.WallNow();
  const std::size_t events = batch.events.size();
  const BootTime before = clock_.Now();
  LAUNCH_ASSIGN_OR_RETURN(const Committed committed, store_.Commit(batch));
  const Millis took = clock_.Now() - before;
  if (took > limits_.slow_commit) spdlog::warn("store.slow ms={}", took.count());
  revision_ = committed.revision;
  fence_.revision = committed.revision;
  if (events > 0) last_event = committed.first_event + events - 1;
  return {};
}

void Loop::LetOut(std::vector<Pending>& pending, std::uint64_t last_event) {
  Change change{fence_, last_event, {}, {}};
  for (Pending& one : pending) {
    for (Record& record : one.decision.records) {
      if (const auto* put = std::get_if<Put>(&record)) {
        if (const auto job = JobOf(put->entity)) change.jobs.insert(*job);
        if (std::holds_alternative<PlanChunkRecord>(put->entity)) continue;
      }
      change.records.push_back(std::move(record));
    }
  }
  if (!change.records.empty()) outside_.Committed(change);
  for (Pending& one : pending) {
    for (Effect& effect : one.decision.effects) {
      if (auto* reply = std::get_if<effect::Reply>(&effect)) {
        outside_.Reply(std::move(*reply));
      } else if (auto* send = std::get_if<effect::Send>(&effect)) {
        outside_.Send(send->session, fence_, std::move(send->message));
      } else if (auto* close = std::get_if<effect::CloseSession>(&effect)) {
        outside_.CloseSession(close->session, close->why);
      } else if (auto* plans = std::get_if<effect::ReadPlans>(&effect)) {
        outside_.ReadPlans(std::move(*plans));
      } else if (auto* diagnosis = std::get_if<effect::DiagnosisWanted>(&effect)) {
        outside_.Diagnose(std::move(*diagnosis));
      } else {
        outside_.WantPlan(std::move(std::get<effect::PlanWanted>(effect)));
      }
    }
  }
}

// The store cannot take it and nothing was written. Who only reads is answered by what is stored;
// other callers are told; nodes whose messages were in the batch lose their session and say
// everything again; planning changes nothing and goes on.
void Loop::TakeBack(std::vector<Pending>& pending, const Error& error) {
  spdlog::error("store.refused events={} why={}", pending.size(), Quoted(error.message));
  for (auto one = pending.rbegin(); one != pending.rend(); ++one) brain_.Undo(one->decision);
  std::set<SessionId> sessions;
  std::vector<Pending> reads;
  for (Pending& one : pending) {
    if (one.read != nullptr) {
      reads.push_back(Encode(brain_.Decide(*one.read, {clock_.Now(), clock_.WallNow()})));
      continue;
    }
    if (one.decision.read) {
      reads.push_back(std::move(one));
      continue;
    }
    if (one.session) sessions.insert(*one.session);
    for (Effect& effect : one.decision.effects) {
      if (auto* reply = std::get_if<effect::Reply>(&effect)) {
        outside_.Reply(effect::Reply{reply->request, Unexpected(error)});
      } else if (auto* wanted = std::get_if<effect::PlanWanted>(&effect)) {
        outside_.WantPlan(std::move(*wanted));
      } else if (auto* plans = std::get_if<effect::ReadPlans>(&effect)) {
        outside_.ReadPlans(std::move(*plans));
      } else if (auto* close = std::get_if<effect::CloseSession>(&effect)) {
        // The core listens to it no more, so its beats must not be answered: the agent comes again.
        outside_.CloseSession(close->session, close->why);
      }
    }
  }
  for (const SessionId session : sessions) outside_.CloseSession(session, error.message);
  LetOut(reads, 0);
  pending.clear();
}

}  // namespace launch::controller
