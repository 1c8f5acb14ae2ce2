// A copy of workdir on a node: fetched once, unpacked safely, entered by setup and ranks.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "agent/runner/workdir_copy.h"
#include "common/pki.h"
#include "common/snapshot.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr Key kFirst{{21}, {1}};
constexpr Key kSecond{{21}, {2}};

// What the controller holds, and what was fetched from it.
class Depot {
 public:
  std::string Add(const std::string& bytes) {
    pieces_[Sha256Hex(bytes)] = bytes;
    return Sha256Hex(bytes);
  }
  void AddFile(const std::string& path, const std::string& text, bool executable = false) {
    SnapshotEntry entry{.path = path, .executable = executable, .size = text.size()};
    for (const std::string_view piece : CutIntoChunks(text)) {
      entry.chunks.push_back(Add(std::string(piece)));
    }
    entries_.push_back(std::move(entry));
  }
  void AddEntry(SnapshotEntry entry) { entries_.push_back(std::move(entry)); }
  std::string Root() { return Add(SerializeRoot({Add(SerializeManifest(entries_))})); }
  void Lose(const std::string& digest) { pieces_.erase(digest); }

  FetchChunks Fetcher() {
    return [this](JobId, const std::vector<std::string>& digests, const TakeChunk& take,
                  const std::atomic<bool>& cancel) -> Result<void> {
      const std::lock_guard lock(mutex_);
      for (const std::string& digest : digests) {
        if (fetched_ == break_after_) return Fail(ErrorCode::kUnavailable, "the line broke");
        if (cancel) return Fail(ErrorCode::kConflict, "given up");
        ++fetched_;
        if (!pieces_.contains(digest)) {
          return Fail(ErrorCode::kNotFound, "the controller no longer has it");
        }
        LAUNCH_RETURN_IF_ERROR(take(digest, corrupt_ ? "other" : pieces_.at(digest)));
      }
      return {};
    };
  }
  int fetched() const { return fetched_; }
  void Corrupt() { corrupt_ = true; }
  void BreakAfter(int pieces) { break_after_ = pieces; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> pieces_;
  std::vector<SnapshotEntry> entries_;
  int fetched_ = 0;
  bool corrupt_ = false;
  int break_after_ = -1;
};

// The agent is killed beside the write of the note that an allocation goes over to a copy.
class FilesOfACrash final : public FileSystem {
 public:
  enum class At { kNever, kBeforeNote, kBehindNote } at = At::kNever;
  Result<std::string> Read(const std::string& path, std::size_t most) override {
    return files_.Read(path, most);
  }
  Result<void> Write(const std::string& path, std::string_view bytes) override {
    return files_.Write(path, bytes);
  }
  Result<void> WriteDurable(const std::string& path, std::string_view bytes) override {
    if (at == At::kNever || !path.ends_with("/copy")) return files_.WriteDurable(path, bytes);
    if (at == At::kBehindNote) LAUNCH_RETURN_IF_ERROR(files_.WriteDurable(path, bytes));
    return Fail(ErrorCode::kIo, "killed");
  }
  Result<void> MakeDirs(const std::string& path) override { return files_.MakeDirs(path); }
  Result<std::vector<std::string>> List(const std::string& path) override {
    return files_.List(path);
  }
  Result<void> RemoveTree(const std::string& path) override { return files_.RemoveTree(path); }
  Result<void> SyncDir(const std::string& path) override { return files_.SyncDir(path); }

 private:
  PosixFileSystem files_;
};

class CopyTest : public testing::Test {
 protected:
  Result<std::string> Make(const Key& key, const std::string& root,
                           const std::string& user = "ana") {
    const std::atomic<bool> cancel{false};
    return MakeCopy({.state_dir = bench_.Path("state"),
                     .key = key,
                     .user = user,
                     .root = root,
                     .live_jobs = {}},
                    depot_.Fetcher(), cancel);
  }
  std::optional<told::StageDone> StageFirst(bool use_snapshot) {
    const int before = bench_.told().Count<told::StageDone>();
    bench_.runner().Stage({to_node::Stage{.key = kFirst, .use_snapshot = use_snapshot}});
    const bool done =
        bench_.Eventually([&] { return bench_.told().Count<told::StageDone>() > before; });
    return done ? bench_.told().Last<told::StageDone>() : std::nullopt;
  }

