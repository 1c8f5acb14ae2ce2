#include "common/launch.h"

#include <algorithm>
#include <cstring>

#include "common/enum_text.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr EnumText<StartKind, 2> kStart{
    {{StartKind::kDirect, "direct"}, {StartKind::kPerNode, "per_node"}}};
constexpr EnumText<StopCause, 10> kCause{{{StopCause::kNone, "none"},
                                          {StopCause::kRankFailed, "rank_failed"},
                                          {StopCause::kCancelled, "cancelled"},
                                          {StopCause::kTimeLimit, "time_limit"},
                                          {StopCause::kPreempted, "preempted"},
                                          {StopCause::kNodeLost, "node_lost"},
                                          {StopCause::kStartFailed, "start_failed"},
                                          {StopCause::kStale, "stale"},
                                          {StopCause::kLease, "lease"},
                                          {StopCause::kHang, "hang"}}};
constexpr EnumText<AllocationPhase, 6> kPhase{{{AllocationPhase::kAccepted, "accepted"},
                                               {AllocationPhase::kReady, "ready"},
                                               {AllocationPhase::kStarted, "started"},
                                               {AllocationPhase::kExited, "exited"},
                                               {AllocationPhase::kReleased, "released"},
                                               {AllocationPhase::kDropped, "dropped"}}};

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string SignalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "unknown signal";
}

}  // namespace

std::string_view ToString(StartKind v) { return kStart.Print(v); }
std::string_view ToString(StopCause v) { return kCause.Print(v); }
std::string_view ToString(AllocationPhase v) { return kPhase.Print(v); }

bool Succeeded(const ExitReport& report) {
  const auto* exited = std::get_if<Exited>(&report.cause);
  return exited != nullptr && exited->code == 0 && !EndedByLease(report);
}

bool EndedByLease(const ExitReport& report) {
  return std::any_of(report.our_signals.begin(), report.our_signals.end(),
                     [](const OurSignal& sent) { return sent.why == ToString(StopCause::kLease); });
}

int ShellCode(const ExitCause& cause) {
  return std::visit(Overloaded{
                        [](const Exited& e) { return e.code; },
                        [](const Signalled& s) { return 128 + s.signal; },
                        [](const OutOfMemory&) { return 137; },
                        [](const FailedToStart&) { return 126; },
                        [](const UnknownEnd&) { return 255; },
                    },
                    cause);
}

std::string Describe(const ExitCause& cause) {
  return std::visit(
      Overloaded{
          [](const Exited& e) { return "exit " + std::to_string(e.code); },
          [](const Signalled& s) {
            return "signal " + std::to_string(s.signal) + " (" + SignalName(s.signal) +
                   (s.core ? ", core dumped)" : ")");
          },
          [](const OutOfMemory& o) {
            return "out of host memory (" + o.scope + " limit " + FormatBytes(o.limit_bytes) + ")";
          },
          [](const FailedToStart& f) {
            return "failed to start (" + f.stage + (f.text.empty() ? "" : ": " + f.text) + ")";
          },
          [](const UnknownEnd& u) { return "unknown (" + u.why + ")"; },
      },
      cause);
}

}  // namespace launch
