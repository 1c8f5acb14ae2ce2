#include "controller/chunk_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

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

TEST_F(ChunkStoreTest, WhatWasJustUsedStaysAndNoDirectoryIsFine) {
  EXPECT_EQ(*store().Sweep({}, now_), 0u);
  const std::string fresh = Put("uploaded, not submitted yet");
  EXPECT_EQ(*store().Sweep({}, WallTime(Millis(0))), 0u);
  EXPECT_TRUE(fs::exists(FileOf(fresh)));
}

}  // namespace
}  // namespace launch::controller
