// Service Operator: tokens, drain, status.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "controller/enrolment.h"
#include "controller/services/directory.h"
#include "controller/services/gate.h"
#include "controller/services/requests.h"

namespace launch::controller {

struct OperatorServiceParts {  // all outlive the server
  const Gate& gate;
  const Directory& directory;
  Requests& requests;
  const Enrolment& enrolment;
  Clock& clock;
  std::string state_dir;
  std::function<std::vector<std::string>()> addresses;  // where joiners find this controller
};

std::unique_ptr<grpc::Service> MakeOperatorService(OperatorServiceParts parts);

}  // namespace launch::controller
