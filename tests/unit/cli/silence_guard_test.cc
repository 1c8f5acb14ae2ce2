#include "cli/silence_guard.h"

#include <gtest/gtest.h>

#include <future>

namespace launch {
namespace {

TEST(SilenceGuard, FiresOnceNothingIsHeard) {
  std::promise<void> silent;
  SilenceGuard guard(Millis(1), [&] { silent.set_value(); });
  silent.get_future().wait();
  EXPECT_TRUE(guard.fired());
}

TEST(SilenceGuard, EndsWithoutWaitingForItsTime) {
  SilenceGuard guard(Millis(3'600'000), [] { FAIL() << "nothing was silent"; });
  guard.Heard();
  guard.Listen();
  EXPECT_FALSE(guard.fired());
}

}  // namespace
}  // namespace launch
