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
    EXPECT_TRUE(store().Put(bytes));
    return Sha256Hex(bytes);
  }
  ChunkStore store() const { return ChunkStore((dir_ / "store").string()); }
  fs::path FileOf(const std::string& digest) const {
    return dir_ / "store" / digest.substr(0, 2) / digest;
  }

  fs::path dir_;
  const WallTime now_{Millis(2'000'000'000'000)};  // decades after whatever is written here
};

TEST_F(ChunkStoreTest, SaysWhatIsMissingAndGivesBackWhatWasPut) {
  const std::string a = Sha256Hex("a");
  const std::string b = Sha256Hex("b");
  EXPECT_EQ(*store().Missing({{a, 1}, {b, 1}}), (std::vector<std::string>{a, b}));
  Put("a");
  EXPECT_EQ(*store().Missing({{a, 1}, {b, 1}}), (std::vector<std::string>{b}));
  Put("b");
  EXPECT_TRUE(store().Missing({{a, 1}, {b, 1}})->empty());
  EXPECT_EQ(*store().Get(b), "b");
}

TEST_F(ChunkStoreTest, RefusesWhatIsNoPiece) {
  EXPECT_FALSE(store().Put(""));
  EXPECT_FALSE(store().Put(std::string(kChunkBytes + 1, 'x')));
  EXPECT_TRUE(store().Put(std::string(kChunkBytes, 'x')));
  EXPECT_FALSE(store().Missing({{"../../etc/passwd", 1}}));
  EXPECT_FALSE(store().Get("../../etc/passwd"));
  EXPECT_EQ(store().Get(Sha256Hex("never")).error().code, ErrorCode::kNotFound);
}

TEST_F(ChunkStoreTest, ATornPieceIsMissingAndADamagedOneIsNotGivenOut) {
  const std::string digest = Put("whole");
  std::ofstream(FileOf(digest), std::ios::trunc) << "who";
  EXPECT_EQ(*store().Missing({{digest, 5}}), (std::vector<std::string>{digest}));
  std::ofstream(FileOf(digest), std::ios::trunc) << "xhole";
  EXPECT_EQ(store().Get(digest).error().code, ErrorCode::kDataLoss);
  EXPECT_FALSE(fs::exists(FileOf(digest)));
}

TEST_F(ChunkStoreTest, SweepsWhatNoJobNeeds) {
  const std::string kept = Put("of a job");
  SnapshotEntry entry{.path = "f", .size = 8, .chunks = {kept}};
  const std::string manifest = Put(SerializeManifest({entry}));
  const std::string root = Put(SerializeRoot({manifest}));
  const std::string unused = Put("of nobody");
  EXPECT_EQ(*store().Sweep({root}, now_), 1u);
  EXPECT_FALSE(fs::exists(FileOf(unused)));
  for (const std::string& digest : {kept, manifest, root}) EXPECT_TRUE(fs::exists(FileOf(digest)));
  EXPECT_EQ(*store().Sweep({}, now_), 3u);
}

TEST_F(ChunkStoreTest, WhatWasJustUsedStaysAndNoDirectoryIsFine) {
  EXPECT_EQ(*store().Sweep({}, now_), 0u);
  const std::string fresh = Put("uploaded, not submitted yet");
  EXPECT_EQ(*store().Sweep({}, WallTime(Millis(0))), 0u);
  EXPECT_TRUE(fs::exists(FileOf(fresh)));
}

}  // namespace
}  // namespace launch::controller
