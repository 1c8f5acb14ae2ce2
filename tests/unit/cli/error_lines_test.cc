#include "cli/error_lines.h"

#include <gtest/gtest.h>

#include "cli/log_printer.h"

namespace launch {
namespace {

TEST(ErrorLines, ShowATracebackFromItsFirstLineToTheException) {
  ErrorLines errors;
  EXPECT_FALSE(errors.Take("step 10/100 loss 2.1"));
  EXPECT_TRUE(errors.Take("Traceback (most recent call last):"));
  EXPECT_TRUE(errors.Take("  File \"train.py\", line 3, in <module>"));
  EXPECT_TRUE(errors.Take("    main()"));
  EXPECT_TRUE(errors.Take("KeyboardInterrupt"));
  EXPECT_FALSE(errors.Take("saving before the end"));
}

TEST(ErrorLines, ReadTracebacksBehindTheRankThatTorchNames) {
  for (const std::string rank : {"[rank1]: ", "[rank12]:", "[default0]:"}) {
    ErrorLines errors;
    EXPECT_TRUE(errors.Take(rank + "Traceback (most recent call last):"));
    EXPECT_TRUE(errors.Take(rank + "  File \"train.py\", line 3, in <module>"));
    EXPECT_TRUE(errors.Take(rank + "    loss = batch['loss']"));
    EXPECT_TRUE(errors.Take(rank + "KeyError: 'loss'"));
    EXPECT_FALSE(errors.Take(rank + "step 11"));
    EXPECT_FALSE(errors.Take("[rank]: step 12"));
  }
}

TEST(ErrorLines, FollowAChainOfExceptions) {
  ErrorLines errors;
  errors.Take("Traceback (most recent call last):");
  EXPECT_TRUE(errors.Take("KeyError: 'x'"));
  EXPECT_FALSE(errors.Take("step 11"));
  errors.Take("Traceback (most recent call last):");
  EXPECT_TRUE(errors.Take("During handling of the above exception, another exception occurred:"));
  EXPECT_TRUE(errors.Take(""));
  EXPECT_TRUE(errors.Take("Traceback (most recent call last):"));
  EXPECT_TRUE(errors.Take("my.Stop: now"));
}

TEST(ErrorLines, KnowTheWordsOfErrorsAndPassOverGoodNews) {
  ErrorLines errors;
  for (const char* line :
       {"RuntimeError: CUDA error: an illegal memory access", "Segmentation fault (core dumped)",
        "[rank1]: [E ProcessGroupNCCL.cpp] Watchdog caught collective operation timeout",
        "gpu01:1:2 [0] NCCL WARN Connect to 10.0.0.1 failed"})
    EXPECT_TRUE(errors.Take(line)) << line;
  for (const char* line : {"12 passed, 0 failed", "loss 0.3", "checked: 0 errors"})
    EXPECT_FALSE(errors.Take(line)) << line;
}

LogChunk Chunk(Rank rank, std::uint64_t offset, std::string data, std::int64_t wall_ms) {
  LogChunk chunk;
  chunk.attempt = Attempt{1};
  chunk.rank = rank;
  chunk.stream = "out";
  chunk.offset = offset;
  chunk.data = std::move(data);
  chunk.wall = WallMs(wall_ms);
  return chunk;
}

TEST(LogPrinterFilter, ShowsErrorsOfEachRankByItself) {
  std::string out;
  LogPrinter::Options options;
  options.errors = true;
  LogPrinter printer(
      options, [&](std::string_view text) { out += text; }, [](std::string_view) {});
  printer.Take(Chunk(0, 0, "Traceback (most recent call last):\n", 1));
  printer.Take(Chunk(1, 0, "  indented, and no error\n", 2));
  printer.Take(Chunk(0, 35, "  File \"a.py\"\nValueError: no\nstep 2\n", 3));
  printer.Finish();
  EXPECT_EQ(out,
            "[0] Traceback (most recent call last):\n[0]   File \"a.py\"\n[0] ValueError: no\n");
}

TEST(LogPrinterFilter, LeavesOutWhatIsOlder) {
  std::string out;
  LogPrinter::Options options;
  options.since = WallMs(100);
  LogPrinter printer(
      options, [&](std::string_view text) { out += text; }, [](std::string_view) {});
  printer.Take(Chunk(0, 0, "old\n", 50));
  printer.Take(Chunk(0, 4, "new\n", 150));
  printer.Finish();
  EXPECT_EQ(out, "[0] new\n");
}

}  // namespace
}  // namespace launch
