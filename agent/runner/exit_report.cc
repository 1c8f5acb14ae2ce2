#include "agent/runner/exit_report.h"

#include <csignal>
#include <cstring>

namespace launch::agent {
namespace {

bool SentKill(const ExitReport& report) {
  for (const OurSignal& sent : report.our_signals) {
    if (sent.signal == SIGKILL) return true;
  }
  return false;
}

ExitCause CauseOf(const shim::ExitRecord& record, const ExitEvidence& evidence, bool killed_by_us) {
  switch (record.kind) {
    case shim::EndKind::kExited:
      return Exited{record.code};
    case shim::EndKind::kSignalled:
      if (record.code == SIGKILL && !killed_by_us && evidence.memory.oom_kills > 0) {
        return OutOfMemory{.scope = evidence.memory.limit_bytes > 0 ? "job" : "host",
                           .limit_bytes = evidence.memory.limit_bytes,
                           .peak_bytes = evidence.memory.peak_bytes};
      }
      return Signalled{record.code, record.core != 0};
    case shim::EndKind::kFailedToStart:
      return FailedToStart{shim::StageName(record.stage), record.code, std::strerror(record.code)};
    case shim::EndKind::kNone:
      break;
  }
  return UnknownEnd{"record torn"};
}

}  // namespace

ExitReport ReportOf(const shim::ExitRecord& record, const ExitEvidence& evidence) {
  ExitReport report{.key = evidence.key, .rank = evidence.rank};
  report.boot_id = std::string(record.boot_id, ::strnlen(record.boot_id, sizeof record.boot_id));
  for (std::uint32_t i = 0; i < record.signal_count && i < shim::kMaxOurSignals; ++i) {
    const shim::SentSignal& sent = record.signals[i];
    if (sent.signal == SIGCONT) continue;  // only lets a stopped process take the one before
    report.our_signals.push_back({sent.signal, BootMs(sent.boot_ms),
                                  std::string(ToString(static_cast<StopCause>(sent.why)))});
  }
  report.started = BootMs(record.started_boot_ms);
  report.ended = BootMs(record.ended_boot_ms);
  const bool sigkilled = record.kind == shim::EndKind::kSignalled && record.code == SIGKILL;
  if (sigkilled && evidence.killed_at && report.ended >= *evidence.killed_at && !SentKill(report)) {
    report.our_signals.push_back(
        {SIGKILL, *evidence.killed_at, std::string(ToString(evidence.killed_why))});
  }
  report.user_ms = record.user_ms;
  report.system_ms = record.system_ms;
  report.max_rss_bytes = record.max_rss_bytes;
  report.oom_kills = evidence.memory.oom_kills;
  report.log_end = evidence.log_base + record.out_end;
  report.cause = CauseOf(record, evidence, SentKill(report));
  return report;
}

ExitReport ReportUnknown(const ExitEvidence& evidence, const std::string& boot_id, std::string why,
                         BootTime started, BootTime ended) {
  ExitReport report{.key = evidence.key, .rank = evidence.rank, .boot_id = boot_id};
  report.cause = UnknownEnd{std::move(why)};
  report.started = started;
  report.ended = ended;
  report.oom_kills = evidence.memory.oom_kills;
  return report;
}

}  // namespace launch::agent
