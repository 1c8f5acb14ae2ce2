// Service Identity: joining the cluster, and who the caller is.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "common/clock.h"
#include "controller/enrolment.h"
#include "controller/services/executor.h"
#include "controller/services/gate.h"
#include "controller/services/requests.h"

namespace launch::controller {

struct IdentityServiceParts {  // all outlive the server
  const Gate& gate;
  Doorkeeper& door;
  Requests& requests;
  const Enrolment& enrolment;
  Executor& executor;
  Clock& clock;
};

// A join is committed as used before anything is signed: a crash between the two costs the token
// and never makes two members.
std::unique_ptr<grpc::Service> MakeIdentityService(const IdentityServiceParts& parts);

}  // namespace launch::controller
