// Controller process, network, clients and faults around the simulated nodes; one seed, one run.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/core/decide.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/world.h"

namespace launch::sim {

class SimCluster {
 public:
  explicit SimCluster(const Options& options);
  SimCluster(const SimCluster&) = delete;
  SimCluster& operator=(const SimCluster&) = delete;

  // Runs the seed to its end; the world then holds violations and the hash of the trace.
  void Run();
  World& world() { return world_; }
  std::size_t jobs() const { return world_.submitted.size(); }

 private:
  // ---- network: one stream a node; in order; cut = stalled until it heals or a side gives up ----
  struct Message {
    std::int64_t due = 0;
    std::optional<FromNode> up;
    std::optional<ToNodeEnvelope> down;
  };
  struct Link {
    bool cut = false;
    std::uint64_t stream = 0;  // newest
    bool agent_open = false;
    bool endpoint_open = false;
    std::optional<controller::SessionId> session;  // of the endpoint, after Hello
    std::deque<Message> up, down;
  };
  void Connect(const std::string& node);  // tries for ever
  void SendUp(const std::string& node, std::uint64_t stream, FromNode message);
  void SendDown(const std::string& node, const ToNode& body);
  void Pump(const std::string& node, std::uint64_t stream, bool up);
  void Arrive(const std::string& node, Message message);
  void CloseAgentSide(const std::string& node, std::uint64_t stream);
  void CloseEndpoint(const std::string& node, std::uint64_t stream, const std::string& why);

  // ---- the controller process ----
  void StartController();
  void KillController();
  void Post(const controller::Event& event);
  void Commit(const controller::Decision& decision);
  void Execute(const controller::Decision& decision);
  void Plan(const controller::effect::PlanWanted& wanted);
  void Diagnose(const controller::effect::DiagnosisWanted& wanted);
  void ScheduleTick();
  void CompareWithStore();

  // ---- clients ----
  void PlanClients();
  void TrySubmit(const std::string& key, const JobSpec& spec, bool cancel_later);
  void TryCancel(JobId job);
  void Answered(const controller::effect::Reply& reply);

  // ---- faults ----
  void PlanFaults();
  bool Quiet() const;

  World world_;
  Rng network_, faults_, clients_, crashes_;
  std::map<std::string, std::unique_ptr<SimNode>> nodes_;
  std::map<std::string, Link> links_;

  std::map<std::string, controller::Entity> durable_;
  std::map<std::string, controller::StoredPlan> plans_;
  std::uint64_t revision_ = 0;
  std::optional<controller::State> state_;  // while the process lives
  std::uint64_t process_ = 0;
  std::uint64_t next_session_ = 1;
  std::optional<std::int64_t> tick_at_;
  bool healed_ = false;
  int crash_odds_ = 250;  // one in so many commits of the faulty time kills the controller
  int full_odds_ = 300;   // ... finds the store full

  struct Request {
    std::string key;           // of a submit
    std::optional<JobId> job;  // of a cancel
    bool cancel_later = false;
  };
  std::map<std::uint64_t, Request> requests_;
  std::uint64_t next_request_ = 1;
  std::size_t unanswered_ = 0;
  std::map<JobId, std::int64_t> cancel_committed_;
};

}  // namespace launch::sim
