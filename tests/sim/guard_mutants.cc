// Unit tests of guards with one of the planted bugs of common/planted.h switched on:
//   LAUNCH_PLANT=NAME guard_mutants [flags of gtest]
// A guard whose loss no test notices is not tested. These bugs lie outside of what the simulator
// runs. With LAUNCH_PLANT=none there is none, and all must pass.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "common/planted.h"

int main(int argc, char** argv) {
  using launch::Bug;
  const std::map<std::string, Bug> bugs = {{"lease-of-shim", Bug::kLeaseOfShim},
                                           {"lower-attempt", Bug::kLowerAttempt},
                                           {"unbounded-follower", Bug::kUnboundedFollower},
                                           {"unchecked-rows", Bug::kUncheckedRows},
                                           {"unchecked-call", Bug::kUncheckedCall},
                                           {"piped-output", Bug::kPipedOutput},
                                           {"prefix-ids", Bug::kPrefixIds},
                                           {"unsynced-store", Bug::kUnsyncedStore},
                                           {"unsynced-accept", Bug::kUnsyncedAccept},
                                           {"remembered-pid", Bug::kRememberedPid},
                                           {"unchecked-restart", Bug::kUncheckedRestart},
                                           {"lost-exit", Bug::kLostExit},
                                           {"none", Bug::kNone}};
  const char* name = std::getenv("LAUNCH_PLANT");
  const auto bug = bugs.find(name == nullptr ? "" : name);
  if (bug == bugs.end()) {
    std::fprintf(stderr, "guard_mutants: LAUNCH_PLANT names no bug of this program\n");
    return 0;  // not a caught bug
  }
  launch::planted_bug = bug->second;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
