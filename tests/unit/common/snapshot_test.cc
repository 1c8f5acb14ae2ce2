#include "common/snapshot.h"

#include <gtest/gtest.h>

#include "common/pki.h"

namespace launch {
namespace {

SnapshotEntry File(std::string path, std::uint64_t size) {
  SnapshotEntry entry{.kind = SnapshotKind::kFile, .path = std::move(path), .size = size};
  for (std::uint64_t at = 0; at < size; at += kChunkBytes) {
    entry.chunks.push_back(Sha256Hex(entry.path + std::to_string(at)));
  }
  return entry;
}

SnapshotEntry Directory(std::string path) {
  return {.kind = SnapshotKind::kDirectory, .path = std::move(path)};
}

TEST(Snapshot, AManifestComesBackAsItWas) {
  std::vector<SnapshotEntry> entries = {Directory("a dir"), File("a dir/line\nbreak %41 \xff", 3),
                                        File("empty", 0), File("large", 2 * kChunkBytes + 1)};
  entries[3].executable = true;
  entries.push_back({.kind = SnapshotKind::kLink, .path = "link", .target = "../out side"});
  const auto read = ParseManifest(SerializeManifest(entries));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, entries);
}

TEST(Snapshot, AVisitEndsWithTheFirstError) {
  const std::string text =
      SerializeManifest({Directory("a b"), File("a b/c", 3), File("a b/d", 3), File("e", 0)});
  std::vector<std::string> seen;
  const auto visited = VisitManifest(text, [&](const SnapshotEntry& entry) -> Result<void> {
    seen.push_back(entry.path);
    if (seen.size() < 3) return {};
    return Fail(ErrorCode::kConflict, "enough");
  });
  ASSERT_FALSE(visited);
  EXPECT_EQ(visited.error().message, "enough");
  EXPECT_EQ(seen, (std::vector<std::string>{"a b", "a b/c", "a b/d"}));
}

TEST(Snapshot, ARootComesBackAsItWas) {
  const std::vector<std::string> chunks = {Sha256Hex("a"), Sha256Hex("b")};
  EXPECT_EQ(*ParseRoot(SerializeRoot(chunks)), chunks);
  EXPECT_FALSE(ParseRoot("launch-snapshot-root 2\n"));
  EXPECT_FALSE(ParseRoot(SerializeRoot({"short"})));
}

TEST(Snapshot, NothingIsWrittenOutsideOfItsDirectory) {
  const std::string head = "launch-snapshot 1\n";
  for (const char* line :
       {"f ../passwd 0", "f /etc/passwd 0", "f a/../b 0", "f a//b 0", "f ./a 0", "f a/ 0",
        "l s /etc\nf s/passwd 0",  // through a link
        "f s 0\nf s/below 0", "d d\nd d", "f missing/parent 0", "d %2e%2e"}) {
    EXPECT_FALSE(ParseManifest(head + line + "\n")) << line;
  }
  EXPECT_TRUE(ParseManifest(head + "l s /etc\n"));
  // A NUL would end the path where the node makes it.
  EXPECT_FALSE(ParseManifest(head + std::string("d s\0x\n", 6)));
  EXPECT_FALSE(ParseManifest(head + "d s%00x\n"));
}

TEST(Snapshot, ABrokenLineIsRefused) {
  const std::string head = "launch-snapshot 1\n";
  const std::string digest = Sha256Hex("x");
  for (const std::string& line : {std::string("f a"), std::string("f a x"), std::string("q a 0"),
                                  "f a 0 " + digest,     // a piece of nothing
                                  std::string("f a 5"),  // a size without pieces
                                  std::string("f a 18446744073709551615"),
                                  "f a 5 " + digest.substr(1) + "X",  // not a digest
                                  std::string("f a%0 0"), std::string("f a%zz 0"),
                                  std::string("f a%00b 0"), std::string("l a")}) {
    EXPECT_FALSE(ParseManifest(head + line + "\n")) << line;
  }
  EXPECT_FALSE(ParseManifest(""));
  EXPECT_FALSE(ParseManifest("launch-snapshot 2\n"));
}

std::string Refusal(const std::string& text) {
  const auto read = ParseManifest(text);
  if (read) return "taken";
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument) << read.error().message;
  EXPECT_NE(read.error().hint.find(".launchignore"), std::string::npos);
  return read.error().message;
}

// Nobody but the command line makes sure that a user's manifest is a small one.
TEST(Snapshot, AManifestWithoutBoundsIsRefusedAndSaysWhichItBreaks) {
  const std::string head = "launch-snapshot 1\n";
  std::string many = head;
  for (std::size_t i = 0; i <= kMostCopyEntries; ++i) many += "f " + std::to_string(i) + " 0\n";
  EXPECT_EQ(Refusal(many), "the copy of workdir has more than 400000 files, links and directories");
  EXPECT_EQ(Refusal(head + std::string(kMostCopyEntries + 2, '\n')),
            "the copy of workdir has more than 400000 files, links and directories");
  std::vector<SnapshotEntry> entries;
  for (const char* name : {"a", "b", "c"}) entries.push_back(File(name, kMostCopyBytes / 2));
  EXPECT_EQ(Refusal(SerializeManifest(entries)), "the copy of workdir has more than 1GiB");
  entries.resize(2);
  EXPECT_TRUE(ParseManifest(SerializeManifest(entries)));

  std::vector<SnapshotEntry> deep;
  std::string path;
  for (std::size_t i = 0; i < kMostCopyDepth; ++i) {
    path += i == 0 ? "d" : "/d";
    deep.push_back(Directory(path));
  }
  EXPECT_TRUE(ParseManifest(SerializeManifest(deep)));
  deep.push_back(Directory(path + "/d"));
  EXPECT_NE(Refusal(SerializeManifest(deep)).find("more than 128 directories deep"),
            std::string::npos);
  EXPECT_NE(Refusal(head + "f " + std::string(256, 'n') + " 0\n").find("more than 255 bytes"),
            std::string::npos);
  EXPECT_NE(Refusal(head + "l l " + std::string(4097, 't') + "\n").find("more than 4096 bytes"),
            std::string::npos);
}

TEST(Snapshot, TheListOfPiecesOfAManifestIsBounded) {
  const std::vector<std::string> most(kMostManifestBytes / kChunkBytes, Sha256Hex("a"));
  EXPECT_TRUE(ParseRoot(SerializeRoot(most)));
  std::vector<std::string> more = most;
  more.push_back(Sha256Hex("a"));
  const auto refused = ParseRoot(SerializeRoot(more));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("more than 64MiB"), std::string::npos);
}

TEST(Snapshot, PiecesAreOfOneSizeButTheLast) {
  const std::string bytes(2 * kChunkBytes + 7, 'x');
  const auto pieces = CutIntoChunks(bytes);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].size(), kChunkBytes);
  EXPECT_EQ(pieces[2].size(), 7u);
  EXPECT_TRUE(CutIntoChunks("").empty());
}

}  // namespace
}  // namespace launch
