#include "cli/snapshot/workdir_copy.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "common/snapshot.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

class WorkdirCopyTest : public testing::Test {
 protected:
  WorkdirCopyTest() {
    std::string name = (fs::temp_directory_path() / "copy-XXXXXX").string();
    dir_ = ::mkdtemp(name.data());
  }
  ~WorkdirCopyTest() override { fs::remove_all(dir_); }

  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories((dir_ / path).parent_path());
    std::ofstream(dir_ / path) << text;
  }
  Result<WorkdirCopy> Copy(CopyLimits limits = {}) const {
    return CopyWorkdir(dir_.string(), limits);
  }
  // As the nodes will read it: root, manifest.
  static std::vector<SnapshotEntry> Entries(const WorkdirCopy& copy) {
    std::string text;
    const auto root = ParseRoot(copy.chunks.at(copy.root).text);
    for (const std::string& piece : *root) {
      text += copy.chunks.at(piece).text;
    }
    return *ParseManifest(text);
  }
  static std::vector<std::string> Paths(const WorkdirCopy& copy) {
    std::vector<std::string> paths;
    for (const SnapshotEntry& entry : Entries(copy)) paths.push_back(entry.path);
    return paths;
  }

  // What `git` in the directory did; a repository with one commit of what is added.
  int Git(const std::string& words) const {
    return std::system(("cd " + dir_.string() + " && git -c user.name=t -c user.email=t@t " +
                        words + " >/dev/null 2>&1")
                           .c_str());
  }

  fs::path dir_;
};

TEST_F(WorkdirCopyTest, HoldsFilesDirectoriesLinksAndModes) {
  Write("train.py", "print(1)\n");
  Write("pkg/run.sh", "#!/bin/sh\n");
  fs::permissions(dir_ / "pkg/run.sh", fs::perms::owner_all);
  fs::create_directory(dir_ / "empty");
  fs::create_symlink("../data", dir_ / "data");
  ::mkfifo((dir_ / "pipe").c_str(), 0600);
  const auto copy = Copy();
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(Paths(*copy),
            (std::vector<std::string>{"data", "empty", "pkg", "pkg/run.sh", "train.py"}));
  const auto entries = Entries(*copy);
  EXPECT_EQ(entries[0].target, "../data");
  EXPECT_TRUE(entries[3].executable);
  EXPECT_FALSE(entries[4].executable);
  EXPECT_EQ(copy->files, 2u);
  EXPECT_EQ(copy->bytes, 19u);
  EXPECT_EQ(copy->skipped, (std::vector<std::string>{"pipe"}));
  EXPECT_EQ(*ReadChunk(entries[4].chunks[0], copy->chunks.at(entries[4].chunks[0])), "print(1)\n");
}

TEST_F(WorkdirCopyTest, WhatNodesWouldRefuseIsRefusedHere) {
  std::string deep;
  for (std::size_t i = 0; i <= kMostCopyDepth; ++i) deep += "d/";
  fs::create_directories(dir_ / deep);
  const auto copy = Copy();
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(copy.error().message.find("directories deep"), std::string::npos);
}

TEST_F(WorkdirCopyTest, LeavesOutWhatGitAndLaunchIgnore) {
  Write(".gitignore", "*.pt\n/runs/\n");
  Write(".launchignore", "data\n!small.pt\n");
  Write("sub/.gitignore", "cache\n");
  for (const char* path : {"a.pt", "small.pt", "runs/1/log", "data/x", "sub/cache/y", "sub/keep",
                           ".git/config", "deep/runs/z"}) {
    Write(path, "x");
  }
  const auto copy = Copy();
  ASSERT_TRUE(copy);
  EXPECT_EQ(Paths(*copy), (std::vector<std::string>{".gitignore", ".launchignore", "deep",
                                                    "deep/runs", "deep/runs/z", "small.pt", "sub",
                                                    "sub/.gitignore", "sub/keep"}));
}

TEST_F(WorkdirCopyTest, WhatGitTracksGoesAlongThoughAPatternCoversIt) {
  if (Git("--version") != 0) GTEST_SKIP() << "git is not installed";
  Write(".gitignore", "*.json\n/data/\n");
  Write(".launchignore", "secret.json\n");
  for (const char* path : {"config.json", "other.json", "secret.json", "data/fixed/a.json",
                           "data/fixed/b.json", "data/large", "train.py"})
    Write(path, "x");
  ASSERT_EQ(Git("init -q ."), 0);
  ASSERT_EQ(Git("add -f train.py config.json secret.json data/fixed/a.json"), 0);
  const auto copy = Copy();
  ASSERT_TRUE(copy);
  EXPECT_EQ(Paths(*copy),
            (std::vector<std::string>{".gitignore", ".launchignore", "config.json", "data",
                                      "data/fixed", "data/fixed/a.json", "train.py"}));
}

