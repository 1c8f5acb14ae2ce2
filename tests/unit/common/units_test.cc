#include "common/units.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace launch {
namespace {

TEST(Duration, ReadsUnitsAndTheirSums) {
  EXPECT_EQ(*ParseDuration("250ms"), Millis{250});
  EXPECT_EQ(*ParseDuration("90s"), Millis{90'000});
  EXPECT_EQ(*ParseDuration("1d12h"), Millis{36 * 3600 * 1000});
  EXPECT_EQ(*ParseDuration("1.5h"), Millis{90 * 60 * 1000});
  EXPECT_EQ(*ParseDuration("0s"), Millis{0});
}

TEST(Duration, ReadsSlurmForms) {
  EXPECT_EQ(*ParseDuration("12:00:00"), Millis{12 * 3600 * 1000});
  EXPECT_EQ(*ParseDuration("1-00:00:01"), Millis{(86400 + 1) * 1000});
  EXPECT_EQ(*ParseDuration("2-03"), Millis{(2 * 24 + 3) * 3600 * 1000});
  EXPECT_EQ(*ParseDuration("1-12:30"), Millis{(36 * 60 + 30) * 60 * 1000});
}

TEST(Duration, NamesBothReadingsOfAnAmbiguousOne) {
  const auto bare = ParseDuration("15");
  ASSERT_FALSE(bare);
  EXPECT_NE(bare.error().message.find("15 seconds or 15 minutes"), std::string::npos);
  EXPECT_NE(ParseDuration("1").error().message.find("1 second or 1 minute"), std::string::npos);
  EXPECT_EQ(ParseDuration("1").error().message.find("seconds"), std::string::npos);
  const auto colon = ParseDuration("10:30");
  ASSERT_FALSE(colon);
  EXPECT_NE(colon.error().message.find("10 hours 30 minutes or 10 minutes 30 seconds"),
            std::string::npos);
}

TEST(Duration, RefusesWhatIsNone) {
  for (const char* text : {"", "-5m", "5", "5 m", "m5", "5y", "1:2:3:4", "1:60:00", "1:00:60",
                           "a:b:c", "99999999d", "1e9h", "--1", "1-", "-"}) {
    EXPECT_FALSE(ParseDuration(text)) << text;
  }
}

TEST(Duration, PrintsSlurmsColumnAndAShortForm) {
  EXPECT_EQ(FormatDuration(Millis{0}), "0:00");
  EXPECT_EQ(FormatDuration(Millis{3731'000}), "1:02:11");
  EXPECT_EQ(FormatDuration(Millis{(2 * 86400 + 3 * 3600) * 1000LL}), "2-03:00:00");
  EXPECT_EQ(FormatDurationShort(Millis{6 * 3600'000 + 10 * 60'000}), "6h10m");
  EXPECT_EQ(FormatDurationShort(Millis{45'000}), "45s");
  EXPECT_EQ(FormatDurationShort(Millis{86400'000}), "1d");
  EXPECT_EQ(FormatDurationShort(Millis{120}), "120ms");
}

// A zone that daylight saving time moves, east of Greenwich.
TEST(LocalIso, SaysItsZone) {
  const char* before = std::getenv("TZ");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
  ::tzset();
  EXPECT_EQ(FormatLocalIso(WallMs(1'796'156'200'000)), "2026-12-01T21:16:40+0100");
  EXPECT_EQ(FormatLocalIso(WallMs(1'780'000'000'000)), "2026-05-28T22:26:40+0200");
  if (before == nullptr)
    ::unsetenv("TZ");
  else
    ::setenv("TZ", kept.c_str(), 1);
  ::tzset();
}

TEST(Bytes, TellsDecimalFromBinary) {
  EXPECT_EQ(ParseBytes("200GB")->bytes, 200'000'000'000u);
  EXPECT_EQ(ParseBytes("16GiB")->bytes, 16 * kGiB);
  EXPECT_EQ(ParseBytes("1.5KiB")->bytes, 1536u);
  EXPECT_EQ(ParseBytes("512mib")->bytes, 512 * kMiB);
}

TEST(Bytes, ReadsABareSuffixAsBinaryAndSaysSo) {
  const auto bare = ParseBytes("16G");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->bytes, 16 * kGiB);
  EXPECT_TRUE(bare->bare_suffix);
  EXPECT_FALSE(ParseBytes("16GB")->bare_suffix);
}

TEST(Bytes, RefusesWhatIsNone) {
  for (const char* text : {"", "GB", "-1GB", "16", "16X", "1e30GB", "nanGB", "infGB", "+1GB"}) {
    EXPECT_FALSE(ParseBytes(text)) << text;
  }
}

TEST(Bytes, PrintsWithOneDecimal) {
  EXPECT_EQ(FormatBytes(97'871 * kMiB), "95.6GiB");
  EXPECT_EQ(FormatBytes(512 * kMiB), "512MiB");
  EXPECT_EQ(FormatBytes(17), "17B");
}

TEST(Numbers, AreStrict) {
  EXPECT_EQ(ParseInt("42"), 42);
  for (const char* text : {"", " 42", "42 ", "0x10", "+1", "1e5", "9223372036854775808"}) {
    EXPECT_FALSE(ParseInt(text)) << text;
  }
  EXPECT_EQ(ParseDouble("1e-5"), 1e-5);
  for (const char* text : {"", "nan", "inf", "+1", "1,5"}) EXPECT_FALSE(ParseDouble(text)) << text;
}

}  // namespace
}  // namespace launch
