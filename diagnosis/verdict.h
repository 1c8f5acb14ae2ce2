// From what a log says and what the node knows to one verdict: the cause, not its symptoms.
#pragma once

#include <optional>
#include <string_view>

#include "common/diagnosis.h"
#include "diagnosis/compiled_signatures.h"
#include "diagnosis/log_scanner.h"
#include "diagnosis/node_evidence.h"

namespace launch {

// label "none", action "continue": nothing failed (exit 0, our own cancel, a benign log).
// label "unknown": something failed and nothing says what.
// Order: our own kills and schedulers, the kernel and the hardware, specific
// causes, exceptions of the program, ranks that miss others, launchers' wrappers. Within one class
// the more specific message wins, then the earlier one.
// `signatures` is needed to read the kernel's lines in `node`.
Verdict Judge(const LogEvidence& log, const NodeEvidence& node,
              const CompiledSignatures& signatures);

// The verdict of a rank that we ended ourselves, which alone is the cause; absent for kNone.
std::optional<Verdict> VerdictOfOurKill(OurKill kill);

// Scans `log` and judges.
Verdict Diagnose(std::string_view log, const NodeEvidence& node,
                 const CompiledSignatures& signatures);

bool IsFailure(const Verdict& verdict);  // label is not "none"

}  // namespace launch
