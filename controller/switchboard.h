// Where the loop's committed decisions go: callers, agents, planner, and those who watch.
#pragma once

#include <string>

#include "controller/diagnosis_worker.h"
#include "controller/log_relay.h"
#include "controller/loop.h"
#include "controller/plan_worker.h"
#include "controller/services/directory.h"
#include "controller/services/exec_desk.h"
#include "controller/services/executor.h"
#include "controller/services/requests.h"
#include "controller/services/sessions.h"
#include "controller/services/watch_hub.h"

namespace launch::controller {

class Switchboard final : public Outside {
 public:
  struct Parts {  // all outlive it
    Directory& directory;
    Requests& requests;
    Sessions& sessions;
    LogRelay& relay;
    WatchHub& watchers;
    ExecDesk& execs;
    PlanWorker& planner;
    DiagnosisWorker& diagnosis;
    Executor& executor;
    Store& store;
    Mailbox<Event>& mailbox;  // where the loop hears of what could not be sent
    const std::string& secret_key;
    std::string secret_file;  // that holds it; named when it does not open a secret
  };
  explicit Switchboard(const Parts& parts) : parts_(parts) {}

  void Committed(const Change& change) override;
  void Reply(effect::Reply reply) override;
  // Secrets are opened here, at the last moment, and nowhere else.
  void Send(SessionId session, const Fence& fence, ToNode message) override;
  void CloseSession(SessionId session, const std::string& why) override;
  void WantPlan(effect::PlanWanted wanted) override;
  void ReadPlans(effect::ReadPlans wanted) override;
  void Diagnose(effect::DiagnosisWanted wanted) override;

 private:
  void EndStreamsOf(const UserName& user);

  const Parts parts_;
};

}  // namespace launch::controller
