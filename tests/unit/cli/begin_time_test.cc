#include "cli/begin_time.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace launch {
namespace {

// 2026-11-30T12:00:00Z
constexpr std::int64_t kNow = 1'796'040'000'000;

std::string InUtc(Result<WallTime> time) {
  if (!time) return "refused: " + time.error().message;
  const auto seconds = static_cast<std::time_t>(ToMs(*time) / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

class Begin : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC-2", 1);  // two hours east
    ::tzset();
  }
  void TearDown() override {
    ::unsetenv("TZ");
    ::tzset();
  }
  static std::string At(std::string_view text) { return InUtc(ParseBegin(text, WallMs(kNow))); }
};

TEST_F(Begin, IsLocalTimeUnlessAZoneSaysOtherwise) {
  EXPECT_EQ(At("2026-12-01T20:00"), "2026-12-01T18:00:00");
  EXPECT_EQ(At("2026-12-01 20:00:30"), "2026-12-01T18:00:30");
  EXPECT_EQ(At("2026-12-01T20:00Z"), "2026-12-01T20:00:00");
  EXPECT_EQ(At("2026-12-01T20:00+05:30"), "2026-12-01T14:30:00");
  EXPECT_EQ(At("2026-12-01T20:00-0100"), "2026-12-01T21:00:00");
  EXPECT_EQ(At("2026-12-01"), "2026-11-30T22:00:00");
}

TEST_F(Begin, OfAClockIsItsNextTime) {
  EXPECT_EQ(At("14:30"), "2026-11-30T12:30:00") << "later today";
  EXPECT_EQ(At("13:00"), "2026-12-01T11:00:00") << "over for today";
  EXPECT_EQ(At("tomorrow"), "2026-11-30T22:00:00");
}

TEST_F(Begin, CountsFromNow) {
  EXPECT_EQ(At("now"), "2026-11-30T12:00:00");
  EXPECT_EQ(At("now+2h"), "2026-11-30T14:00:00");
  EXPECT_EQ(At("+90m"), "2026-11-30T13:30:00");
}

TEST_F(Begin, RefusesWhatIsNoTime) {
  for (const char* text : {"", "soon", "2026-13-01", "2026-02-30", "25:00", "2026-12-01T",
                           "2026-12-01T20:00+99:00", "2026-12-01T20:00x", "now+", "now+2"})
    EXPECT_TRUE(At(text).starts_with("refused")) << text << " is " << At(text);
}

}  // namespace
}  // namespace launch
