#include "agent/shim/shim_step.h"

namespace launch::shim {
namespace {

using S = State;

// Rows are states, columns are events in the order of the enum.
constexpr Step kTable[kStates][kEvents] = {
    // kPreparing
    {
        {S::kStarting, kFork},      // kPrepared
        {S::kDone, kLeave},         // kPrepareFailed
        {S::kPreparing, kNothing},  // kForkFailed
        {S::kPreparing, kNothing},  // kExecSucceeded
        {S::kPreparing, kNothing},  // kExecFailed
        {S::kPreparing, kNothing},  // kRankEnded
        {S::kPreparing, kNothing},  // kRecordWritten
        {S::kPreparing, kNothing},  // kRecordFailed
        {S::kPreparing, kNothing},  // kRetryDue
        {S::kPreparing, kNothing},  // kNoChildLeft
        {S::kPreparing, kNothing},  // kSignalRank
        {S::kPreparing, kNothing},  // kSignalGroup
        {S::kPreparing, kNothing},  // kKillAll
        {S::kPreparing, kNothing},  // kSignalOrphans
    },
    // kStarting
    {
        {S::kStarting, kNothing},       // kPrepared
        {S::kStarting, kNothing},       // kPrepareFailed
        {S::kRecording, kWriteRecord},  // kForkFailed
        {S::kRunning, kNoteStarted},    // kExecSucceeded
        {S::kRecording, kWriteRecord},  // kExecFailed
        {S::kRecording, kWriteRecord},  // kRankEnded: died before it could say why
        {S::kStarting, kNothing},       // kRecordWritten
        {S::kStarting, kNothing},       // kRecordFailed
        {S::kStarting, kNothing},       // kRetryDue
        {S::kStarting, kNothing},       // kNoChildLeft
        {S::kStarting, kSendToRank},    // kSignalRank
        {S::kStarting, kSendToRank},    // kSignalGroup: may not have its own group yet
        {S::kStarting, kKillChildren},  // kKillAll
        {S::kStarting, kNothing},       // kSignalOrphans
    },
    // kRunning
    {
        {S::kRunning, kNothing},        // kPrepared
        {S::kRunning, kNothing},        // kPrepareFailed
        {S::kRunning, kNothing},        // kForkFailed
        {S::kRunning, kNothing},        // kExecSucceeded
        {S::kRunning, kNothing},        // kExecFailed
        {S::kRecording, kWriteRecord},  // kRankEnded
        {S::kRunning, kNothing},        // kRecordWritten
        {S::kRunning, kNothing},        // kRecordFailed
        {S::kRunning, kNothing},        // kRetryDue
        {S::kRunning, kNothing},        // kNoChildLeft
        {S::kRunning, kSendToRank},     // kSignalRank
        {S::kRunning, kSendToGroup},    // kSignalGroup
        {S::kRunning, kKillChildren},   // kKillAll
        {S::kRunning, kNothing},        // kSignalOrphans: its group is sent to
    },
    // kRecording
    {
        {S::kRecording, kNothing},         // kPrepared
        {S::kRecording, kNothing},         // kPrepareFailed
        {S::kRecording, kNothing},         // kForkFailed
        {S::kRecording, kNothing},         // kExecSucceeded
        {S::kRecording, kNothing},         // kExecFailed
        {S::kRecording, kNothing},         // kRankEnded
        {S::kReaping, kReap},              // kRecordWritten
        {S::kRecording, kArmRetry},        // kRecordFailed
        {S::kRecording, kWriteRecord},     // kRetryDue
        {S::kRecording, kNothing},         // kNoChildLeft: the record comes first
        {S::kRecording, kNothing},         // kSignalRank: it has ended
        {S::kRecording, kSendToChildren},  // kSignalGroup
        {S::kRecording, kKillChildren},    // kKillAll
        {S::kRecording, kSendToOrphans},   // kSignalOrphans
    },
    // kReaping
    {
        {S::kReaping, kNothing},         // kPrepared
        {S::kReaping, kNothing},         // kPrepareFailed
        {S::kReaping, kNothing},         // kForkFailed
        {S::kReaping, kNothing},         // kExecSucceeded
        {S::kReaping, kNothing},         // kExecFailed
        {S::kReaping, kNothing},         // kRankEnded
        {S::kReaping, kNothing},         // kRecordWritten
        {S::kReaping, kNothing},         // kRecordFailed
        {S::kReaping, kNothing},         // kRetryDue
        {S::kDone, kLeave},              // kNoChildLeft
        {S::kReaping, kNothing},         // kSignalRank
        {S::kReaping, kSendToChildren},  // kSignalGroup
        {S::kReaping, kKillChildren},    // kKillAll
        {S::kReaping, kSendToOrphans},   // kSignalOrphans
    },
    // kDone
    {
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
        {S::kDone, kNothing},
    },
};

}  // namespace

Step Next(State state, Event event) {
  return kTable[static_cast<int>(state)][static_cast<int>(event)];
}

}  // namespace launch::shim
