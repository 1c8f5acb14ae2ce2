#include "diagnosis/log_scanner.h"

#include <gtest/gtest.h>

#include "diagnosis/log_line.h"
#include "diagnosis/rank_end.h"
#include "tests/unit/diagnosis/of_log.h"

namespace launch {
namespace {

std::string LabelOf(const LogEvidence& log) {
  NodeEvidence node;
  node.exit_code = 1;
  return Judge(log, node, Table()).label;
}

TEST(Filter, FindsEachOccurrenceOnceAtEveryAlignment) {
  const LiteralFilter filter({"needle-one", "needles"});
  for (std::size_t pad = 0; pad < 9; ++pad) {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    filter.Find(std::string(pad, '.') + "needle-one..needles",
                [&](std::size_t phrase, std::size_t at) {
                  found.push_back({phrase, at});
                });
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0], std::pair(std::size_t{0}, pad));
    EXPECT_EQ(found[1], std::pair(std::size_t{1}, pad + 12));
  }
}

TEST(Lines, LoseEscapesControlsAndBrokenUtf8) {
  EXPECT_EQ(CleanText("\x1b[1;31mred\x1b[0m \x1b]0;title\a"
                      "end\x07"),
            "red end");
  EXPECT_EQ(CleanText(std::string_view("a\0b\xff\xc3\xa9", 6)), "ab?\xc3\xa9");
  EXPECT_EQ(CleanText("a\xC2\x9B"
                      "2Jb\xE2\x80\xAE"
                      "c\xE2\x82\xAC"),
            "a2Jbc\xE2\x82\xAC");
  EXPECT_EQ(CleanText("\x1b["), "");
}

TEST(Lines, TellTheRankOfTheirPrefix) {
  const auto rank = [](std::string_view text) { return ReadLine(text).rank; };
  EXPECT_EQ(rank("[rank3]: KeyError"), 3);
  EXPECT_EQ(rank("[default2]:KeyError"), 2);
  EXPECT_EQ(rank("[1,7]<stderr>:KeyError"), 7);
  EXPECT_EQ(rank("12: KeyError"), 12);
  EXPECT_EQ(rank("[E ProcessGroupNCCL.cpp:1] [Rank 5] Watchdog"), 5);
  EXPECT_EQ(rank("KeyError: 3"), std::nullopt);
  EXPECT_EQ(ReadLine("gpu01: KeyError: 3").text, "KeyError: 3");
  EXPECT_EQ(ReadLine("gpu01: KeyError: 3").host, "gpu01");
  EXPECT_EQ(ReadLine("RuntimeError: x").text, "RuntimeError: x");
  EXPECT_EQ(ReadLine("2024-01-02 03:04:05,678 KeyError: 3").text, "KeyError: 3");
}

TEST(Ends, AreReadInEveryLaunchersWords) {
  EXPECT_EQ(DecodeExitCode(137).signal, 9);
  EXPECT_EQ(DecodeExitCode(-11).signal, 11);
  EXPECT_EQ(DecodeExitCode(247).signal, 9);
  EXPECT_EQ(DecodeExitCode(33).exit_code, 33);
  RankEndReader reader;
  EXPECT_EQ(reader.Read("failed (exitcode: -7) local_rank: 2 (pid: 3) of binary: p", {})->rank, 2);
  EXPECT_EQ(reader.Read("srun: error: n1: task 4: Killed", {})->rank, 4);
  EXPECT_EQ(reader.Read("process 1 terminated with signal SIGSEGV", {})->signal, 11);
  EXPECT_EQ(reader.Read("' died with <Signals.SIGABRT: 6>.", {})->signal, 6);
  EXPECT_FALSE(reader.Read("return code = 0", {}));
  const auto ours = reader.Read(
      "launch: first failing rank of torchrun: 3 (local rank 1): signal 9 (SIGKILL)", 0);
  EXPECT_EQ(ours->rank, 3);
  EXPECT_EQ(ours->signal, 9);
  EXPECT_TRUE(ours->root);
  EXPECT_EQ(reader.Read("launch: first failing rank of deepspeed: 5 (local rank 1): exit 33", {})
                ->exit_code,
            33);
}

TEST(Scanner, SeesTheSameInPiecesOfAnySize) {
  std::string log;
  for (int i = 0; i < 4000; ++i) log += "step " + std::to_string(i) + " loss 2.0\n";
  log +=
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nZeroDivisionError: x\n";
  for (const std::size_t size : {1ul, 7ul, 4096ul, 1000000ul}) {
    LogScanner scanner(Table());
    for (std::size_t at = 0; at < log.size(); at += size)
      scanner.Feed(std::string_view(log).substr(at, size));
    const LogEvidence evidence = scanner.Finish();
    EXPECT_EQ(evidence.bytes, log.size());
    EXPECT_EQ(LabelOf(evidence), "python_exception") << size;
  }
}

TEST(Scanner, FindsWhatStandsInTheMiddleOfManyMegabytes) {
  LogScanner scanner(Table());
  std::string part;
  while (part.size() < 3u << 20) part += "epoch 1 step 100 loss 2.345 lr 0.001\n";
  scanner.Feed(part);
  scanner.Feed("RuntimeError: CUDA error: device-side assert triggered\n");
  scanner.Feed(part);
  EXPECT_EQ(LabelOf(scanner.Finish()), "device_side_assert");
}

