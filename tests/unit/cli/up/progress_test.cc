#include "cli/up/progress.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/table.h"

namespace launch::up {
namespace {

using Lines = std::vector<std::string>;

TEST(Progress, ShowsEachHostWithStateBytesAndTime) {
  ProgressTable table({"na", "nb-long", "nc", "nd"});
  table.Take({.host = "na", .stage = Stage::kConnecting}, Millis(0));
  table.Take({.host = "na", .stage = Stage::kSending, .sent = 1 << 20, .total = 4 << 20},
             Millis(1000));
  table.Take({.host = "nb-long", .stage = Stage::kConnecting}, Millis(1000));
  table.Take({.host = "nb-long", .stage = Stage::kFailed, .why = "its glibc is 2.31"},
             Millis(3000));
  table.Take({.host = "nc", .stage = Stage::kConnecting}, Millis(0));
  table.Take({.host = "nc", .stage = Stage::kSending, .sent = 4 << 20, .total = 4 << 20},
             Millis(2000));
  table.Take({.host = "nc", .stage = Stage::kReady}, Millis(5000));
  const Lines lines = table.Lines(80, 24, Millis(70'000));
  EXPECT_EQ(lines, (Lines{
                       "HOST     SENT          TIME   STATE",
                       "na       1MiB of 4MiB  1m10s  sending",
                       "nb-long  -             2s     failed: its glibc is 2.31",
                       "nc       4MiB          5s     ready",
                       "nd       -             -      waiting",
                       "1 of 4 done, 1 failed, 1 at work",
                   }));
}

TEST(Progress, NoLineIsWiderThanTheTerminal) {
  ProgressTable table({"na"});
  table.Take({.host = "na", .stage = Stage::kFailed, .why = std::string(300, 'x')}, Millis(0));
  for (const int width : {1, 3, 10, 40, 79}) {
    for (const std::string& line : table.Lines(width, 24, Millis(0)))
      EXPECT_LE(DisplayWidth(line), static_cast<std::size_t>(width));
  }
}

TEST(Progress, WithLittleRoomFailedAndBusyHostsStayInSight) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 100; ++i) hosts.push_back("gpu" + std::to_string(i));
  ProgressTable table(hosts);
  for (int i = 0; i < 90; ++i) table.Take({.host = hosts[i], .stage = Stage::kReady}, Millis(1));
  table.Take({.host = "gpu95", .stage = Stage::kSending, .sent = 1, .total = 2}, Millis(1));
  table.Take({.host = "gpu7", .stage = Stage::kFailed, .why = "no"}, Millis(1));
  const Lines lines = table.Lines(79, 6, Millis(2));
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_TRUE(lines[1].starts_with("gpu7 ")) << lines[1];
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.starts_with("gpu95 "); }));
  EXPECT_EQ(lines.back(), "89 of 100 done, 1 failed, 1 at work; 96 more not shown");
}

TEST(Progress, AHostThatIsTriedAgainIsAtWorkAgain) {
  ProgressTable table({"na"});
  table.Take({.host = "na", .stage = Stage::kReady}, Millis(10));
  table.Take({.host = "na", .stage = Stage::kLooking}, Millis(20));
  EXPECT_EQ(table.Lines(79, 24, Millis(30)).back(), "0 of 1 done, 1 at work");
}

TEST(Progress, WhatAnotherMachineSaysCannotMoveTheCursor) {
  ProgressTable table({"na"});
  table.Take(
      {.host = "na", .stage = Stage::kFailed, .why = "a\x1b[2Jb\nc\x7f d\xc2\x9b e\xe2\x80\xae"},
      Millis(0));
  for (const std::string& line : table.Lines(79, 24, Millis(0)))
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20 && c < 0x7f; }))
        << line;
}

TEST(Progress, HostsThatNobodyAskedForAreLeftOut) {
  ProgressTable table({"na"});
  table.Take({.host = "nz", .stage = Stage::kReady}, Millis(0));
  EXPECT_EQ(table.Lines(79, 24, Millis(0)).back(), "0 of 1 done");
}

// What a terminal shows after these characters: enough of one for Repaint.
Lines Shown(const std::string& text) {
  Lines screen(1);
  std::size_t row = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      std::size_t number = 0;
      for (i += 2; std::isdigit(static_cast<unsigned char>(text[i])) != 0; ++i)
        number = number * 10 + static_cast<std::size_t>(text[i] - '0');
      if (text[i] == 'A') row -= number;
      if (text[i] == 'J') {
        screen.resize(row + 1);
        screen[row].clear();
      }
      continue;  // K: the line was begun anew by \r below
    }
    if (text[i] == '\r') {
      screen[row].clear();
    } else if (text[i] == '\n') {
      if (++row == screen.size()) screen.emplace_back();
    } else {
      screen[row] += text[i];
    }
  }
  return screen;
}

TEST(Progress, ASmallerPictureLeavesNothingOfALargerOne) {
  const std::string first = Repaint(0, {"one", "two", "three"});
  const std::string second = Repaint(3, {"four"});
  EXPECT_EQ(Shown(first), (Lines{"one", "two", "three", ""}));
  EXPECT_EQ(Shown(first + second), (Lines{"four", ""}));
  EXPECT_EQ(Shown(first + second + Repaint(1, {})), (Lines{""}));
}

}  // namespace
}  // namespace launch::up