  FilesOfACrash crash_;
  RunnerBench bench_;
  Depot depot_;
};

TEST_F(CopyTest, UnpacksFilesModesAndLinks) {
  depot_.AddEntry({.kind = SnapshotKind::kDirectory, .path = "pkg"});
  depot_.AddFile("pkg/run.sh", "#!/bin/sh\n", true);
  depot_.AddFile("train.py", std::string(600'000, 'x'));
  depot_.AddEntry({.kind = SnapshotKind::kLink, .path = "link", .target = "train.py"});
  const auto copy = Make(kFirst, depot_.Root());
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(bench_.ReadFile(*copy + "/train.py"), std::string(600'000, 'x'));
  EXPECT_EQ(fs::read_symlink(*copy + "/link"), "train.py");
  struct stat info {};
  ::stat((*copy + "/pkg/run.sh").c_str(), &info);
  EXPECT_NE(info.st_mode & S_IXUSR, 0u);
  ::stat((*copy + "/train.py").c_str(), &info);
  EXPECT_EQ(info.st_mode & S_IXUSR, 0u);
}

TEST_F(CopyTest, WhatIsBeyondTheBoundsIsRefusedBeforeItsFilesAreFetched) {
  std::string path;
  for (std::size_t i = 0; i <= kMostCopyDepth; ++i) {
    path += i == 0 ? "d" : "/d";
    depot_.AddEntry({.kind = SnapshotKind::kDirectory, .path = path});
  }
  depot_.AddFile("train.py", "x");
  const auto copy = Make(kFirst, depot_.Root());
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(copy.error().message.find("more than 128 directories deep"), std::string::npos);
  EXPECT_EQ(depot_.fetched(), 2) << "the root and the manifest";
}

TEST_F(CopyTest, ARetryFindsItsOutputAndFetchesNothing) {
  depot_.AddFile("train.py", "x");
  const std::string root = depot_.Root();
  const auto copy = Make(kFirst, root);
  ASSERT_TRUE(copy);
  std::ofstream(*copy + "/out") << "checkpoint";
  const int before = depot_.fetched();
  EXPECT_EQ(*Make(kSecond, root), *copy);
  EXPECT_EQ(depot_.fetched(), before);
  EXPECT_EQ(bench_.ReadFile(*copy + "/out"), "checkpoint");
}

TEST_F(CopyTest, TheNextJobFetchesOnlyWhatChanged) {
  for (int i = 0; i < 20; ++i) depot_.AddFile("f" + std::to_string(i), "text " + std::to_string(i));
  ASSERT_TRUE(Make(kFirst, depot_.Root()));
  EXPECT_EQ(depot_.fetched(), 22);
  depot_.AddFile("new", "new");
  const auto copy = Make({{22}, {1}}, depot_.Root());
  ASSERT_TRUE(copy);
  EXPECT_EQ(depot_.fetched(), 22 + 3) << "the new file, the manifest and the root";
  EXPECT_EQ(bench_.ReadFile(*copy + "/f7"), "text 7");
}

TEST_F(CopyTest, WrongBytesAndLostPiecesMakeNoCopy) {
  depot_.AddFile("train.py", "x");
  const std::string root = depot_.Root();
  depot_.Lose(Sha256Hex("x"));
  const auto lost = Make(kFirst, root);
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().message.find("no longer has it"), std::string::npos);
  depot_.Corrupt();
  EXPECT_EQ(Make({{23}, {1}}, Sha256Hex("nobody has this")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Make({{23}, {1}}, depot_.Add("y")).error().code, ErrorCode::kDataLoss);
  EXPECT_FALSE(fs::exists(bench_.Path("state/work/21-" + root.substr(0, 12))));
}

TEST_F(CopyTest, WhatWasFetchedBeforeTheLineBrokeIsNotFetchedAgain) {
  for (int i = 0; i < 20; ++i) depot_.AddFile("f" + std::to_string(i), "text " + std::to_string(i));
  const std::string root = depot_.Root();
  depot_.BreakAfter(12);
  EXPECT_EQ(Make(kFirst, root).error().code, ErrorCode::kUnavailable);
  depot_.BreakAfter(-1);
  const auto copy = Make(kFirst, root);
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(depot_.fetched(), 22);
  EXPECT_EQ(bench_.ReadFile(*copy + "/f19"), "text 19");
}

// An agent that was killed while it unpacked: nobody runs in the half copy, and it goes.
TEST_F(CopyTest, AHalfCopyOfAKilledAgentIsSwept) {
  depot_.AddFile("f", "text");
  const fs::path half = bench_.Path("state/work/.part-9.1");
  fs::create_directories(half);
  std::ofstream(half / "f") << "te";
  ASSERT_TRUE(Make(kFirst, depot_.Root()));
  EXPECT_FALSE(fs::exists(half));
}

TEST_F(CopyTest, APieceThatAnotherUserBroughtIsNoPieceOfThisOne) {
  depot_.AddFile("f", "ana's");
  const std::string root = depot_.Root();
  ASSERT_TRUE(Make(kFirst, root, "ana"));
  EXPECT_EQ(depot_.fetched(), 3);
  ASSERT_TRUE(Make({{22}, {1}}, root, "ben"));
  EXPECT_EQ(depot_.fetched(), 6) << "asked of the controller, who knows what is ben's";
}

TEST_F(CopyTest, NamesMayHaveAnyByteAndThereMayBeManyFiles) {
  const std::vector<std::string> names = {"line\nbreak", "\xff\xfe", "with space", "%41", "-rf"};
  for (const std::string& name : names) depot_.AddFile(name, name);
  depot_.AddEntry({.kind = SnapshotKind::kDirectory, .path = "many"});
  for (int i = 0; i < 3000; ++i) depot_.AddFile("many/" + std::to_string(i), std::to_string(i));
  const auto copy = Make(kFirst, depot_.Root());
  ASSERT_TRUE(copy) << copy.error().message;
  for (const std::string& name : names) EXPECT_EQ(bench_.ReadFile(*copy + "/" + name), name);
  EXPECT_EQ(bench_.ReadFile(*copy + "/many/2999"), "2999");
}

TEST(CopyPaths, WholePathsAreReplacedAndNothingElse) {
  const auto replaced = [](const std::string& text) {
    return WithPathReplaced(text, "/home/ana/code", "/copy");
  };
  EXPECT_EQ(replaced("/home/ana/code"), "/copy");
  EXPECT_EQ(replaced("/home/ana/code/train.py"), "/copy/train.py");
  EXPECT_EQ(replaced("/home/ana/code/.venv/bin:/usr/bin"), "/copy/.venv/bin:/usr/bin");
  EXPECT_EQ(replaced("a='/home/ana/code' --x=/home/ana/code/d"), "a='/copy' --x=/copy/d");
  EXPECT_EQ(replaced("/home/ana/code2 /mnt/home/ana/code"), "/home/ana/code2 /mnt/home/ana/code");
}

TEST_F(CopyTest, SetupAndRanksRunInTheCopyAlsoAfterAnAgentRestart) {
  depot_.AddFile("data", "from the copy\n");
  const std::string root = depot_.Root();
  bench_.options().fetch_chunks = depot_.Fetcher();
  bench_.Open();
  AllocationSpec spec = bench_.Spec(kFirst, 1, {});
  spec.ranks[0].argv = {"/bin/bash", "-c", "cat data made; echo $WHERE; pwd"};
  spec.ranks[0].env.push_back({"WHERE", "/nowhere/at/all/below"});
  spec.workdir = "/nowhere/at/all";
  spec.setup = "echo by setup > made";
  spec.snapshot = root;
  ASSERT_TRUE(bench_.Accept(spec));
  const auto in_place = StageFirst(false);
  ASSERT_TRUE(in_place);
  EXPECT_FALSE(in_place->facts.setup_exit) << "setup waits for the copy";
  EXPECT_FALSE(in_place->facts.paths.front().ok);
  const auto copied = StageFirst(true);
  ASSERT_TRUE(copied);
  EXPECT_EQ(copied->facts.setup_exit, 0) << copied->facts.setup_tail;
  ASSERT_TRUE(copied->facts.paths.front().ok) << copied->facts.paths.front().why;
  EXPECT_EQ(copied->facts.paths.front().inode, 0u);
  bench_.Kill();
  bench_.Open();
  ASSERT_TRUE(bench_.Start(kFirst));
  const auto end = bench_.AwaitEnd(kFirst, 0);
  ASSERT_TRUE(end);
  const std::string copy = bench_.options().state_dir + "/work/21-" + root.substr(0, 12);
  EXPECT_EQ(bench_.ReadFile(bench_.RankPath(kFirst, 0) + "/out"),
            "from the copy\nby setup\n" + copy + "/below\n" + copy + "\n");
}

// From Linux 6.14 on, what is born into the group of the first `setup` is killed at once.
TEST_F(CopyTest, SetupThatRanInPlaceRunsAgainInTheCopy) {
  depot_.AddFile("data", "from the copy\n");
  const std::string root = depot_.Root();
  bench_.options().fetch_chunks = depot_.Fetcher();
  bench_.Open();
  AllocationSpec spec = bench_.Spec(kFirst, 1, {});
  spec.ranks[0].argv = {"/bin/bash", "-c", "cat data made"};
  spec.setup = "echo by setup > made; setsid sleep 1000 < /dev/null > /dev/null 2>&1 &";
  spec.snapshot = root;
  ASSERT_TRUE(bench_.Accept(spec));
  const auto in_place = StageFirst(false);
  ASSERT_TRUE(in_place);
  EXPECT_EQ(in_place->facts.setup_exit, 0) << in_place->facts.setup_tail;
  const auto copied = StageFirst(true);
  ASSERT_TRUE(copied);
  EXPECT_EQ(copied->facts.setup_exit, 0) << copied->facts.setup_tail;
  ASSERT_TRUE(bench_.Start(kFirst));
  ASSERT_TRUE(bench_.AwaitEnd(kFirst, 0));
  EXPECT_EQ(bench_.ReadFile(bench_.RankPath(kFirst, 0) + "/out"), "from the copy\nby setup\n");
}

class CopyCrashTest : public CopyTest, public testing::WithParamInterface<FilesOfACrash::At> {};

// The group of the first `setup` was killed, and its end is recorded: neither is the second one's.
TEST_P(CopyCrashTest, SetupRunsInTheCopyWhereverAnAgentEndsOnTheWayToIt) {
  depot_.AddFile("data", "from the copy\n");
  bench_.options().fetch_chunks = depot_.Fetcher();
  bench_.options().files = &crash_;
  bench_.Open();
  AllocationSpec spec = bench_.Spec(kFirst, 1, {});
  spec.ranks[0].argv = {"/bin/bash", "-c", "cat data made"};
  spec.setup = "echo by setup >> made";
  spec.snapshot = depot_.Root();
  ASSERT_TRUE(bench_.Accept(spec));
  ASSERT_TRUE(StageFirst(false));
  crash_.at = GetParam();
  ASSERT_TRUE(StageFirst(true));
  bench_.Kill();
  crash_.at = FilesOfACrash::At::kNever;
  bench_.Open();
  for (const bool use_snapshot : {false, true}) {  // the controller may have been restarted too
    const auto staged = StageFirst(use_snapshot);
    ASSERT_TRUE(staged);
    EXPECT_EQ(staged->facts.setup_exit, 0) << staged->facts.setup_tail;
  }
  ASSERT_TRUE(bench_.Start(kFirst));
  ASSERT_TRUE(bench_.AwaitEnd(kFirst, 0));
  EXPECT_EQ(bench_.ReadFile(bench_.RankPath(kFirst, 0) + "/out"), "from the copy\nby setup\n");
}

INSTANTIATE_TEST_SUITE_P(Crashes, CopyCrashTest,
                         testing::Values(FilesOfACrash::At::kBeforeNote,
                                         FilesOfACrash::At::kBehindNote));

TEST_F(CopyTest, WhyNoCopyCouldBeMadeIsAFactOfTheWorkdir) {
  bench_.options().fetch_chunks = depot_.Fetcher();
  bench_.Open();
  AllocationSpec spec = bench_.Spec(kFirst, 1, {});
  spec.snapshot = Sha256Hex("gone");
  ASSERT_TRUE(bench_.Accept(spec));
  bench_.runner().Stage({to_node::Stage{.key = kFirst, .use_snapshot = true}});
  const auto done =
      bench_.told().Await<told::StageDone>([](const told::StageDone&) { return true; });
  ASSERT_TRUE(done);
  ASSERT_EQ(done->facts.paths.size(), 1u);
  EXPECT_FALSE(done->facts.paths[0].ok);
  EXPECT_NE(done->facts.paths[0].why.find("no longer has it"), std::string::npos);
}

}  // namespace
}  // namespace launch::agent