TEST_F(WorkdirCopyTest, BelowTheRootOfARepositoryWhatIsIgnoredAboveStaysBehind) {
  if (Git("--version") != 0) GTEST_SKIP() << "git is not installed";
  ASSERT_EQ(Git("init -q ."), 0);
  Write(".gitignore", "*.pt\n/exp/one/cache\n/train.py\n");
  Write("exp/.gitignore", "logs/\n!one/keep.pt\n");
  Write(".git/info/exclude", "private\n");
  for (const char* path : {"exp/one/a.pt", "exp/one/keep.pt", "exp/one/cache/x", "exp/one/logs/x",
                           "exp/one/private", "exp/one/train.py", "exp/one/force.pt"})
    Write(path, "x");
  ASSERT_EQ(Git("add -f exp/one/force.pt"), 0);
  const auto copy = CopyWorkdir((dir_ / "exp/one").string(), {});
  ASSERT_TRUE(copy);
  EXPECT_EQ(Paths(*copy), (std::vector<std::string>{"force.pt", "keep.pt", "train.py"}));
}

TEST_F(WorkdirCopyTest, EqualContentHasOneNameAndIsHeldOnce) {
  Write("a", std::string(300'000, 'x'));
  Write("b", std::string(300'000, 'x'));
  const auto first = Copy();
  const auto again = Copy();
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->root, again->root);
  EXPECT_EQ(first->chunks.size(), 4u);  // two pieces of the content, the manifest, the root
  Write("b", "other");
  EXPECT_NE(Copy()->root, first->root);
}

TEST_F(WorkdirCopyTest, TooLargeNamesTheLargestAndTheWayOut) {
  Write("data/a.bin", std::string(3'000'000, 'x'));
  Write("train.py", "x");
  const auto copy = Copy({.bytes = 1 << 20});
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(copy.error().message.find("2.9MiB in 2 files"), std::string::npos)
      << copy.error().message;
  EXPECT_NE(copy.error().message.find("largest: data 2.9MiB"), std::string::npos);
  EXPECT_NE(copy.error().hint.find(".launchignore"), std::string::npos);
  Write(".launchignore", "data\n");
  EXPECT_TRUE(Copy({.bytes = 1 << 20}));
  EXPECT_FALSE(Copy({.bytes = 1 << 20, .files = 1}));
}

TEST_F(WorkdirCopyTest, AFileThatChangesMeanwhileIsNamed) {
  Write("a", "before");
  const auto copy = Copy();
  ASSERT_TRUE(copy);
  const SnapshotEntry entry = Entries(*copy).front();
  Write("a", "behind");
  const auto bytes = ReadChunk(entry.chunks[0], copy->chunks.at(entry.chunks[0]));
  ASSERT_FALSE(bytes);
  EXPECT_NE(bytes.error().message.find("/a changed"), std::string::npos);
}

TEST_F(WorkdirCopyTest, LinksInsideStayInsideAndThoseThatLeaveAreNamed) {
  Write("pkg/data.txt", "x");
  fs::create_symlink(dir_ / "pkg/data.txt", dir_ / "absolute");
  fs::create_symlink(dir_ / "pkg", dir_ / "pkg/self");
  fs::create_symlink("../..", dir_ / "pkg/up");
  fs::create_symlink("/mnt/data", dir_ / "data");
  fs::create_symlink("../pkg/data.txt", dir_ / "pkg/fine");
  const auto copy = Copy();
  ASSERT_TRUE(copy) << copy.error().message;
  std::map<std::string, std::string> links;
  for (const SnapshotEntry& entry : Entries(*copy)) {
    if (entry.kind == SnapshotKind::kLink) links[entry.path] = entry.target;
  }
  EXPECT_EQ(links["absolute"], "pkg/data.txt") << "the nodes have no such absolute path";
  EXPECT_EQ(links["pkg/self"], ".");
  EXPECT_EQ(links["pkg/fine"], "../pkg/data.txt");
  EXPECT_EQ(copy->leaving, (std::vector<std::string>{"data -> /mnt/data", "pkg/up -> ../.."}));
}

TEST_F(WorkdirCopyTest, NamesMayHaveAnyByte) {
  for (const char* name : {"line\nbreak", "\xff\xfe", "with space", "%41"}) Write(name, name);
  const auto copy = Copy();
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(Paths(*copy),
            (std::vector<std::string>{"%41", "line\nbreak", "with space", "\xff\xfe"}));
}

}  // namespace
}  // namespace launch
