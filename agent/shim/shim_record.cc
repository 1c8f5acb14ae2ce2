#include "agent/shim/shim_record.h"

namespace launch::shim {

const char* StageName(Stage stage) {
  switch (stage) {
    case Stage::kNone:
      return "none";
    case Stage::kSpec:
      return "spec";
    case Stage::kRecord:
      return "record";
    case Stage::kControl:
      return "control";
    case Stage::kFork:
      return "fork";
    case Stage::kCgroup:
      return "cgroup";
    case Stage::kSession:
      return "setsid";
    case Stage::kLimits:
      return "limits";
    case Stage::kIds:
      return "ids";
    case Stage::kLease:
      return "lease";
    case Stage::kNoNewPrivs:
      return "no_new_privs";
    case Stage::kAffinity:
      return "affinity";
    case Stage::kSignals:
      return "signals";
    case Stage::kChdir:
      return "chdir";
    case Stage::kStdio:
      return "stdio";
    case Stage::kExec:
      return "exec";
  }
  return "unknown";
}

}  // namespace launch::shim
