#include "diagnosis/exit_evidence.h"

#include <algorithm>

#include "diagnosis/verdict.h"

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

std::vector<FailedRank> WorthReading(std::vector<FailedRank> ranks, std::optional<Rank> first,
                                     std::size_t most) {
  std::sort(ranks.begin(), ranks.end(), [&](const FailedRank& a, const FailedRank& b) {
    const bool a_first = first == a.exit.rank;
    const bool b_first = first == b.exit.rank;
    if (a_first != b_first) return a_first;
    if (a.exit.ended != b.exit.ended) return a.exit.ended < b.exit.ended;
    return a.exit.rank < b.exit.rank;
  });
  if (ranks.size() > most) ranks.resize(most);
  return ranks;
}

Verdict JudgeRank(const LogEvidence& log, const FailedRank& rank,
                  const CompiledSignatures& signatures) {
  NodeEvidence node = EvidenceOf(rank.exit);
  node.node = rank.node;
  node.expandable_segments = rank.expandable_segments;
  Verdict verdict = Judge(log, node, signatures);
  if (!verdict.rank) verdict.rank = rank.exit.rank;
  return verdict;
}

bool UsesExpandableSegments(const std::map<std::string, std::string>& env) {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const auto found = env.find(name);
    if (found == env.end()) continue;
    if (found->second.find("expandable_segments:True") != std::string::npos) return true;
  }
  return false;
}

Verdict ChooseVerdict(const std::vector<Verdict>& verdicts) {
  const Verdict* best = &verdicts.front();
  for (const Verdict& verdict : verdicts)
    if (Class(verdict) < Class(*best)) best = &verdict;
  return *best;
}

}  // namespace launch
