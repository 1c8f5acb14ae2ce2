// Clients and faults around the simulated controller, network and nodes; one seed, one run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/network.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/world.h"

namespace launch::sim {

inline constexpr const char* kTwin = "twin";  // life of an agent from a copied state directory

std::vector<std::string> SimNodes();

class SimCluster {
 public:
  explicit SimCluster(const Options& options);
  SimCluster(const SimCluster&) = delete;
  SimCluster& operator=(const SimCluster&) = delete;

  // Runs the schedule to its end; the world then holds violations and the hash of the trace.
  void Run();
  World& world() { return world_; }

 private:
  // ---- the endpoint: which session a stream has ----
  void Connect(const std::string& node);  // tries for ever
  void EndpointSaid(const std::string& node, Network::Stream stream, const FromNode& message);
  void EndpointClosed(const std::string& node, Network::Stream stream, const std::string& why);
  void SendTo(controller::SessionId session, ToNodeEnvelope envelope);
  void CloseSession(controller::SessionId session);
  void ControllerDied();
  void Checkpoint();  // C6 and C8, now and then

  // ---- clients ----
  void TrySubmit(const PlannedJob& job);
  void TryCancel(JobId job);
  void Answered(const controller::effect::Reply& reply);

  // ---- what people ask for (sim_operator.cc) ----
  void CarryAct(const Fault& fault);
  // Asked again every few seconds until it is answered by no refusal, or all is healed; absent:
  // there is nothing to ask for now.
  struct Ask {
    std::string name;  // for the coverage
    std::function<std::optional<controller::Event>(controller::RequestId)> make;
    std::int64_t until = 0;
    std::function<void()> then = [] {};
  };
  void TryAsk(std::shared_ptr<const Ask> ask);
  void AskLater(std::int64_t delay_ms, Ask ask);
  void AnsweredAsk(const std::shared_ptr<const Ask>& ask,
                   const Result<controller::ReplyBody>& body);
  void ChangeJob(const std::string& key, JobAction action, bool hold, std::int64_t until);
  void ChangeDrain(const std::string& node, bool undrain);
  void FenceSilent(const std::string& node, std::int64_t until, std::function<void()> then);
  void ReleaseQuarantine(const std::string& node, bool retest, std::int64_t until);
  void LoseStore(const Fault& fault, const std::shared_ptr<const Backup>& backup);
  void EndRegress(const std::shared_ptr<const Backup>& newest);
  void GoOnIfRefused();
  // What a restore holds is released by somebody who looked what runs.
  void ReleaseRestored();
  // What nobody but a person ends, once all is healed.
  void EndUnknown();
  void Rejoin(const std::string& node);
  void RejoinLater(const std::string& node);
  void ForgetAway(const std::string& node, std::int64_t until);

  // ---- faults ----
  void Carry(const Fault& fault);
  void CarryToNode(const Fault& fault);
  void SendClone(const std::string& node, bool twin);
  bool Answers(const std::string& node) const;
  void Fence(const std::string& node, const std::string& boot);
  void JobWritten(const controller::JobRecord& job);
  void Heal();
  bool Quiet() const;
  void SayWhatIsNotQuiet();

  World world_;
  Rng network_rng_, clients_;
  Network network_;
  SimController controller_;
  std::map<std::string, std::unique_ptr<SimNode>> nodes_;
  struct Dial {  // of a node's agent
    Network::Stream stream = 0;
    bool open = false;
  };
  std::map<std::string, Dial> dials_;
  std::map<Network::Stream, controller::SessionId> sessions_;
  std::set<Network::Stream> clones_;
  std::uint64_t next_session_ = 1;
  bool healed_ = false;
  struct {
    bool goes_on = false;
    std::shared_ptr<const Backup> newest;  // absent: the store is no older one
  } regress_;

  struct Request {
    std::optional<PlannedJob> submit;
    std::optional<JobId> cancel;
    std::shared_ptr<const Ask> ask = {};
  };
  std::map<std::uint64_t, Request> requests_;
  std::uint64_t next_request_ = 1;
  std::map<JobId, std::int64_t> cancel_committed_;
  std::set<std::string> refused_;  // submits that can never fit
};

}  // namespace launch::sim
