#include "diagnosis/exit_evidence.h"

namespace launch {
namespace {

constexpr int kSigkill = 9;

OurKill KillOf(const ExitReport& report) {
  for (const OurSignal& sent : report.our_signals) {
    if (sent.why == ToString(StopCause::kCancelled)) return OurKill::kCancel;
    if (sent.why == ToString(StopCause::kTimeLimit)) return OurKill::kTimeLimit;
    if (sent.why == ToString(StopCause::kPreempted)) return OurKill::kPreempt;
    if (!sent.why.empty() && sent.why != ToString(StopCause::kNone)) return OurKill::kPeerFailed;
  }
  return OurKill::kNone;
}

// Lower is better.
int Class(const Verdict& verdict) {
  if (verdict.label == "none") return 4;
  if (verdict.label == "unknown") return 3;
  if (verdict.confidence == Confidence::kUnknown) return 2;
  return verdict.confidence == Confidence::kSymptom ? 1 : 0;
}

}  // namespace

NodeEvidence EvidenceOf(const ExitReport& report) {
  NodeEvidence node;
  node.rank = report.rank;
  node.oom_kills = report.oom_kills;
  node.our_kill = KillOf(report);
  if (const auto* exited = std::get_if<Exited>(&report.cause)) {
    node.exit_code = exited->code;
  } else if (const auto* signalled = std::get_if<Signalled>(&report.cause)) {
    node.signal = signalled->signal;
  } else if (const auto* memory = std::get_if<OutOfMemory>(&report.cause)) {
    node.signal = kSigkill;
    if (node.oom_kills == 0) node.oom_kills = 1;
    if (memory->limit_bytes > 0) node.host_limit = memory->limit_bytes;
    if (memory->peak_bytes > 0) node.host_peak = memory->peak_bytes;
  } else {
    node.exit_code = ShellCode(report.cause);
  }
  node.ended = Describe(report.cause);
  return node;
}

Verdict ChooseVerdict(const std::vector<Verdict>& verdicts) {
  const Verdict* best = &verdicts.front();
  for (const Verdict& verdict : verdicts)
    if (Class(verdict) < Class(*best)) best = &verdict;
  return *best;
}

}  // namespace launch
