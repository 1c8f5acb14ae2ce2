// Rank logs by offset: gaps, last lines, time index, cap, what the job cut.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

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
  void Cut(const std::string& text) const {
    std::ofstream(rank_ + "/out", std::ios::binary | std::ios::trunc) << text;
  }
  void Release() const { std::ofstream(dir_ + "/allocations/8.1/released") << ""; }
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

// Kept logs, and the sweeps that an agent makes one after another.
class KeptLogsTest : public LogTest {
 protected:
  void Keep(const std::string& name, std::chrono::hours age) {
    const std::string kept = dir_ + "/logs/" + name;
    std::filesystem::create_directories(kept + "/rank.0");
    std::ofstream(kept + "/rank.0/out") << "x";
    const std::int64_t since = ToMs(wall_ - age) / 1000;
    const timespec both[2] = {{since, 0}, {since, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, kept.c_str(), both, 0), 0);
  }
  // An hour after the last one, by the clock that never jumps.
  std::vector<RemovedLogs> Sweep(std::chrono::hours jump = {}) {
    boot_ += std::chrono::hours(1);
    wall_ += std::chrono::hours(1) + jump;
    SweptLogs swept = SweepKeptLogs(sweep_, wall_, boot_, files_, {false});
    sweep_.before = swept.seen;
    return std::move(swept.removed);
  }
  bool IsThere(const Key& key) { return LogReader(dir_).Read(key, 0, "out", 0, 5).has_value(); }

  PosixFileSystem files_;
  WallTime wall_ = WallMs(1'800'000'000'000);
  BootTime boot_ = BootMs(77'000);
  LogSweep sweep_{.state_dir = dir_,
                  .keep = std::chrono::hours(48),
                  .min_free_bytes = ~std::uint64_t{0}};  // no log makes as much room
};

TEST_F(KeptLogsTest, OldOnesGoAndTheReaderSaysSo) {
  Keep("5.1", std::chrono::hours(50));
  Keep("6.1", std::chrono::hours(60));
  Keep("7.2", std::chrono::hours(40));
  Keep("not-of-a-job", std::chrono::hours(900));
  sweep_.known = {{{6}, {1}}};
  EXPECT_TRUE(Sweep().empty()) << "two sweeps must find it old";
  const auto removed = Sweep();
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].key, (Key{{5}, {1}}));
  EXPECT_NE(removed[0].why.find("on 2027-01-15: they were older than 2d"), std::string::npos)
      << removed[0].why;
  const auto gone = LogReader(dir_).Read({{5}, {1}}, 0, "out", 0, 5);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(gone.error().message,
            "the logs of attempt 5.1 were removed from this node " + removed[0].why);
  EXPECT_TRUE(IsThere({{6}, {1}}));
  EXPECT_TRUE(IsThere({{7}, {2}}));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/logs/not-of-a-job"));
  sweep_.known.clear();
  EXPECT_TRUE(Sweep().empty());
  EXPECT_EQ(Sweep().size(), 1u);
  EXPECT_FALSE(WhyLogsRemoved(dir_, {{5}, {1}}).empty());
  EXPECT_FALSE(WhyLogsRemoved(dir_, {{6}, {1}}).empty());
  EXPECT_EQ(WhyLogsRemoved(dir_, {{7}, {2}}), "");
}

TEST_F(KeptLogsTest, AClockThatJumpsTakesNone) {
  Keep("5.1", std::chrono::hours(1));
  EXPECT_TRUE(Sweep().empty());
  for (const auto jump : {std::chrono::hours(31 * 24), std::chrono::hours(-31 * 24)}) {
    EXPECT_TRUE(Sweep(jump).empty());
    EXPECT_TRUE(Sweep().empty());
    EXPECT_TRUE(Sweep().empty());
  }
  // From then on it ages again.
  boot_ += std::chrono::hours(50);
  wall_ += std::chrono::hours(50);
  EXPECT_TRUE(Sweep().empty());
  EXPECT_EQ(Sweep().size(), 1u);
}

