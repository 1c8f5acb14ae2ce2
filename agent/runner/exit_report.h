// From the kernel's and the shim's evidence to how a rank ended; nothing is invented.
#pragma once

#include <optional>
#include <string>

#include "agent/runner/cgroup.h"
#include "agent/shim/shim_record.h"
#include "common/launch.h"

namespace launch::agent {

struct ExitEvidence {
  Key key;
  Rank rank = 0;
  MemoryFacts memory;
  std::optional<BootTime> killed_at;  // our cgroup kill, which leaves no trace in the record
  StopCause killed_why = StopCause::kNone;
  std::uint64_t log_base = 0;  // of its out; the record has the size of the file
};

ExitReport ReportOf(const shim::ExitRecord& record, const ExitEvidence& evidence);

// The report of an end that no record proves.
ExitReport ReportUnknown(const ExitEvidence& evidence, const std::string& boot_id, std::string why,
                         BootTime started, BootTime ended);

}  // namespace launch::agent
