// A controller core with canned plan workers, scripted nodes and a store in memory.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/decide.h"
#include "controller/core/views.h"

namespace launch::controller {

NodeInventory MakeInventory(const std::string& name, int gpus, int cores = 8);
JobSpec GpuJob(int nodes, int gpus);
JobSpec CpuJob(int nodes);

// Decides, keeps what would be durable, answers plan workers at once, and checks the invariants
// after every event. Effects wait in `effects` until a test takes them.
class TestCore {
 public:
  TestCore();

  // ---- events ----
  void Post(Event event);
  void Pass(Millis time);  // and a Tick
  UserName user{"ana"};    // who submits
  SubmitContext context;   // of the next submits
  RequestId Submit(JobSpec spec, bool force = false, const std::string& key = "");
  JobId Submitted(JobSpec spec);  // submits and expects a job
  void Attach(const std::string& node, int gpus = 0);
  void Attach(const NodeInventory& inventory, from_node::Hello hello = {});
  void Detach(const std::string& node);
  void Say(const std::string& node, FromNode message);
  // `n` of the Pong that answers it; 0: none that anybody waits for.
  void Beat(const std::string& node, std::int64_t pong_age_ms = 0, std::uint64_t n = 0);
  void Heard(const std::string& node, std::uint64_t n);
  void Accept(const std::string& node, Key key, int port = 29500);
  void Ready(const std::string& node, Key key, StagingFacts facts = {});
  void Start(const std::string& node, Key key);
  void Exit(const std::string& node, Key key, Rank rank, ExitCause cause,
            std::int64_t ended_boot_ms = 0);
  void Release(const std::string& node, Key key,
               std::vector<std::pair<GpuUuid, std::string>> holders = {});
  JobId Cancel(JobId job, const std::string& by = "ana");

  // Everything up to Running, on the nodes of the attempt; takes the effects on the way.
  Key Run(JobId job);
  // The digest of what a node was given, as an agent would echo it.
  std::string Digest(const std::string& node, Key key) const;

  // ---- effects ----
  // The oldest message of this type to the node; a failure and an empty one if there is none.
  template <class T>
  T Told(const std::string& node) {
    for (auto effect = effects.begin(); effect != effects.end(); ++effect) {
      const auto* send = std::get_if<effect::Send>(&*effect);
      if (send == nullptr || send->session != session.at(node)) continue;
      if (const auto* message = std::get_if<T>(&send->message)) {
        T result = *message;
        effects.erase(effect);
        return result;
      }
    }
    ADD_FAILURE() << node << " was not told that";
    return T{};
  }
  template <class T>
  bool WasTold(const std::string& node) const {
    for (const Effect& effect : effects) {
      const auto* send = std::get_if<effect::Send>(&effect);
      if (send != nullptr && send->session == session.at(node) &&
          std::holds_alternative<T>(send->message)) {
        return true;
      }
    }
    return false;
  }
  template <class T>
  Result<T> Answer(RequestId request) {
    for (auto effect = effects.begin(); effect != effects.end(); ++effect) {
      const auto* reply = std::get_if<effect::Reply>(&*effect);
      if (reply == nullptr || reply->request != request) continue;
      const effect::Reply found = *reply;
      effects.erase(effect);
      findings = found.findings;
      if (!found.body) return Unexpected(found.body.error());
      if (const auto* body = std::get_if<T>(&*found.body)) return *body;
      ADD_FAILURE() << "the answer has another type";
      return T{};
    }
    ADD_FAILURE() << "request " << request.value << " was not answered";
    return T{};
  }
  bool Closed(SessionId which) const;
  void Ignore() { effects.clear(); }
  // Fails if anything was sent or answered that the test did not look at.
  void NothingElse() const;

  // ---- looking ----
  JobView View(JobId job) const;
  NodeView Node(const std::string& node) const;
  AttemptPhase Phase(Key key) const { return state.attempts.at(key).phase; }
  bool HasEvent(const std::string& kind) const;

  // A row that is in the store although nothing of it is in memory.
  void Keep(const Entity& entity) { durable_.insert_or_assign(KeyOf(entity), entity); }
  // Kills the controller and starts it again from what was durable; no node is attached.
  void Restart();

  State state;
  Now now{BootMs(1'000'000), WallMs(1'700'000'000'000)};
  std::string host_boot;  // of the controller's host, taken over by Restart
  std::vector<Effect> effects;
  std::vector<Finding> findings;  // beside the last answer
  std::map<std::string, SessionId> session;
  bool agents_lease = true;                 // agents say that they end what has a lease
  std::map<std::string, std::string> boot;  // boot id by node; "b1" unless set
  std::vector<EventRow> rows;
  bool answer_plans = true;            // false: PlanWanted effects stay in `effects`
  std::vector<Finding> plan_findings;  // what the canned worker finds
  std::optional<std::int64_t> plan_steps;
  LoaderPlan plan_loader;
  BatchSplit plan_batch;  // unless the job gives a micro-batch
  MeasuredRun plan_run;
  std::optional<Error> placed_error;  // what it says of a placed job
  Event Answered(const effect::PlanWanted& wanted);
  bool answer_diagnoses = true;    // false: DiagnosisWanted effects stay in `effects`
  std::optional<Verdict> verdict;  // what the canned worker says of every failed attempt

 private:
  std::map<std::string, Entity> durable_;
  std::map<std::string, StoredPlan> plans_;
  std::uint64_t next_request_ = 1;
  std::uint64_t next_session_ = 1;
};

// A core with two nodes of one GPU each.
struct TwoNodes : testing::Test {
  TwoNodes() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
    core.Ignore();
  }
  // Both accepted; the first is asked to stage.
  Key Accepted(JobSpec spec) {
    const JobId job = core.Submitted(std::move(spec));
    const Key key{job, Attempt{1}};
    core.Ignore();
    core.Accept("gpu1", key);
    core.Accept("gpu2", key);
    return key;
  }
  TestCore core;
};

}  // namespace launch::controller
