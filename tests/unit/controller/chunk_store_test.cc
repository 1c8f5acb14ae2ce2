#include "controller/chunk_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "common/pki.h"
#include "common/snapshot.h"

namespace launch::controller {
namespace {

namespace fs = std::filesystem;

class ChunkStoreTest : public testing::Test {
 protected:
  ChunkStoreTest() {
    std::string name = (fs::temp_directory_path() / "chunks-XXXXXX").string();
    dir_ = ::mkdtemp(name.data());
  }
  ~ChunkStoreTest() override { fs::remove_all(dir_); }

  std::string Put(const std::string& bytes) {
    EXPECT_TRUE(store().Put(ana_, bytes));
    return Sha256Hex(bytes);
  }
  ChunkStore store() const { return ChunkStore((dir_ / "store").string()); }
  fs::path FileOf(const std::string& digest) const {
    return dir_ / "store" / "ana" / digest.substr(0, 2) / digest;
  }

  fs::path dir_;
  const UserName ana_{"ana"};
  const UserName ben_{"ben"};
  const WallTime now_{Millis(2'000'000'000'000)};  // decades after whatever is written here
};

TEST_F(ChunkStoreTest, SaysWhatIsMissingAndGivesBackWhatWasPut) {
  const std::string a = Sha256Hex("a");
  const std::string b = Sha256Hex("b");
  EXPECT_EQ(*store().Missing(ana_, {{a, 1}, {b, 1}}), (std::vector<std::string>{a, b}));
  Put("a");
  EXPECT_EQ(*store().Missing(ana_, {{a, 1}, {b, 1}}), (std::vector<std::string>{b}));
  Put("b");
  EXPECT_TRUE(store().Missing(ana_, {{a, 1}, {b, 1}})->empty());
  EXPECT_EQ(*store().Get(ana_, b), "b");
}

TEST_F(ChunkStoreTest, RefusesWhatIsNoPiece) {
  EXPECT_FALSE(store().Put(ana_, ""));
  EXPECT_FALSE(store().Put(ana_, std::string(kChunkBytes + 1, 'x')));
  EXPECT_TRUE(store().Put(ana_, std::string(kChunkBytes, 'x')));
  EXPECT_FALSE(store().Missing(ana_, {{"../../etc/passwd", 1}}));
  EXPECT_FALSE(store().Get(ana_, "../../etc/passwd"));
  EXPECT_EQ(store().Get(ana_, Sha256Hex("never")).error().code, ErrorCode::kNotFound);
}

TEST_F(ChunkStoreTest, ATornPieceIsMissingAndADamagedOneIsNotGivenOut) {
  const std::string digest = Put("whole");
  std::ofstream(FileOf(digest), std::ios::trunc) << "who";
  EXPECT_EQ(*store().Missing(ana_, {{digest, 5}}), (std::vector<std::string>{digest}));
  std::ofstream(FileOf(digest), std::ios::trunc) << "xhole";
  EXPECT_EQ(store().Get(ana_, digest).error().code, ErrorCode::kDataLoss);
  EXPECT_FALSE(fs::exists(FileOf(digest)));
}

TEST_F(ChunkStoreTest, SweepsWhatNoJobNeeds) {
  const std::string kept = Put("of a job");
  SnapshotEntry entry{.path = "f", .size = 8, .chunks = {kept}};
  const std::string manifest = Put(SerializeManifest({entry}));
  const std::string root = Put(SerializeRoot({manifest}));
  const std::string unused = Put("of nobody");
  EXPECT_EQ(*store().Sweep({{ana_, root}}, now_), 1u);
  EXPECT_FALSE(fs::exists(FileOf(unused)));
  for (const std::string& digest : {kept, manifest, root}) EXPECT_TRUE(fs::exists(FileOf(digest)));
  EXPECT_EQ(*store().Sweep({}, now_), 3u);
}

TEST_F(ChunkStoreTest, ASweepRemovesNothingOfAUserOfWhomItCannotReadEverything) {
  const std::string piece = Put("of a job");
  const std::string root = Put(SerializeRoot({piece}));
  fs::remove(FileOf(root));
  fs::create_directory(FileOf(root));  // reading it fails, as it does with no descriptor left
  ASSERT_TRUE(store().Put(ben_, "of nobody"));
  EXPECT_EQ(*store().Sweep({{ana_, root}}, now_), 1u) << "ben's";
  EXPECT_TRUE(fs::exists(FileOf(piece)));
}

// Who knows or guesses the digest of somebody else's file learns nothing by it.
TEST_F(ChunkStoreTest, EachUserHasPiecesOfTheirOwn) {
  const std::string secret = Put("password: hunter2");
  EXPECT_EQ(*store().Missing(ben_, {{secret, 17}}), (std::vector<std::string>{secret}));
  EXPECT_EQ(store().Get(ben_, secret).error().code, ErrorCode::kNotFound);
  // A manifest of ben's that names ana's pieces keeps nothing of hers.
  SnapshotEntry entry{.path = "f", .size = 17, .chunks = {secret}};
  const std::string manifest = SerializeManifest({entry});
  const std::string root = SerializeRoot({Sha256Hex(manifest)});
  ASSERT_TRUE(store().Put(ben_, manifest));
  ASSERT_TRUE(store().Put(ben_, root));
  EXPECT_EQ(*store().Sweep({{ben_, Sha256Hex(root)}}, now_), 1u);
  EXPECT_FALSE(fs::exists(FileOf(secret)));
}

TEST_F(ChunkStoreTest, AUserHasAtMostSoManyBytes) {
  const std::string dir = (dir_ / "store").string();
  const std::string piece(kChunkBytes, 'a');
  const std::string small = "takes a block of 4 KiB";
  ChunkStore store(dir, kChunkBytes + 4'096);
  ASSERT_TRUE(store.Put(ana_, piece));
  ASSERT_TRUE(store.Put(ana_, piece)) << "there already";
  ASSERT_TRUE(store.Put(ana_, small));
  const auto over = store.Put(ana_, "one too many");
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(over.error().message.find("max_copies_of_a_user"), std::string::npos);
  EXPECT_TRUE(store.Put(ana_, small)) << "nothing more";
  EXPECT_TRUE(store.Put(ben_, piece)) << "each user alone";
  EXPECT_FALSE(ChunkStore(dir, kChunkBytes + 4'096).Put(ana_, "one too many")) << "a restart";
  EXPECT_EQ(*store.Sweep({}, now_), 3u);
  EXPECT_TRUE(store.Put(ana_, "one too many")) << "there is room again";
}

// Millions of pieces may be there: they are listed once, by the sweep.
TEST_F(ChunkStoreTest, ASweepCountsWhatItLeaves) {
  const std::string dir = (dir_ / "store").string();
  const std::string kept = Put("used within a day");
  const WallTime now{Millis(0)};
  ChunkStore store(dir, 8'192);
  ASSERT_EQ(*store.Sweep({}, now), 0u);
  std::ofstream(FileOf(kept).parent_path() / "more") << std::string(8'192, 'm');
  EXPECT_TRUE(store.Put(ana_, "one more")) << "nothing is listed again";
  EXPECT_FALSE(store.Put(ana_, "one too many")) << "what stayed is counted";
  fs::create_directories(FileOf(Sha256Hex("root")));  // cannot be read
  ASSERT_TRUE(store.Sweep({{ana_, Sha256Hex("root")}}, now));
  EXPECT_FALSE(store.Put(ana_, "one too many")) << "nor is a user forgotten whose are left alone";
}

// syncfs() is of the whole file system: only where something was written since.
TEST_F(ChunkStoreTest, WhatIsOnTheDiskIsNotSyncedAgain) {
  const std::string a = Sha256Hex("a");
  ChunkStore store((dir_ / "store").string());
  ASSERT_TRUE(store.Put(ana_, "a"));
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // Without a descriptor nothing can be synced.
  const auto missing = [&](const std::vector<std::pair<std::string, std::uint32_t>>& wanted) {
    const struct rlimit none { 0, before.rlim_max };
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto answer = store.Missing(ana_, wanted);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    return answer;
  };
  EXPECT_FALSE(missing({{a, 1}})) << "not durable yet";
  ASSERT_TRUE(store.Missing(ana_, {{a, 1}}));
  EXPECT_TRUE(missing({{a, 1}}));
  ASSERT_TRUE(store.Put(ana_, "b"));
  EXPECT_FALSE(missing({{a, 1}}));
}

TEST_F(ChunkStoreTest, WhatWasJustUsedStaysAndNoDirectoryIsFine) {
  EXPECT_EQ(*store().Sweep({}, now_), 0u);
  const std::string fresh = Put("uploaded, not submitted yet");
  EXPECT_EQ(*store().Sweep({}, WallTime(Millis(0))), 0u);
  EXPECT_TRUE(fs::exists(FileOf(fresh)));
}

}  // namespace
}  // namespace launch::controller