TEST_F(KeptLogsTest, ANodeThatBootedIn1970KeepsWhatItHas) {
  const WallTime today = wall_;
  Keep("5.1", std::chrono::hours(1));
  wall_ = WallMs(60'000);
  EXPECT_TRUE(Sweep().empty());
  Keep("6.1", std::chrono::hours(0));
  EXPECT_TRUE(Sweep(std::chrono::floor<std::chrono::hours>(today - wall_)).empty());
  EXPECT_TRUE(Sweep().empty());
  EXPECT_TRUE(Sweep().empty());
  EXPECT_TRUE(IsThere({{5}, {1}}));
  EXPECT_TRUE(IsThere({{6}, {1}}));
}

TEST_F(KeptLogsTest, TheAgeBeginsWhenTheyAreKept) {
  Append("x\n");
  const AttemptDir dir(AllocationPath(dir_, kKey), files_);
  const std::string kept = KeptLogsPath(dir_, kKey);
  ASSERT_TRUE(KeepLogs(dir, kept, WallMs(1'700'000'000'000), files_));
  struct stat info {};
  ASSERT_EQ(::stat(kept.c_str(), &info), 0);
  EXPECT_EQ(info.st_mtim.tv_sec, 1'700'000'000);
  // Those of an attempt that is forgotten long after they were moved.
  ASSERT_TRUE(KeepLogs(dir, kept, WallMs(1'800'000'000'000), files_));
  ASSERT_EQ(::stat(kept.c_str(), &info), 0);
  EXPECT_EQ(info.st_mtim.tv_sec, 1'700'000'000);
}

// The agent ended between the note and the last file, or the disk took half of a line.
TEST_F(KeptLogsTest, WhatAnEarlierAgentBeganIsRemovedToItsEnd) {
  Keep("4.1.going", std::chrono::hours(90));
  Keep("5.1", std::chrono::hours(90));
  std::ofstream(dir_ + "/logs/removed") << "4.1 on 2027-01-02: why\n9.1 on 2027-0";
  (void)Sweep();
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/logs/4.1.going"));
  EXPECT_EQ(Sweep().size(), 1u);
  EXPECT_EQ(WhyLogsRemoved(dir_, {{4}, {1}}), "on 2027-01-02: why");
  EXPECT_TRUE(WhyLogsRemoved(dir_, {{5}, {1}}).starts_with("on 2027-01-15: "));
}

// Looks around when something is removed.
class AskingFiles final : public FileSystem {
 public:
  explicit AskingFiles(std::string dir) : dir_(std::move(dir)) {}
  Result<std::string> Read(const std::string& path, std::size_t most) override {
    return files_.Read(path, most);
  }
  Result<void> Write(const std::string& path, std::string_view bytes) override {
    return files_.Write(path, bytes);
  }
  Result<void> WriteDurable(const std::string& path, std::string_view bytes) override {
    return files_.WriteDurable(path, bytes);
  }
  Result<void> MakeDirs(const std::string& path) override { return files_.MakeDirs(path); }
  Result<std::vector<std::string>> List(const std::string& path) override {
    return files_.List(path);
  }
  Result<void> RemoveTree(const std::string& path) override {
    noted = !WhyLogsRemoved(dir_, {{5}, {1}}).empty();
    hidden = !std::filesystem::exists(dir_ + "/logs/5.1");
    return files_.RemoveTree(path);
  }
  Result<void> SyncDir(const std::string& path) override { return files_.SyncDir(path); }

  bool noted = false;
  bool hidden = false;

 private:
  const std::string dir_;
  PosixFileSystem files_;
};

TEST_F(KeptLogsTest, NotesWhatGoesBeforeItGoes) {
  AskingFiles asking(dir_);
  Keep("5.1", std::chrono::hours(90));
  (void)Sweep();
  (void)SweepKeptLogs(sweep_, wall_, boot_, asking, {false});
  EXPECT_TRUE(asking.noted);
  EXPECT_TRUE(asking.hidden);
}

TEST_F(KeptLogsTest, RefusesAPlaceThatLogsCannotBeMovedTo) {
  EXPECT_TRUE(CheckLogsMove(dir_, files_));
  std::string elsewhere = "/dev/shm/launch-log-XXXXXX";
  struct stat here {};
  struct stat there {};
  ASSERT_NE(::mkdtemp(elsewhere.data()), nullptr);
  ASSERT_TRUE(::stat(dir_.c_str(), &here) == 0 && ::stat(elsewhere.c_str(), &there) == 0);
  std::filesystem::remove_all(dir_ + "/logs");
  std::filesystem::create_directory_symlink(elsewhere, dir_ + "/logs");
  const auto checked = CheckLogsMove(dir_, files_);
  std::filesystem::remove_all(elsewhere);
  if (here.st_dev == there.st_dev) GTEST_SKIP() << "one file system";
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find(dir_ + "/logs"), std::string::npos);
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
TEST_F(LogTest, OffsetsGoOnBehindWhatTheJobEmptied) {
  LogKeeper keeper(rank_, 0);
  LogReader reader(dir_);
  Append(std::string(99, 'x') + "\n");
  (void)keeper.Look(WallMs(1000));
  Append("late\n");
  EXPECT_EQ(reader.Read(kKey, 0, "out", 100, 100)->data, "late\n");
  Cut("warn\n");
  for (const std::uint64_t from : {0, 3, 100, 105}) {  // of which log, nobody has said yet
    const auto piece = reader.Read(kKey, 0, "out", from, 100);
    ASSERT_TRUE(piece);
    EXPECT_TRUE(piece->later);
    EXPECT_TRUE(piece->data.empty() && !piece->gap && !piece->complete);
    EXPECT_EQ(piece->next, from);
  }
  Append("three\n");
  (void)keeper.Look(WallMs(2000));
  EXPECT_EQ(keeper.TakeEmptied(), 100u);
  EXPECT_EQ(keeper.TakeEmptied(), 0u);
  const std::uint64_t base = 100 + kLeapBytes;
  for (const std::uint64_t from : {0, 3, 100, 105}) {
    const auto gap = reader.Read(kKey, 0, "out", from, 100);
    ASSERT_TRUE(gap && gap->gap);
    EXPECT_TRUE(gap->emptied);
    EXPECT_EQ(gap->next, base);
  }
  EXPECT_EQ(LogEnd(rank_ + "/out"), base + 11);
  EXPECT_EQ(LastLines(0), base + 11);
  EXPECT_EQ(LastLines(1), base + 5);
  EXPECT_EQ(LastLines(9), 0u) << "what is missing is told";
  EXPECT_EQ(reader.Read(kKey, 0, "out", base + 5, 100)->data, "three\n");
  Release();
  const auto rest = reader.Read(kKey, 0, "out", base, 100);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->data, "warn\nthree\n");
  EXPECT_EQ(rest->wall_ms, 2000);
  EXPECT_TRUE(rest->complete);
}

TEST_F(LogTest, EveryCutLeapsFurtherAlsoForALaterAgent) {
  Append("first\n");
  {
    LogKeeper keeper(rank_, 0);
    (void)keeper.Look(WallMs(1000));
    Cut("2\n");
    (void)keeper.Look(WallMs(2000));
    EXPECT_EQ(keeper.TakeEmptied(), 6u);
  }
  LogKeeper keeper(rank_, 0);
  (void)keeper.Look(WallMs(3000));
  Cut("");
  (void)keeper.Look(WallMs(4000));
  EXPECT_EQ(keeper.TakeEmptied(), 0u) << "said before";
  Append("third\n");
  (void)keeper.Look(WallMs(5000));
  const std::uint64_t base = 6 + kLeapBytes + 2 + kLeapBytes;
  const auto piece = LogReader(dir_).Read(kKey, 0, "out", base, 100);
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->data, "third\n");
  EXPECT_EQ(piece->wall_ms, 5000);
}

TEST_F(LogTest, IsNotCompleteBeforeACutIsNoted) {
  LogKeeper keeper(rank_, 0);
  Append("long enough\n");
  (void)keeper.Look(WallMs(1000));
  Cut("end\n");
  shim::ExitRecord record;
  shim::Seal(record);
  std::ofstream(rank_ + "/exit", std::ios::binary)
      .write(reinterpret_cast<const char*>(&record), sizeof record);
  ASSERT_EQ(::mkfifo((rank_ + "/control").c_str(), 0600), 0);
  LogReader reader(dir_);
  EXPECT_FALSE(reader.Read(kKey, 0, "out", 12, 100)->complete);
  keeper.Settle();
  const std::uint64_t base = 12 + kLeapBytes;
  EXPECT_EQ(reader.Read(kKey, 0, "out", 12, 100)->next, base);
  EXPECT_TRUE(reader.Read(kKey, 0, "out", base, 100)->complete);
}

TEST_F(LogTest, TriesAgainToNoteACutOnAFullDisk) {
  LogKeeper keeper(rank_, 0);
  Append("first\n");
  (void)keeper.Look(WallMs(1000));
  std::filesystem::create_directories(BasePath(rank_ + "/out"));  // so that none can be put there
  Cut("2\n");
  (void)keeper.Look(WallMs(2000));
  LogReader reader(dir_);
  EXPECT_TRUE(reader.Read(kKey, 0, "out", 0, 100)->later);
  std::filesystem::remove(BasePath(rank_ + "/out"));
  (void)keeper.Look(WallMs(3000));
  EXPECT_EQ(reader.Read(kKey, 0, "out", 6 + kLeapBytes, 100)->data, "2\n");
}

// `tee /dev/stderr` goes on to write at its own place.
TEST_F(LogTest, NeverTouchesWhatTheJobWrites) {
  LogKeeper keeper(rank_, 0);
  Append(std::string(10'000, 'x') + "\n");
  (void)keeper.Look(WallMs(1000));
  std::ofstream tee(rank_ + "/out", std::ios::binary | std::ios::trunc);
  tee << "first\n" << std::flush;
  std::filesystem::last_write_time(rank_ + "/out", std::filesystem::file_time_type{});
  (void)keeper.Look(WallMs(2000));
  EXPECT_EQ(std::filesystem::last_write_time(rank_ + "/out"), std::filesystem::file_time_type{});
  tee << "second\n" << std::flush;
  (void)keeper.Look(WallMs(3000));
  EXPECT_EQ(std::filesystem::file_size(rank_ + "/out"), 13u);
  const std::uint64_t base = 10'001 + kLeapBytes;
  EXPECT_EQ(LogReader(dir_).Read(kKey, 0, "out", base, 100)->data, "first\n");
  EXPECT_EQ(LogReader(dir_).Read(kKey, 0, "out", base + 6, 100)->data, "second\n");
}

TEST_F(LogTest, AHalfWrittenEntryOfTheIndexIsNoCut) {
  LogKeeper keeper(rank_, 0);
  Append("aaaa");
  (void)keeper.Look(WallMs(1000));
  std::ofstream(rank_ + "/out.index", std::ios::binary | std::ios::app) << "half an ent";
  EXPECT_EQ(LastIndexed(rank_ + "/out"), 4u);
  Append("bbbb");
  (void)keeper.Look(WallMs(2000));
  EXPECT_EQ(LastIndexed(rank_ + "/out"), 8u);
  EXPECT_EQ(LogReader(dir_).Read(kKey, 0, "out", 4, 4)->wall_ms, 2000);
}

TEST_F(LogTest, KeptLogsHaveTheSameOffsetsAlsoOnTheirWay) {
  LogKeeper keeper(rank_, 0);
  Append("first\n");
  (void)keeper.Look(WallMs(1000));
  Cut("2\n");
  (void)keeper.Look(WallMs(2000));
  Release();
  const std::string kept = KeptLogsPath(dir_, kKey);
  const auto read = [&] { return LogReader(dir_).Read(kKey, 0, "out", 6 + kLeapBytes, 9)->data; };
  std::filesystem::create_directories(kept + "/rank.0");
  std::filesystem::rename(rank_ + "/out", kept + "/rank.0/out");
  EXPECT_EQ(read(), "2\n");
  PosixFileSystem files;
  const AttemptDir dir(AllocationPath(dir_, kKey), files);
  ASSERT_TRUE(KeepLogs(dir, kept, WallMs(1), files));
  std::filesystem::remove_all(dir.path());
  EXPECT_EQ(read(), "2\n");
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

// A million seconds with a byte each: those but the ones in which it is thinned stand there as
// earlier agents wrote them.
TEST_F(LogTest, ALongIndexIsThinnedAndStillTellsTimes) {
  constexpr std::uint64_t kSeconds = 1'000'000;
  const std::string index = rank_ + "/out.index";
  std::uint64_t most = 0;
  for (std::uint64_t second = 0; second < kSeconds;) {
    const std::uint64_t had =
        std::filesystem::exists(index) ? std::filesystem::file_size(index) : std::uint64_t{0};
    ASSERT_LE(had, kMostIndexBytes);
    const std::uint64_t until =
        std::min(kSeconds - 1, second + (kMostIndexBytes - had) / sizeof(IndexEntry));
    Append(std::string(until + 1 - second, 'x'));
    std::vector<IndexEntry> entries;
    for (; second < until; ++second)
      entries.push_back({second + 1, static_cast<std::int64_t>(second) * 1000});
    std::ofstream(index, std::ios::binary | std::ios::app)
        .write(reinterpret_cast<const char*>(entries.data()),
               static_cast<std::streamsize>(entries.size() * sizeof(IndexEntry)));
    (void)LogKeeper(rank_, 0).Look(WallMs(static_cast<std::int64_t>(second) * 1000));
    ++second;
    most = std::max(most, std::uint64_t{std::filesystem::file_size(index)});
  }
  EXPECT_LE(most, kMostIndexBytes);
  EXPECT_EQ(LastIndexed(rank_ + "/out"), kSeconds);
  LogReader reader(dir_);
  for (std::uint64_t at = 0; at < kSeconds; at += 9'973) {
    const auto piece = reader.Read(kKey, 0, "out", at, 1);
    ASSERT_TRUE(piece);
    const auto written = static_cast<std::int64_t>(at) * 1000;
    EXPECT_GE(piece->wall_ms, written);
    EXPECT_LE(piece->wall_ms, written + 60'000);
  }
}

// As a node that boots in 1970, and a job that says nothing for days.
TEST_F(LogTest, ALongIndexIsThinnedAlikeWhereTimeJumps) {
  const std::uint64_t count = kMostIndexBytes / sizeof(IndexEntry);
  const auto time_of = [&](std::uint64_t i) {
    const std::int64_t day = i < count / 2 ? 0 : i < count / 4 * 3 ? 20'000 : 20'005;
    return (day * 86'400 + static_cast<std::int64_t>(i)) * 1000;
  };
  std::ofstream out(rank_ + "/out.index", std::ios::binary);
  for (std::uint64_t i = 0; i < count; ++i) {
    const IndexEntry entry{i + 1, time_of(i)};
    out.write(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  out.close();
  Append(std::string(count + 1, 'x'));
  (void)LogKeeper(rank_, 0).Look(WallMs(time_of(count)));
  EXPECT_LE(std::filesystem::file_size(rank_ + "/out.index"), kMostIndexBytes / 2 + 64);
  LogReader reader(dir_);
  for (std::uint64_t at = 0; at <= count; at += 991) {
    const auto piece = reader.Read(kKey, 0, "out", at, 1);
    ASSERT_TRUE(piece);
    EXPECT_LE(std::abs(piece->wall_ms - time_of(at)), 60'000);
  }
}

// The last thing it does, within the second of a look.
TEST(LogOfARank, EndsBehindWhatItEmptied) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  spec.ranks[0].argv = {
      "/bin/sh", "-c", "seq 100; while [ ! -e ../go ]; do sleep 0.01; done; echo end >/dev/stderr"};
  ASSERT_TRUE(bench.Run(spec));
  const std::string log = bench.RankPath(kKey, 0) + "/out";
  ASSERT_TRUE(bench.Eventually([&] { return LastIndexed(log) == 292; }));
  bench.Touch("go");
  const auto report = bench.AwaitEnd(kKey, 0);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->log_end, 292 + kLeapBytes + 4);
  const auto stopped = bench.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped && stopped->log_ends.size() == 1);
  EXPECT_EQ(stopped->log_ends[0].second, report->log_end);
  const auto notice = bench.told().Await<told::NodeNotice>(
      [](const auto& told) { return told.notice.kind == "rank.log_emptied"; });
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->notice.rank, std::optional<Rank>(0));
  EXPECT_NE(notice->notice.text.find("the job emptied its own log of 292 bytes"), std::string::npos)
      << notice->notice.text;
}

}  // namespace
}  // namespace launch::agent
