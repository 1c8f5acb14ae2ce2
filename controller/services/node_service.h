// Service Node: the agents' control and bulk streams.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "common/mailbox.h"
#include "controller/chunk_store.h"
#include "controller/core/event.h"
#include "controller/log_relay.h"
#include "controller/services/exec_desk.h"
#include "controller/services/executor.h"
#include "controller/services/gate.h"
#include "controller/services/sessions.h"

namespace launch::controller {

struct NodeServiceParts {  // all outlive the server
  const Gate& gate;
  const Directory& directory;
  Mailbox<Event>& mailbox;
  Sessions& sessions;
  LogRelay& relay;
  Executor& executor;
  ChunkStore& chunks;
  ExecDesk& execs;
};

// A node speaks for itself only: what it says about its name must equal its certificate.
// Beats are answered here, so that liveness does not wait for a commit.
std::unique_ptr<grpc::Service> MakeNodeService(const NodeServiceParts& parts);

}  // namespace launch::controller
