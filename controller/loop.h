// The loop: one thread that owns the state, decides, commits, and only then lets anything out.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/mailbox.h"
#include "controller/core/decide.h"
#include "controller/store/store.h"

namespace launch::controller {

// The decisions the loop drives: the core in production (`CoreBrain`), a canned one in tests.
class Brain {
 public:
  virtual ~Brain() = default;
  virtual Decision Decide(const Event& event, const Now& now) = 0;
  virtual void Undo(const Decision& decision) = 0;
  virtual std::optional<BootTime> NextDeadline() = 0;
};

// What one commit changed, after it is durable.
struct Change {
  Fence fence;
  std::uint64_t last_event = 0;  // seq; 0 = the commit had none
  std::vector<Record> records;
  std::set<JobId> jobs;  // whose job, attempt, allocation or rank rows changed
};

// Where decisions go once they are durable. Loop thread; must not block.
class Outside {
 public:
  virtual ~Outside() = default;
  virtual void Committed(const Change& change) = 0;
  virtual void Reply(effect::Reply reply) = 0;
  virtual void Send(SessionId session, const Fence& fence, ToNode message) = 0;
  virtual void CloseSession(SessionId session, const std::string& why) = 0;
  virtual void WantPlan(effect::PlanWanted wanted) = 0;
  virtual void ReadPlans(effect::ReadPlans wanted) = 0;
  virtual void Diagnose(effect::DiagnosisWanted wanted) = 0;
};

// Bytes a record is stored as; proto/record.proto.
using EncodeEntity = std::string (*)(const Entity& entity);

class Loop {
 public:
  struct Parts {
    Brain& brain;
    Store& store;
    Mailbox<Event>& mailbox;
    Outside& outside;
    Clock& clock;
    EncodeEntity encode;
  };
  struct Limits {
    std::size_t events_per_batch = 256;
    Millis slow_commit{1000};  // logged beyond it
    Millis stall{1000};        // a turn that came this much too late: the process was stopped
    Millis after_stall{2000};  // no timer fires until peers could be heard again
  };

  // `revision` is that of the loaded store; `fence` carries incarnation and epoch.
  Loop(Parts parts, Revision revision, Fence fence, Limits limits);
  Loop(Parts parts, Revision revision, Fence fence);

  // Commits what was decided outside the loop (the new epoch, `init`) as an event would be.
  Result<void> Commit(const Decision& decision);

  // One turn: waits for events or the next deadline, takes a batch, lets a due timer fire.
  Result<void> Turn();
  // How long a turn may wait for events (ms; -1 = for ever), and the rest of that turn: for those
  // who wait in another way, as the simulator does in its own time.
  int WaitMs();
  Result<void> TurnWith(std::vector<Event> events, int waited_ms);
  // Turns until Stop, or the first error of the store that the process must not survive.
  Result<void> Run();
  void Stop();  // any thread

 private:
  // One decided event that is not durable yet.
  struct Pending {
    std::optional<SessionId> session;  // of a node's event
    const Event* read = nullptr;       // that it answers, if nothing else
    Decision decision;
    // Encoded records, in order: a value to put, or nothing to delete.
    std::vector<std::pair<std::string, std::optional<std::string>>> rows;
    std::vector<bool> early;  // rows that mean nothing by themselves and may go in a batch before
    std::size_t bytes = 0;
  };

  // A row beyond the limits of the store, and the job it is of.
  struct TooLarge {
    Error error;
    std::optional<JobId> job;
  };

  Result<void> Take(const std::vector<Event>& events);
  Pending Encode(Decision decision) const;
  std::optional<TooLarge> WhyTooLarge(const Pending& one) const;
  Result<void> Flush(std::vector<Pending>& pending);
  Result<void> Write(const std::vector<Pending>& pending, std::uint64_t& last_event);
  Result<void> WriteBatch(Batch batch, std::uint64_t& last_event);
  void LetOut(std::vector<Pending>& pending, std::uint64_t last_event);
  void TakeBack(std::vector<Pending>& pending, const Error& error);
  std::optional<BootTime> Deadline();
  bool TickIsDue();

  Brain& brain_;
  Store& store_;
  Mailbox<Event>& mailbox_;
  Outside& outside_;
  Clock& clock_;
  const EncodeEntity encode_;
  const Limits limits_;
  Revision revision_;
  Fence fence_;
  // The brain's next deadline, which changes with decisions alone; absent: to be asked.
  std::optional<std::optional<BootTime>> deadline_;
  BootTime turned_{};      // end of the last turn
  BootTime hold_ticks_{};  // after a stall, what peers sent meanwhile is read first
  bool low_ = false;       // what the core was told of the store's disk
  std::atomic<bool> stopping_ = false;
};

// The core and its state as a Brain.
class CoreBrain final : public Brain {
 public:
  explicit CoreBrain(State& state) : state_(state) {}
  Decision Decide(const Event& event, const Now& now) override;
  void Undo(const Decision& decision) override;
  std::optional<BootTime> NextDeadline() override;

 private:
  State& state_;
};

}  // namespace launch::controller
