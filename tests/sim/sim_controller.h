// The controller's process and its disk: the production loop, core and record codec between a
// simulated disk, clock and outside.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/loop.h"
#include "tests/sim/world.h"

namespace launch::sim {

// Survives the process; what is not synced does not survive a power loss.
class SimDisk {
 public:
  std::map<std::string, controller::StoredRow> rows;
  controller::Revision revision = 0;
  std::uint64_t events = 0;
  bool full = false;
  // Nothing beside the store tells how far it had come, since a restore and until the next commit.
  bool unwitnessed = false;

  controller::Committed Write(const controller::Batch& batch);
  void WriteUnsynced(const controller::Batch& batch) { unsynced_.push_back(batch); }
  void Sync();  // also what the page cache brings to a process that starts
  void PowerCut() { unsynced_.clear(); }

 private:
  std::vector<controller::Batch> unsynced_;
};

// As `launch server backup` copies it.
struct Backup {
  std::map<std::string, controller::StoredRow> rows;
  controller::Revision revision = 0;
};

class SimController final : public controller::Outside {
 public:
  struct Hooks {
    std::function<void(const controller::effect::Reply&)> reply;
    std::function<void(controller::SessionId, ToNodeEnvelope)> send;
    std::function<void(controller::SessionId)> close;
    std::function<void(const controller::Entity&)> committed;
    std::function<void()> died;  // its sockets are closed by the kernel
  };
  SimController(World& world, Hooks hooks);
  ~SimController() override;

  void Start();
  void Kill();
  void PowerCut();
  void Pause() { paused_ = true; }
  void Resume();
  // What is done to the store of a controller that is down.
  Backup CopyStore() const { return {disk_.rows, disk_.revision}; }
  void Restore(const Backup& backup);  // as controller/store/store_tools.cc does
  void PutBack(const Backup& copy, bool unwitnessed);
  // False: the process is not there to take it.
  bool Post(controller::Event event);
  bool up() const { return process_ != nullptr; }
  bool paused() const { return paused_; }
  SimDisk& disk() { return disk_; }
  void JumpClock(std::int64_t ms) { world_.wall_offset += ms; }
  const controller::State& state() const;
  // C6: what is in memory is what a start from the disk would see.
  void CompareWithDisk();
  std::map<std::string, controller::Entity> Durable();

  // Outside
  void Committed(const controller::Change& change) override;
  void Reply(controller::effect::Reply reply) override;
  void Send(controller::SessionId session, const Fence& fence, ToNode message) override;
  void CloseSession(controller::SessionId session, const std::string& why) override;
  void WantPlan(controller::effect::PlanWanted wanted) override;
  void ReadPlans(controller::effect::ReadPlans wanted) override;
  void Diagnose(controller::effect::DiagnosisWanted wanted) override;

 private:
  class Process;
  friend class Process;
  Result<controller::StoredPlan> Decode(std::string_view bytes) const;
  void Check(const controller::Batch& batch);
  bool Dies(const std::string& point);
  void WakeAt(std::int64_t at);
  void Wake();
  void Ended(const Error& error);

  World& world_;
  const Hooks hooks_;
  Rng rng_;
  SimDisk disk_;
  std::map<std::string, controller::StoredPlan> plans_;  // what the chunks' bytes stand for
  std::map<GpuUuid, NodeId> quarantined_on_;             // after the last commit
  std::unique_ptr<Process> process_;
  std::uint64_t incarnation_ = 0;
  bool dying_ = false;  // at a crash point: nothing more leaves
  bool paused_ = false;
  std::int64_t booted_at_ = 0;  // its host
  int boots_ = 1;
  int known_boot_ = 0;  // the last that a start of the controller was committed in
};

}  // namespace launch::sim
