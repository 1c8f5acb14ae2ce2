// What the node knows about the end of a rank beside its log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"

namespace launch {

// A signal that we sent ourselves, and why.
enum class OurKill { kNone, kCancel, kTimeLimit, kPreempt, kPeerFailed };

struct NodeEvidence {
  // At most one of exit_code and signal is set; neither: it is not known how the rank ended. The
  // code is as reported: 137, -9, 247 and Windows' codes of 32 bits are decoded by the reader.
  std::optional<std::int64_t> exit_code;
  std::optional<int> signal;
  std::string ended;  // the same in words, for the evidence; may be empty
  OurKill our_kill = OurKill::kNone;
  std::uint64_t oom_kills = 0;            // of the rank's cgroup, during the attempt
  std::vector<std::string> kernel_lines;  // since the start, as the kernel wrote them
  std::vector<int> xids;                  // of the rank's GPUs, in order
  std::uint64_t ecc_errors = 0;           // uncorrectable ones of its GPUs while it ran
  // We started the process ourselves, and it exited with a code of its own: no signal ended it.
  bool ended_by_itself = false;
  // The driver was asked all the while and saw nothing wrong with its GPUs, or it had none.
  bool driver_saw_nothing = false;
  // Bytes; absent: not sampled.
  std::optional<std::uint64_t> gpu_total;
  std::optional<std::uint64_t> gpu_foreign;  // held by processes that are not the job's
  std::optional<std::uint64_t> host_peak;    // of the job's cgroup
  std::optional<std::uint64_t> host_limit;
  bool expandable_segments = false;  // already in the job's environment
  std::optional<Rank> rank;
  std::optional<NodeId> node;
};

}  // namespace launch
