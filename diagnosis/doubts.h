// What one piece of evidence takes from another one, or gives to it.
#pragma once

#include <string_view>
#include <vector>

#include "diagnosis/node_evidence.h"
#include "diagnosis/suspects.h"

namespace launch {

// Ranks whose collectives of the same number differ wait for each other for ever (failures.md 3.3).
// ProcessGroupNCCL.cpp prints both with the timeout.
void TellMismatch(std::vector<Suspect>& suspects);

// What an out-of-memory message calls other processes is another rank of the job, where each of two
// ranks holds what the other one misses: both sit on one GPU (failures.md 4).
void TellSharedGpu(std::vector<Suspect>& suspects);
void TellSharedGpu(std::vector<Verdict>& verdicts);  // each of one rank, with its node

// Where the driver saw nothing: a rank prints what it likes, old lines of the kernel too. What CUDA
// itself returned to it stands.
void DoubtHardware(std::vector<Suspect>& suspects, const NodeEvidence& node);

// What the node saw itself makes a likely cause a certain one (failures.md 3, "Confirm with").
bool NodeConfirms(std::string_view label, const NodeEvidence& node);

}  // namespace launch
