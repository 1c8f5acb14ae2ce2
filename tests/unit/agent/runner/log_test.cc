// Rank logs by offset: gaps, last lines, time index, cap.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "agent/runner/kept_logs.h"
#include "agent/runner/log_keeper.h"
#include "agent/runner/log_reader.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

constexpr Key kKey{{8}, {1}};
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class LogTest : public testing::Test {
 protected:
  LogTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "launch-log-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
    rank_ = dir_ + "/allocations/8.1/rank.0";
    std::filesystem::create_directories(rank_);
  }
  ~LogTest() override { std::filesystem::remove_all(dir_); }
  void Append(const std::string& text) const {
    std::ofstream(rank_ + "/out", std::ios::binary | std::ios::app) << text;
  }
  std::uint64_t LastLines(std::uint32_t lines) {
    return LogReader(dir_).OffsetOfLastLines(kKey, 0, "out", lines).value();
  }

  std::string dir_;
  std::string rank_;
};

TEST_F(LogTest, ReadsFromAnOffsetAndIsNotCompleteWhileTheAttemptLives) {
  Append("hello world\n");
  LogReader reader(dir_);
  const auto piece = reader.Read(kKey, 0, "out", 6, 100);
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->data, "world\n");
  EXPECT_EQ(piece->next, 12u);
  EXPECT_FALSE(piece->complete);
  EXPECT_EQ(reader.Read(kKey, 0, "out", 0, 5)->data, "hello");
  EXPECT_TRUE(reader.Read(kKey, 0, "out", 12, 5)->data.empty());
}

TEST_F(LogTest, IsCompleteOnceReleasedOrForgotten) {
  Append("x\n");
  std::ofstream(dir_ + "/allocations/8.1/released") << "";
  EXPECT_TRUE(LogReader(dir_).Read(kKey, 0, "out", 0, 5)->complete);
  std::filesystem::create_directories(dir_ + "/logs/8.1");
  std::filesystem::rename(rank_, dir_ + "/logs/8.1/rank.0");
  std::filesystem::remove_all(dir_ + "/allocations");
  EXPECT_TRUE(LogReader(dir_).Read(kKey, 0, "out", 0, 5)->complete);
}

TEST_F(LogTest, NamesALogThatIsNotThere) {
  const auto piece = LogReader(dir_).Read(kKey, 3, "out", 0, 5);
  ASSERT_FALSE(piece);
  EXPECT_EQ(piece.error().code, ErrorCode::kNotFound);
  EXPECT_NE(piece.error().message.find("8.1 rank 3"), std::string::npos);
  EXPECT_FALSE(LogReader(dir_).Read(kKey, 0, "../x", 0, 5));
}

TEST_F(LogTest, OldLogsGoAndTheReaderSaysSo) {
  const auto keep = [&](const std::string& name, std::chrono::hours age) {
    const std::string kept = dir_ + "/logs/" + name;
    std::filesystem::create_directories(kept + "/rank.0");
    std::ofstream(kept + "/rank.0/out") << "x";
    std::filesystem::last_write_time(kept, std::filesystem::file_time_type::clock::now() - age);
  };
  keep("5.1", std::chrono::hours(50));
  keep("6.1", std::chrono::hours(60));
  keep("7.2", std::chrono::hours(47));
  keep("not-of-a-job", std::chrono::hours(900));
  LogSweep sweep{
      .state_dir = dir_,
      .keep = Millis{48 * 3'600'000},
      .min_free_bytes = ~std::uint64_t{0},  // no log makes as much room: none goes for it
      .known = {{{6}, {1}}}};
  PosixFileSystem files;
  const std::atomic<bool> cancel{false};
  const WallTime now = SystemClock().WallNow();
  const auto removed = SweepKeptLogs(sweep, now, files, cancel);
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].key, (Key{{5}, {1}}));
  EXPECT_NE(removed[0].why.find("older than 2d"), std::string::npos) << removed[0].why;
  LogReader reader(dir_);
  const auto gone = reader.Read({{5}, {1}}, 0, "out", 0, 5);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(gone.error().message,
            "the logs of attempt 5.1 were removed from this node " + removed[0].why);
  EXPECT_TRUE(reader.Read({{6}, {1}}, 0, "out", 0, 5));
  EXPECT_TRUE(reader.Read({{7}, {2}}, 0, "out", 0, 5));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/logs/not-of-a-job"));
  sweep.known.clear();
  EXPECT_EQ(SweepKeptLogs(sweep, now, files, cancel).size(), 1u);
  EXPECT_FALSE(WhyLogsRemoved(dir_, {{5}, {1}}).empty());
  EXPECT_FALSE(WhyLogsRemoved(dir_, {{6}, {1}}).empty());
  EXPECT_EQ(WhyLogsRemoved(dir_, {{7}, {2}}), "");
}

