// What one piece of evidence takes from another one, or gives to it.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "diagnosis/node_evidence.h"
#include "diagnosis/suspects.h"

namespace launch {

// Names the mismatch: ranks whose collectives of the same number differ wait for each other for
// ever. torch's ProcessGroupNCCL.cpp prints both collectives with the timeout.
void TellMismatch(std::vector<Suspect>& suspects);

// Names the rank that a collective which timed out waited for, where the log tells: torch's report
// on the desynchronisation, how far each rank's watchdog saw it come, or one rank of those in the
// log
// (`seen`) that alone did not time out.
void TellLate(std::vector<Suspect>& suspects, const std::set<Rank>& seen);
// The same from the verdicts of whole ranks: all waited but one, which was still running.
void TellLate(std::vector<Verdict>& verdicts);

// Names a GPU that two ranks of the job share: each holds what the other one's out-of-memory
// message says that other processes have.
void TellSharedGpu(std::vector<Suspect>& suspects);
void TellSharedGpu(std::vector<Verdict>& verdicts);  // each of one rank, with its node

// Doubts faults of the hardware that only the log tells of, where the driver saw nothing: a rank
// prints what it likes, old lines of the kernel too. What CUDA itself returned to the rank stands.
void DoubtHardware(std::vector<Suspect>& suspects, const NodeEvidence& node);

// Doubts what the log says of a scheduler, where we know that the process ended by itself: that is
// not about this end, however sure the scheduler was of another one.
void DoubtScheduler(std::vector<Suspect>& suspects);

// A rank that prints the kernel's lines and then ends with an error of its own code (a missing key,
// a wrong type) did not end of them: they may be days old. What CUDA itself returned stands.
void DoubtPrintedKernelLines(std::vector<Suspect>& suspects);

// A warning that the driver is too old, or that torch has no code for the GPU, gives way to what
// the same rank ended with later, unless that may come of it: no GPU, none that computes, an
// exception about one.
void DoubtWarningsOfGpuSoftware(std::vector<Suspect>& suspects);

// A compiler's error is an extension's where a file of torch or of a package is compiled, or where
// a build fails behind it: configure scripts and graders of generated code run compilers too.
void DoubtCompiler(std::vector<Suspect>& suspects);

// A program that saw a GPU before runs no CPU-only torch: another interpreter or environment that
// it started does, or its backend was built without NCCL.
void DoubtCpuOnly(Suspect& suspect);

// Whether what the node saw itself (kernel, cgroup, driver) makes this likely cause a confirmed
// one.
bool NodeConfirms(const Suspect& suspect, const NodeEvidence& node);

}  // namespace launch