TEST(Scanner, ReadsALineWithoutEnd) {
  LogScanner scanner(Table());
  const std::string part(1u << 20, 'x');
  for (int i = 0; i < 8; ++i) scanner.Feed(part);
  scanner.Feed(" CUDA error: device-side assert triggered ");
  for (int i = 0; i < 8; ++i) scanner.Feed(part);
  const LogEvidence evidence = scanner.Finish();
  EXPECT_EQ(LabelOf(evidence), "device_side_assert");
  for (const LogHit& hit : evidence.hits) EXPECT_LE(hit.text.size(), kLongestEvidence + 3);
}

TEST(Scanner, KeepsFewHitsOfALogFullOfErrors) {
  LogScanner scanner(Table());
  std::string part;
  for (int i = 0; i < 20000; ++i) part += "ValueError: bad row " + std::to_string(i) + "\n";
  for (int i = 0; i < 10; ++i) scanner.Feed(part);
  scanner.Feed("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n");
  const LogEvidence evidence = scanner.Finish();
  EXPECT_LT(evidence.hits.size(), 400u);
  EXPECT_EQ(LabelOf(evidence), "cuda_oom");
}

// Steps of many ranks between an error that was survived and the end.
TEST(Scanner, KnowsTheLastStepsOfEachOfManyRanks) {
  LogScanner scanner(Table());
  std::string log;
  const auto steps = [&](int from) {
    for (int step = from; step < from + 3; ++step)
      for (int rank = 0; rank < 128; ++rank)
        log += "[rank" + std::to_string(rank) + "]: step " + std::to_string(step) + " loss 1.5\n";
  };
  steps(1);
  log += "[rank7]: OSError: [Errno 116] Stale file handle: '/nfs/a', tried again\n";
  steps(4);
  log += "[rank7]: Traceback (most recent call last):\n[rank7]: KeyError: 'name'\n";
  scanner.Feed(log);
  EXPECT_EQ(LabelOf(scanner.Finish()), "python_exception");
}

TEST(Scanner, TakesSourceInARichBoxForCode) {
  EXPECT_EQ(Of("\u256d\u2500 Traceback (most recent call last) \u2500\u256e\n"
               "\u2502 /home/u/train.py:81 in main \u2502\n"
               "\u2502 \u2771  81 \u2502   raise Full(\"No space left on device\") \u2502\n"
               "\u2570\u2500\u2500\u256f\nNameError: name 'Full' is not defined\n")
                .label,
            "python_exception");
}

TEST(Exceptions, HaveTheirPlaceAndTheirWholeMessage) {
  const Verdict syntax =
      Of("  File \"rank.py\", line 3\n    x = (\n        ^\n"
         "SyntaxError: '(' was never closed\n");
  EXPECT_EQ(syntax.label, "python_exception");
  EXPECT_NE(syntax.remedy.find("\"rank.py\", line 3"), std::string::npos) << syntax.remedy;
  const Verdict late =
      Of("Traceback (most recent call last):\n  File \"a.py\", line 9, in f\n"
         "    raise RuntimeError(\nRuntimeError:\n  the shards differ in size\n");
  EXPECT_NE(late.cause.find("the shards differ in size"), std::string::npos) << late.cause;
}

TEST(Scanner, TakesNulsEscapesAndBinaryForWhatTheyAre) {
  std::string junk;
  for (int i = 0; i < 1 << 16; ++i) junk += static_cast<char>((i * 2654435761u) >> 13);
  LogScanner scanner(Table());
  for (int i = 0; i < 40; ++i) scanner.Feed(junk);
  EXPECT_EQ(LabelOf(scanner.Finish()), "unknown");
  LogScanner coloured(Table());
  constexpr char kColoured[] =
      "Val\x1b[1mueError\0: bad\nTorch not comp\x1b[0miled with CUDA enabled\n";
  coloured.Feed(std::string_view(kColoured, sizeof kColoured - 1));
  EXPECT_EQ(LabelOf(coloured.Finish()), "torch_cpu_only");
}

TEST(Scanner, JoinsAPhraseThatATerminalBroke) {
  LogScanner scanner(Table());
  scanner.Feed(
      "[c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Addre\nss alr"
      "eady in use).\n");
  EXPECT_EQ(LabelOf(scanner.Finish()), "port_in_use");
}

TEST(Scanner, PutsATracebackOfOneRankTogether) {
  LogScanner scanner(Table());
  scanner.Feed(
      "[rank2]: Traceback (most recent call last):\n[rank5]: step 3\n"
      "[rank2]:   File \"a.py\", line 9, in g\n[rank2]:     h()\nstep 4\n"
      "[rank2]: my.pkg.ShapeMismatch: 3 against 4\n");
  const LogEvidence evidence = scanner.Finish();
  NodeEvidence node;
  node.exit_code = 1;
  const Verdict verdict = Judge(evidence, node, Table());
  EXPECT_EQ(verdict.rank, 2);
}

}  // namespace
}  // namespace launch
