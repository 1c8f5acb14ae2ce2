// The whole behaviour of a shim as a table: (state, event) -> (next state, actions). Pure.
#pragma once

#include <cstdint>

namespace launch::shim {

enum class State : std::uint8_t {
  kPreparing,  // start and exit records are not yet durable; no rank exists
  kStarting,   // forked; execve has not answered
  kRunning,    // the rank executes its program
  kRecording,  // the rank ended; its exit record is not yet durable
  kReaping,    // exit record durable; descendants of the rank are left
  kDone,
};
inline constexpr int kStates = 6;

enum class Event : std::uint8_t {
  kPrepared,       // records are durable
  kPrepareFailed,  // they are not: nothing was started, the agent sees this shim's exit code
  kForkFailed,
  kExecSucceeded,
  kExecFailed,  // a step between fork and execve failed
  kRankEnded,   // the rank was reaped
  kRecordWritten,
  kRecordFailed,  // disk full or sick: the record stays in memory
  kRetryDue,
  kNoChildLeft,
  kSignalRank,  // commands
  kSignalGroup,
  kKillAll,
  kSignalOrphans,
};
inline constexpr int kEvents = 14;

// Bits; the driver carries them out in this order.
enum Action : std::uint32_t {
  kNothing = 0,
  kFork = 1u << 0,
  kNoteStarted = 1u << 1,  // write the rank's record into `start`
  kSendToRank = 1u << 2,
  kSendToGroup = 1u << 3,
  kSendToChildren = 1u << 4,  // the rank is gone: to what it left
  kKillChildren = 1u << 5,    // now, and again after each child that ends
  kWriteRecord = 1u << 6,
  kArmRetry = 1u << 7,
  kReap = 1u << 8,  // ask whether children are left
  kLeave = 1u << 9,
  kSendToOrphans = 1u << 10,  // the rank is gone: to what it left outside of its process group
};

struct Step {
  State next = State::kDone;
  std::uint32_t actions = kNothing;
  friend bool operator==(const Step&, const Step&) = default;
};

// Pairs that cannot happen leave the state and do nothing.
Step Next(State state, Event event);

}  // namespace launch::shim