TEST_F(LogTest, FindsTheLastLines) {
  Append("one\ntwo\nthree\n");
  EXPECT_EQ(LastLines(0), 14u);
  EXPECT_EQ(LastLines(1), 8u);
  EXPECT_EQ(LastLines(2), 4u);
  EXPECT_EQ(LastLines(3), 0u);
  EXPECT_EQ(LastLines(9), 0u);
}

TEST_F(LogTest, CountsABarAndItsRedrawsAsOneLine) {
  Append("start\n 1/9\r 2/9\r 3/9");
  EXPECT_EQ(LastLines(1), 6u);
}

TEST_F(LogTest, FindsLinesThatCrossBlocks) {
  Append(std::string(200'000, 'a') + "\n" + std::string(200'000, 'b') + "\n");
  EXPECT_EQ(LastLines(1), 200'001u);
}

TEST_F(LogTest, PunchesTheMiddleAndSaysWhatIsMissing) {
  LogKeeper keeper(rank_, 12 * kMiB);
  for (char c = 'a'; c < 'a' + 20; ++c) Append(std::string(kMiB, c));
  ASSERT_GT(keeper.Look(WallMs(1000)), 0u);
  struct stat info {};
  ASSERT_EQ(::stat((rank_ + "/out").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 20 * static_cast<off_t>(kMiB));
  EXPECT_LE(static_cast<std::uint64_t>(info.st_blocks) * 512, 12 * kMiB);

  LogReader reader(dir_);
  std::string all;
  std::uint64_t missing = 0;
  for (std::uint64_t at = 0; at < 20 * kMiB;) {
    const auto piece = reader.Read(kKey, 0, "out", at, kMiB);
    ASSERT_TRUE(piece);
    if (piece->gap) {
      EXPECT_EQ(piece->gap->first, 6 * kMiB);
      missing += piece->gap->second - piece->gap->first;
    }
    all += piece->data;
    ASSERT_GT(piece->next, at);
    at = piece->next;
  }
  EXPECT_EQ(all.size() + missing, 20 * kMiB);
  EXPECT_EQ(all.front(), 'a');
  EXPECT_EQ(all.back(), 'a' + 19);
  EXPECT_EQ(all.find('\0'), std::string::npos);
  EXPECT_EQ(keeper.Look(WallMs(2000)), 0u) << "nothing more to punch";
}

// `echo x > /dev/stderr` of a job's script.
TEST_F(LogTest, GoesOnBehindWhatTheJobEmptied) {
  const auto cut = [&](const std::string& text) {
    std::ofstream(rank_ + "/out", std::ios::binary | std::ios::trunc) << text;
  };
  LogKeeper keeper(rank_, 0);
  Append(std::string(99, 'x') + "\n");
  (void)keeper.Look(WallMs(1000));
  cut("warn\n");
  LogReader reader(dir_);
  std::ofstream(dir_ + "/allocations/8.1/released") << "";
  EXPECT_FALSE(reader.Read(kKey, 0, "out", 100, 100)->complete) << "more is to come";
  Append("three\n");
  (void)keeper.Look(WallMs(2000));
  EXPECT_EQ(keeper.TakeEmptied(), 100u);
  EXPECT_EQ(keeper.TakeEmptied(), 0u);
  for (const std::uint64_t from : {0, 100}) {  // from the start, and who followed it
    const auto gap = reader.Read(kKey, 0, "out", from, 100);
    ASSERT_TRUE(gap && gap->gap);
    EXPECT_EQ(gap->next, 4096u);
  }
  const auto rest = reader.Read(kKey, 0, "out", 4096, 100);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->data, "warn\nthree\n");
  EXPECT_TRUE(rest->complete);

  cut("again\n");
  (void)keeper.Look(WallMs(3000));
  EXPECT_EQ(reader.Read(kKey, 0, "out", 8192, 100)->data, "again\n");
}

// `tee /dev/stderr` goes on to write at its own place.
TEST_F(LogTest, TakesAlongWhatIsWrittenInTheHole) {
  LogKeeper keeper(rank_, 0);
  Append(std::string(10'000, 'x') + "\n");
  (void)keeper.Look(WallMs(1000));
  std::ofstream tee(rank_ + "/out", std::ios::binary | std::ios::trunc);
  tee << "first\n" << std::flush;
  (void)keeper.Look(WallMs(2000));
  tee << "second\n" << std::flush;
  (void)keeper.Look(WallMs(3000));
  EXPECT_EQ(LogReader(dir_).Read(kKey, 0, "out", 12'288, 100)->data, "first\n");
  EXPECT_EQ(LogReader(dir_).Read(kKey, 0, "out", 12'294, 100)->data, "second\n");
}

TEST_F(LogTest, TellsWhenABytesWasWritten) {
  LogKeeper keeper(rank_, 0);
  Append("aaaa");
  (void)keeper.Look(WallMs(1000));
  Append("bbbb");
  (void)keeper.Look(WallMs(2000));
  LogReader reader(dir_);
  EXPECT_EQ(reader.Read(kKey, 0, "out", 0, 4)->wall_ms, 1000);
  EXPECT_EQ(reader.Read(kKey, 0, "out", 4, 4)->wall_ms, 2000);
}

// A short log would be one piece with the time of its end, and every rank's whole output would
// stand in one block.
TEST_F(LogTest, GivesWhatWasPrintedAtDifferentTimesInDifferentPieces) {
  LogKeeper keeper(rank_, 0);
  Append("a1\n");
  (void)keeper.Look(WallMs(1000));
  Append("a2\na3\n");
  (void)keeper.Look(WallMs(2000));
  Append("a4\n");
  LogReader reader(dir_);
  std::vector<std::pair<std::string, std::int64_t>> pieces;
  for (std::uint64_t at = 0; at < 12;) {
    const auto piece = reader.Read(kKey, 0, "out", at, 1000);
    ASSERT_TRUE(piece && !piece->data.empty());
    pieces.emplace_back(piece->data, piece->wall_ms);
    at = piece->next;
  }
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0], (std::pair<std::string, std::int64_t>("a1\n", 1000)));
  EXPECT_EQ(pieces[1], (std::pair<std::string, std::int64_t>("a2\na3\n", 2000)));
  EXPECT_EQ(pieces[2].first, "a4\n");
}

TEST_F(LogTest, TimesEachStreamByItsOwnIndex) {
  LogKeeper keeper(rank_, 0);
  Append(std::string(100, 'o'));
  std::ofstream(rank_ + "/err") << "e1\n";
  (void)keeper.Look(WallMs(1000));
  std::ofstream(rank_ + "/err", std::ios::app) << "e2\n";
  (void)keeper.Look(WallMs(2000));
  LogReader reader(dir_);
  EXPECT_EQ(reader.Read(kKey, 0, "err", 0, 100)->data, "e1\n");
  EXPECT_EQ(reader.Read(kKey, 0, "err", 3, 100)->wall_ms, 2000);
}

TEST_F(LogTest, GoesOnWithTheIndexOfAnEarlierAgent) {
  Append("aaaa");
  (void)LogKeeper(rank_, 0).Look(WallMs(1000));
  (void)LogKeeper(rank_, 0).Look(WallMs(2000));
  EXPECT_EQ(std::filesystem::file_size(rank_ + "/out.index"), sizeof(IndexEntry));
}

}  // namespace
}  // namespace launch::agent
