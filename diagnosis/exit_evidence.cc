#include "diagnosis/exit_evidence.h"

#include <algorithm>
#include <iterator>

#include "common/counted_limits.h"
#include "common/launcher_process.h"
#include "common/units.h"
#include "diagnosis/doubts.h"
#include "diagnosis/flight.h"
#include "diagnosis/rank_end.h"
#include "diagnosis/verdict.h"

namespace launch {
namespace {

constexpr int kSigkill = 9;
constexpr int kXidLost = 79;  // fallen off the bus

OurKill KillOf(const ExitReport& report) {
  for (const OurSignal& sent : report.our_signals) {
    if (sent.why == ToString(StopCause::kCancelled)) return OurKill::kCancel;
    if (sent.why == ToString(StopCause::kTimeLimit)) return OurKill::kTimeLimit;
    if (sent.why == ToString(StopCause::kPreempted)) return OurKill::kPreempt;
    if (!sent.why.empty() && sent.why != ToString(StopCause::kNone)) return OurKill::kPeerFailed;
  }
  return OurKill::kNone;
}

std::string Seconds(std::int64_t ms) {
  return std::to_string(ms / 1000) + "." + std::to_string(ms % 1000 / 100) + " s";
}

std::string Percent(std::uint64_t part, std::uint64_t whole) {
  return std::to_string(whole == 0 ? 0 : 100 * std::min(part, whole) / whole) + " %";
}

// What was counted on the node, whatever the verdict made of it.
std::vector<std::string> Counters(const FailedRank& rank) {
  std::vector<std::string> lines;
  const LastSeen& seen = rank.seen;
  if (seen.gpu_used && seen.gpu_total) {
    lines.push_back("last sample: GPU memory " + FormatBytes(*seen.gpu_used) + " of " +
                    FormatBytes(*seen.gpu_total) +
                    (seen.gpu_foreign ? ", " + FormatBytes(*seen.gpu_foreign) + " of others" : ""));
  }
  // What is free on the machine says nothing of an agent's share of it (`cores`).
  if (seen.host_total && seen.host_available && *seen.host_available <= *seen.host_total) {
    lines.push_back("last sample: host memory " +
                    Percent(*seen.host_total - *seen.host_available, *seen.host_total) + " of " +
                    FormatBytes(*seen.host_total) + " in use");
  }
  for (const int xid : seen.xids) lines.push_back("NVML: Xid " + std::to_string(xid));
  for (const std::string& gpu : seen.failed_gpus) lines.push_back("NVML: " + gpu);
  if (seen.ecc_errors > 0) {
    lines.push_back("NVML: " + std::to_string(seen.ecc_errors) + " uncorrectable ECC errors");
  }
  const ExitReport& exit = rank.exit;
  for (const std::string& line : exit.kernel_lines) {
    if (line.starts_with(kPidsMaxOf)) lines.push_back(line);
  }
  if (exit.max_rss_bytes > 0) {
    lines.push_back("largest resident memory of one process " + FormatBytes(exit.max_rss_bytes));
  }
  for (const OurSignal& sent : exit.our_signals) {
    lines.push_back("launch sent signal " + std::to_string(sent.signal) + " (" + sent.why + "), " +
                    Seconds((exit.ended - sent.at).count()) + " before the end");
  }
  return lines;
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
  std::ranges::copy_if(report.kernel_lines, std::back_inserter(node.kernel_lines),
                       [](const std::string& line) {
                         return !line.starts_with(kFlightLine) && !line.starts_with(kProcessLine);
                       });
  node.our_kill = KillOf(report);
  if (const auto* exited = std::get_if<Exited>(&report.cause)) {
    node.exit_code = exited->code;
    node.ended_by_itself = !DecodeExitCode(exited->code).signal;
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
    // Clocks of nodes cannot be compared; those of ranks whose time is known on ours can.
    if (a.ended.has_value() != b.ended.has_value()) return a.ended.has_value();
    const BootTime a_end = a.ended.value_or(a.exit.ended);
    const BootTime b_end = b.ended.value_or(b.exit.ended);
    if (a_end != b_end) return a_end < b_end;
    return a.exit.rank < b.exit.rank;
  });
  if (ranks.size() > most) ranks.resize(most);
  return ranks;
}

Verdict JudgeRank(const LogEvidence& log, const FailedRank& rank,
                  const CompiledSignatures& signatures) {
  NodeEvidence node = EvidenceOf(rank.exit);
  node.node = rank.node;
  node.xids = rank.seen.xids;
  node.ecc_errors = rank.seen.ecc_errors;
  const bool lost = std::ranges::any_of(rank.seen.failed_gpus, [](const std::string& gpu) {
    return gpu.find(": lost:") != std::string::npos;
  });
  if (lost && std::ranges::find(node.xids, kXidLost) == node.xids.end())
    node.xids.push_back(kXidLost);
  const bool watched = rank.seen.gpu_used.has_value() && rank.seen.failed_gpus.empty();
  node.driver_saw_nothing =
      rank.seen.had_no_gpu || (watched && node.xids.empty() && node.ecc_errors == 0);
  node.gpu_total = rank.seen.gpu_total;
  node.gpu_foreign = rank.seen.gpu_foreign;
  node.expandable_segments = rank.expandable_segments;
  Verdict verdict = Judge(log, node, signatures);
  if (rank.seen.growth) verdict = WithGrowth(std::move(verdict), *rank.seen.growth);
  if (!verdict.rank) verdict.rank = rank.exit.rank;
  for (const std::string& line : rank.exit.kernel_lines) {
    if (line.starts_with(kFlightLine)) verdict.evidence.push_back(line);
  }
  if (IsFailure(verdict)) {
    for (std::string& line : Counters(rank)) {
      if (std::ranges::find(verdict.evidence, line) == verdict.evidence.end())
        verdict.evidence.push_back(std::move(line));
    }
  }
  return verdict;
}

std::vector<std::string> TimeLine(const std::vector<FailedRank>& ranks) {
  std::vector<const FailedRank*> known;
  for (const FailedRank& rank : ranks) {
    if (rank.ended) known.push_back(&rank);
  }
  if (known.size() < 2) return {};
  std::ranges::stable_sort(known, {}, [](const FailedRank* rank) { return *rank->ended; });
  std::vector<std::string> lines;
  for (const FailedRank* rank : known) {
    const std::int64_t later = (*rank->ended - *known.front()->ended).count();
    const bool ours = !rank->exit.our_signals.empty();
    lines.push_back((lines.empty() ? "" : Seconds(later) + " later ") + "rank " +
                    std::to_string(rank->exit.rank) + " on " + rank->node.value + ": " +
                    Describe(rank->exit.cause) + (ours ? ", stopped by launch" : ""));
  }
  return lines;
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
  std::vector<Verdict> told = verdicts;
  TellSharedGpu(told);
  TellLate(told);
  TellFlight(told);
  const Verdict* best = &told.front();
  for (const Verdict& verdict : told)
    if (Class(verdict) < Class(*best)) best = &verdict;
  return *best;
}

}  // namespace launch
