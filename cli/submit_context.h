// What the submitter's machine adds to a job: who, where, and the values the job asks for.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/job.h"

namespace launch {

struct SubmitterFacts {
  SubmitContext context;
  std::vector<std::pair<std::string, std::string>> secrets;  // ordered by name
};

// Reads environment, user, boot id, workdir's fingerprint and git commit. kInvalidArgument when the
// job requires a variable from the caller that is not set.
Result<SubmitterFacts> ReadSubmitterFacts(const JobSpec& spec, const std::string& cwd);

std::string CurrentDirectory();

}  // namespace launch
