#include "cli/log_printer.h"

#include <gtest/gtest.h>

#include "cli/render_json.h"

namespace launch {
namespace {

struct Printed {
  std::string out;
  std::string notes;
};

LogChunk Chunk(Rank rank, std::uint64_t offset, std::string data, std::int64_t wall_ms = 0,
               std::uint32_t attempt = 1) {
  return {Attempt{attempt}, rank, NodeId{"n1"}, "out", offset, std::move(data), WallMs(wall_ms)};
}

Printed Print(LogPrinter::Options options, const std::vector<LogPiece>& pieces) {
  Printed printed;
  LogPrinter printer(
      options, [&](std::string_view text) { printed.out += text; },
      [&](std::string_view text) { printed.notes += text; });
  for (const LogPiece& piece : pieces) printer.Take(piece);
  printer.Finish();
  return printed;
}

TEST(LogPrinter, PrefixesEveryLineWithItsRank) {
  EXPECT_EQ(Print({}, {Chunk(0, 0, "a\nb\n"), Chunk(1, 0, "c\n")}).out, "[0] a\n[0] b\n[1] c\n");
}

TEST(LogPrinter, WritesLinesInAnotherForm) {
  LogPrinter::Options options;
  options.merge = true;
  options.form = RankLineJson;
  LogChunk late = Chunk(1, 0, "a\r50%\r100%\n", 2000);
  late.stream = "err";
  EXPECT_EQ(Print(options, {late, Chunk(0, 0, "\033[1mb\xff\n", 1000)}).out,
            "{\"version\":1,\"time\":\"1970-01-01T00:00:01.000Z\",\"attempt\":1,\"node\":\"n1\","
            "\"rank\":0,\"stream\":\"out\",\"text\":\"\\u001b[1mb\xef\xbf\xbd\"}\n"
            "{\"version\":1,\"time\":\"1970-01-01T00:00:02.000Z\",\"attempt\":1,\"node\":\"n1\","
            "\"rank\":1,\"stream\":\"err\",\"text\":\"100%\"}\n");
}

TEST(LogPrinter, JoinsLinesThatArriveInPieces) {
  EXPECT_EQ(Print({}, {Chunk(0, 0, "hel"), Chunk(1, 0, "x\n"), Chunk(0, 3, "lo\n")}).out,
            "[1] x\n[0] hello\n");
}

TEST(LogPrinter, SaysWhereItGoesOnAndWhatItWasNotGiven) {
  std::string notes;
  LogPrinter printer(
      {}, [](std::string_view) {}, [&](std::string_view text) { notes += text; });
  printer.Take(Chunk(0, 0, "old", 0, 1));
  printer.Take(Chunk(0, 10, "last lines", 0, 2));
  EXPECT_EQ(notes, "== attempt 2 ==\n") << "what -n leaves out is not lost";
  EXPECT_EQ(printer.Positions(), (std::vector<LogPosition>{{Attempt{2}, 0, "out", 20}}));
  printer.Take(Chunk(0, 15, "lines and more", 0, 2));
  printer.Take(Chunk(0, 50, "x", 0, 2));
  EXPECT_EQ(notes, "== attempt 2 ==\n[0] 21 bytes were not received here\n");
}

TEST(LogPrinter, DoesNotCountNoBytesAsMissing) {
  EXPECT_EQ(Print({}, {LogGap{Attempt{1}, 0, 7, 7, "node silent"}}).notes,
            "[0] cannot be read on: node silent\n");
}

TEST(LogPrinter, ShowsALineWithoutNewlineAtTheEnd) {
  EXPECT_EQ(Print({}, {Chunk(0, 0, "no newline")}).out, "[0] no newline\n");
}

TEST(LogPrinter, KeepsTheLastStateOfAProgressBarOffATerminal) {
  EXPECT_EQ(
      Print({}, {Chunk(0, 0, "\r 1/3"), Chunk(0, 5, "\r 2/3"), Chunk(0, 10, "\r 3/3\nend\n")}).out,
      "[0]  3/3\n[0] end\n");
}

TEST(LogPrinter, ReadsWindowsLineEndsAsLines) {
  EXPECT_EQ(Print({}, {Chunk(0, 0, "a\r\nb\r\n")}).out, "[0] a\n[0] b\n");
}

TEST(LogPrinter, MovesTheBarOnTheLastLineOfATerminal) {
  LogPrinter::Options options;
  options.terminal = true;
  EXPECT_EQ(
      Print(options, {Chunk(0, 0, "\r 1/2"), Chunk(1, 0, "other\n"), Chunk(0, 5, "\r 2/2\n")}).out,
      "[0]  1/2\r\033[K[1] other\n[0]  2/2\n");
}

TEST(LogPrinter, MergesByTimeAndKeepsEachRanksOrder) {
  LogPrinter::Options options;
  options.merge = true;
  EXPECT_EQ(Print(options, {Chunk(0, 0, "a\n", 10), Chunk(0, 2, "b\n", 30), Chunk(0, 4, "c\n", 20),
                            Chunk(1, 0, "d\n", 15), Chunk(1, 2, "e\n", 40)})
                .out,
            "[0] a\n[1] d\n[0] b\n[0] c\n[1] e\n");
}

TEST(LogPrinter, SkipsBytesThatAReconnectBringsAgain) {
  EXPECT_EQ(Print({}, {Chunk(0, 0, "one\ntwo\n"), Chunk(0, 0, "one\ntwo\nthree\n"),
                       Chunk(0, 4, "two\nthree\n"), Chunk(0, 14, "four\n")})
                .out,
            "[0] one\n[0] two\n[0] three\n[0] four\n");
}

TEST(LogPrinter, NotesGapsEndsAndAttemptsBesideTheOutput) {
  const Printed printed = Print(
      {}, {Chunk(0, 0, "a\n"), LogGap{Attempt{1}, 0, 2, 1002, "punched"}, Chunk(0, 1002, "b\n"),
           LogEnd{Attempt{1}, 0, 1004, false, "node silent"}, Chunk(0, 0, "c\n", 0, 2)});
  EXPECT_EQ(printed.out, "[0] a\n[0] b\n[0] c\n");
  EXPECT_EQ(printed.notes,
            "[0] 1000 bytes are missing here (punched)\n[0] the log ends early: node silent\n"
            "== attempt 2 ==\n");
}

TEST(LogPrinter, AGapInOneStreamHidesNothingOfTheOther) {
  const auto err = [](std::uint64_t offset, const char* text) {
    LogChunk chunk = Chunk(0, offset, text);
    chunk.stream = "err";
    return chunk;
  };
  EXPECT_EQ(
      Print({}, {err(0, "e1\n"), LogGap{Attempt{1}, 0, 5'000, 5'000, "silent"}, err(3, "e2\n")})
          .out,
      "[0] e1\n[0] e2\n");
}

TEST(LogPrinter, StripsWhatCommandsATerminal) {
  EXPECT_EQ(CleanLine("a\033[31mred\033[0m\tb", true), "a\033[31mred\033[0m\tb");
  EXPECT_EQ(CleanLine("a\033[31mred\033[0m", false), "ared");
  EXPECT_EQ(CleanLine("\033[2J\033[H\033]0;title\adone\b\x07", true), "done");
  EXPECT_EQ(CleanLine("\033]52;c;cm0=\033\\x", true), "x");
  EXPECT_EQ(CleanLine("a\xE2\x80\xAE"
                      "b\xE2\x81\xA6"
                      "c",
                      true),
            "abc");
  EXPECT_EQ(CleanLine("\xC2\x9B"
                      "31mx",
                      true),
            "31mx");
  EXPECT_EQ(CleanLine("Zürich …", false), "Zürich …");
  EXPECT_EQ(CleanLine("cut \033[", true), "cut ");
}

TEST(LogPrinter, StripsTheSameFromEachLineOfAText) {
  EXPECT_EQ(CleanText("", false), "");
  EXPECT_EQ(CleanText("a\033[2J\n\033]0;evil\a\tb\n", false), "a\n\tb\n");
  EXPECT_EQ(CleanText("\033[31ma\033[0m\n\033]cut\nb", true), "\033[31ma\033[0m\n\nb");
}

TEST(LogPrinter, RawLeavesBytesAlone) {
  LogPrinter::Options options;
  options.raw = true;
  EXPECT_EQ(Print(options, {Chunk(0, 0, "\033[2Ja\r")}).out, "\033[2Ja\r");
}

TEST(LogPrinter, ALineWithoutEndDoesNotGrowForEver) {
  std::vector<LogPiece> pieces;
  std::uint64_t offset = 0;
  for (int i = 0; i < 40; ++i) {
    pieces.push_back(Chunk(0, offset, std::string(4096, 'x')));
    offset += 4096;
  }
  const std::string out = Print({}, pieces).out;
  EXPECT_GE(std::count(out.begin(), out.end(), '\n'), 2);
  EXPECT_EQ(std::count(out.begin(), out.end(), 'x'), 40 * 4096);
}

}  // namespace
}  // namespace launch
