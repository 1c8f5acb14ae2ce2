// Service Launch: what users ask for. Mutations are answered after their commit.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>

#include "controller/chunk_store.h"
#include "controller/log_relay.h"
#include "controller/services/directory.h"
#include "controller/services/exec_desk.h"
#include "controller/services/executor.h"
#include "controller/services/gate.h"
#include "controller/services/requests.h"
#include "controller/services/watch_hub.h"
#include "controller/store/store.h"

namespace launch::controller {

struct LaunchServiceParts {  // all outlive the server
  const Gate& gate;
  const Directory& directory;
  Requests& requests;
  LogRelay& relay;
  WatchHub& watchers;
  Executor& executor;
  Store& store;                   // only Events
  const std::string& secret_key;  // secrets are sealed with it before they go any further
  ChunkStore& chunks;
  Executor& chunk_executor;  // a disk that is slow to sync holds up no deadline
  ExecDesk& execs;
  bool operator_exec = false;  // operators may run commands in jobs of others
};

std::unique_ptr<grpc::Service> MakeLaunchService(const LaunchServiceParts& parts);

}  // namespace launch::controller
