#include "agent/shim/shim_step.h"

#include <gtest/gtest.h>

#include <vector>

namespace launch::shim {
namespace {

// The states and actions of a run of events from the start.
struct Walk {
  State state = State::kPreparing;
  std::vector<std::uint32_t> actions;
};
Walk Follow(const std::vector<Event>& events) {
  Walk walk;
  for (const Event event : events) {
    const Step step = Next(walk.state, event);
    walk.state = step.next;
    walk.actions.push_back(step.actions);
  }
  return walk;
}

TEST(ShimStep, LivesFromPreparationToTheLastChild) {
  const Walk walk = Follow({Event::kPrepared, Event::kExecSucceeded, Event::kRankEnded,
                            Event::kRecordWritten, Event::kNoChildLeft});
  EXPECT_EQ(walk.state, State::kDone);
  EXPECT_EQ(walk.actions,
            (std::vector<std::uint32_t>{kFork, kNoteStarted, kWriteRecord, kReap, kLeave}));
}

TEST(ShimStep, NeverForksWhenItsRecordsAreNotDurable) {
  const Walk walk = Follow({Event::kPrepareFailed, Event::kPrepared});
  EXPECT_EQ(walk.state, State::kDone);
  EXPECT_EQ(walk.actions, (std::vector<std::uint32_t>{kLeave, kNothing}));
}

TEST(ShimStep, NeverLeavesWithoutARecord) {
  for (int state = 0; state < kStates; ++state) {
    for (int event = 0; event < kEvents; ++event) {
      const Step step = Next(static_cast<State>(state), static_cast<Event>(event));
      if ((step.actions & kLeave) == 0) continue;
      const bool reaped = static_cast<State>(state) == State::kReaping;
      const bool nothing_started = static_cast<Event>(event) == Event::kPrepareFailed;
      EXPECT_TRUE(reaped || nothing_started) << state << " " << event;
    }
  }
}

TEST(ShimStep, RetriesTheRecordUntilTheDiskTakesIt) {
  const Walk walk = Follow({Event::kPrepared, Event::kExecSucceeded, Event::kRankEnded,
                            Event::kRecordFailed, Event::kNoChildLeft, Event::kRetryDue,
                            Event::kRecordFailed, Event::kRetryDue, Event::kRecordWritten});
  EXPECT_EQ(walk.state, State::kReaping);
  EXPECT_EQ(walk.actions[3], kArmRetry);
  EXPECT_EQ(walk.actions[4], kNothing) << "no child left, but no record either";
  EXPECT_EQ(walk.actions[5], kWriteRecord);
}

TEST(ShimStep, RecordsAFailedStart) {
  EXPECT_EQ(Follow({Event::kPrepared, Event::kExecFailed}).actions.back(), kWriteRecord);
  EXPECT_EQ(Follow({Event::kPrepared, Event::kForkFailed}).actions.back(), kWriteRecord);
  EXPECT_EQ(Follow({Event::kPrepared, Event::kExecFailed, Event::kRankEnded}).actions.back(),
            kNothing)
      << "one record, even though the failed child is reaped too";
}

TEST(ShimStep, ForksOnceAndOnlyFromPreparing) {
  for (int state = 1; state < kStates; ++state) {
    for (int event = 0; event < kEvents; ++event) {
      const Step step = Next(static_cast<State>(state), static_cast<Event>(event));
      EXPECT_EQ(step.actions & kFork, 0u);
    }
  }
}

TEST(ShimStep, KillsWhateverIsThereInEveryStateWithARank) {
  for (const State state :
       {State::kStarting, State::kRunning, State::kRecording, State::kReaping}) {
    EXPECT_EQ(Next(state, Event::kKillAll), (Step{state, kKillChildren}));
  }
}

TEST(ShimStep, SendsNothingToARankThatIsGone) {
  for (const State state : {State::kRecording, State::kReaping, State::kDone}) {
    EXPECT_EQ(Next(state, Event::kSignalRank).actions & (kSendToRank | kSendToGroup), 0u);
    EXPECT_EQ(Next(state, Event::kSignalGroup).actions & (kSendToRank | kSendToGroup), 0u);
  }
}

TEST(ShimStep, SendsToWhatTheRankLeftOnlyOnceItIsGone) {
  for (const State state : {State::kPreparing, State::kStarting, State::kRunning}) {
    EXPECT_EQ(Next(state, Event::kSignalOrphans), (Step{state, kNothing}));
  }
  for (const State state : {State::kRecording, State::kReaping}) {
    EXPECT_EQ(Next(state, Event::kSignalOrphans), (Step{state, kSendToOrphans}));
    EXPECT_EQ(Next(state, Event::kSignalGroup), (Step{state, kSendToChildren}));
  }
}

TEST(ShimStep, NeverGoesBack) {
  for (int state = 0; state < kStates; ++state) {
    for (int event = 0; event < kEvents; ++event) {
      const Step step = Next(static_cast<State>(state), static_cast<Event>(event));
      EXPECT_GE(static_cast<int>(step.next), state);
    }
  }
}

}  // namespace
}  // namespace launch::shim
