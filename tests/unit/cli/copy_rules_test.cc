#include "cli/snapshot/copy_rules.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "cli/snapshot/workdir_copy.h"
#include "common/snapshot.h"
#include "tests/unit/cli/git_tree.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

class CopyRulesTest : public GitTreeTest {
 protected:
  WorkdirCopy Copy(const std::string& below = "") const {
    auto copy = CopyWorkdir((dir_ / below).string(), {});
    EXPECT_TRUE(copy) << copy.error().message;
    return copy ? *copy : WorkdirCopy{};
  }
  // Files and links of a copy, sorted.
  static std::vector<std::string> FilesOf(const WorkdirCopy& copy) {
    std::string manifest;
    const auto root = ParseRoot(copy.chunks.at(copy.root).text);
    for (const std::string& piece : *root) {
      manifest += copy.chunks.at(piece).text;
    }
    const auto entries = ParseManifest(manifest);
    std::vector<std::string> files;
    for (const SnapshotEntry& entry : *entries) {
      if (entry.kind != SnapshotKind::kDirectory) files.push_back(entry.path);
    }
    std::ranges::sort(files);
    return files;
  }
  std::vector<std::string> Files(const std::string& below = "") const {
    return FilesOf(Copy(below));
  }
  // What git itself says belongs to the working tree.
  std::vector<std::string> GitFiles(const std::string& below = ".") const {
    auto files =
        Split(ShellIn(dir_ / below, "git ls-files -z --cached --others --exclude-standard"), '\0');
    std::ranges::sort(files);
    return files;
  }
};

// Every name below, alone and in directories.
const std::vector<std::string>& OddNames() {
  static const auto* const kNames = new std::vector<std::string>{
      "a",          "b.txt",     "model.pt",     "MODEL.PT",     "x[",       "x]",       "[ab]",
      "abc1",       "abcx",      "abc[",         "#hash",        "!bang",    "trail ",   "trail",
      "with space", "tab\tname", "line\nbreak",  "\xff\xfe.bin", "b[1].txt", "b1.txt",   "foo-]",
      "foo--",      "foo-a",     "star*",        "back\\slash",  "data",     "database", "prefix",
      "q?",         ".hidden",   "\xc3\xa9.txt", "z^",           "0",        "~tilde",   "a-b",
      "a:b",
  };
  return *kNames;
}

const std::vector<std::string>& OddPatterns() {
  static const auto* const kPatterns = new std::vector<std::string>{
      "*.pt",
      "*.PT",
      "x[",
      "x]",
      "[[]ab]",
      "[ab]",
      "\\[ab\\]",
      "abc[[:digit:]]",
      "abc[[:alpha:]]",
      "abc[![:digit:]]",
      "abc[[:nothing:]]",
      "abc[[:digit:]",
      "abc[[:x]",
      "[[:upper:]]*",
      "[[:space:]]*",
      "*[[:space:]]*",
      "[[:^alpha:]]*",
      "\\#hash",
      "#hash",
      "\\!bang",
      "!bang",
      "trail\\ ",
      "trail ",
      "trail\\\\ ",
      "b[1].txt",
      "b\\[1\\].txt",
      "foo-[]]",
      "foo-[]-a]",
      "foo-[--/]",
      "foo-[a-]",
      "foo-[!a]",
      "foo-[^a]",
      "star\\*",
      "back\\\\slash",
      "back\\",
      "*\\",
      "data",
      "data/",
      "/data",
      "/data/",
      "pre",
      "/pre/",
      "pre*",
      "*fix",
      "**",
      "**/",
      "/**",
      "**/a",
      "a/**",
      "sub/**/a",
      "/sub/**/deep/*",
      "sub**/a",
      "su**b/a",
      "sub/*",
      "sub/*/a",
      "*/a",
      "*/*/a",
      "/*",
      "/*\n!/sub",
      "*\n!*/\n!a",
      "q\\?",
      "q?",
      "?",
      "??",
      "[a-c]",
      "[c-a]",
      "[!a-z]*",
      "[\\]x]*",
      "[\\a-c]",
      "[a\\-z]",
      ".*",
      "\xc3*",
      "\xff*",
      "*\xfe*",
      "[\xc0-\xff]*",
      "*.txt\r",
      "a\t",
      "sub/deep",
      "deep/a",
      "/deep/a",
      "deep\\/a",
      "**\\/a",
      "a**b",
      "*a*b*",
      "sub/",
      "sub//",
      "//sub",
      "/",
      "//",
      "!",
      "!!a",
      "  a",
      "a  ",
      "\xef\xbb\xbf*.pt",
      "z^",
      "[^^]^",
      "a-b",
      "[[:digit:][:punct:]]*",
      "[",
      "[]",
      "[!]",
      "[]!]",
      "x[]",
      "~*",
      "a:b",
      "[[:alpha:]-9]",
      "[]-a]*",
  };
  return *kPatterns;
}

// Each pattern in a directory of its own, over the same names.
TEST_F(CopyRulesTest, EveryPatternSaysOfEveryNameWhatGitSays) {
  std::vector<std::string> names = {"sub/deep/a", "sub/x/deep/a", "sub/deep/b.txt", "subway/a",
                                    "deep/a"};
  for (const std::string& name : OddNames()) {
    names.push_back(name);
    names.push_back("sub/" + name);
  }
  for (std::size_t at = 0; at < OddPatterns().size(); ++at) {
    const std::string directory = std::to_string(at) + "/";
    for (const std::string& name : names) Write(directory + name, "");
    Write(directory + ".gitignore", OddPatterns()[at] + "\n");
  }
  const auto ours = Files();
  const auto gits = GitFiles();
  std::vector<std::string> wrong;
  std::ranges::set_symmetric_difference(ours, gits, std::back_inserter(wrong));
  for (const std::string& path : wrong) {
    const std::string& pattern = OddPatterns()[std::stoul(path)];
    ADD_FAILURE() << testing::PrintToString(path) << " is judged otherwise than by git, pattern "
                  << testing::PrintToString(pattern);
  }
  EXPECT_GT(gits.size(), 1000u);
}

TEST_F(CopyRulesTest, RulesOfDeeperDirectoriesAndManyLinesReadAsGitReadsThem) {
  for (const char* path :
       {"a/z.PT", "a/keep.log", "logs/keep", "logs/drop", "sub/x/deep.bin", "foo/x/bar", "foox/bar",
        "only/x", "file-only", "d/file-only/x", "b/c/tmp", "b/tmp/y", "linked/rule.txt"}) {
    Write(path, "x");
  }
  Write(".gitignore", "*.log\nlogs/*\n!logs/keep\n/sub/**/deep.bin\nfoo**/bar\nfile-only/\ntmp");
  Write("a/.gitignore", "\xef\xbb\xbf*.PT\r\n!keep.log\r\n");
  Write("b/.gitignore", "!tmp\n/c\n");
  Write("rules", "rule.txt\n");
  fs::create_symlink("../rules", dir_ / "linked/.gitignore");
  fs::create_symlink("nowhere", dir_ / "dangling");
  EXPECT_EQ(Files(), GitFiles());
}

TEST_F(CopyRulesTest, WhatGitTracksIsCopiedAlthoughAPatternNamesIt) {
  Write(".gitignore", "*.json\ndata/\nonly/\n");
  for (const char* path : {"tracked.json", "loose.json", "data/force.json", "data/loose.bin",
                           "data/deep/force.bin", "data/deep/loose", "only/loose", "train.py"}) {
    Write(path, "x");
  }
  Shell("git add . && git add -f tracked.json data/force.json data/deep/force.bin");
  EXPECT_EQ(Files(), GitFiles()) << "staged is tracked";
  Shell("git commit -qm one");
  EXPECT_EQ(Files(), (std::vector<std::string>{".gitignore", "data/deep/force.bin",
                                               "data/force.json", "tracked.json", "train.py"}));
  EXPECT_EQ(Files("data").size(), 4u) << "who works in an ignored directory wants what is in it";
  Write(".launchignore", "data\ntracked.json\n");
  EXPECT_EQ(Files(), (std::vector<std::string>{".gitignore", ".launchignore", "train.py"}))
      << "what the user names here stays away, tracked or not";
  Write(".launchignore", "!loose.json\n");
  const auto files = Files();
  EXPECT_TRUE(std::ranges::binary_search(files, "loose.json"));
}

TEST_F(CopyRulesTest, RulesAboveWorkdirAndThoseOfTheRepositoryAndTheUserCount) {
  Write(".gitignore", "*.json\n/a/data/\n/b\n");
  Write("a/.gitignore", "!keep.json\n");
  Write(".git/info/exclude", "*.secret\n/a/w/private\n");
  fs::create_directories(home_ / ".config/git");
  std::ofstream(home_ / ".config/git/ignore") << "*.swp\n";
  for (const char* path :
       {"a/w/big.json", "a/w/keep.json", "a/w/x.secret", "a/w/private", "a/w/n/private",
        "a/w/x.swp", "a/w/train.py", "a/data/x", "a/data/y.json", "b/x"}) {
    Write(path, "x");
  }
  EXPECT_EQ(Files(), GitFiles());
  EXPECT_EQ(Files("a"), GitFiles("a"));
  EXPECT_EQ(Files("a/w"), GitFiles("a/w"));
  EXPECT_EQ(Files("a/w"), (std::vector<std::string>{"keep.json", "n/private", "train.py"}));
  Shell("git config core.excludesFile '~/mine'");
  std::ofstream(home_ / "mine") << "*.py\n";
  EXPECT_EQ(Files("a/w"), GitFiles("a/w"));
  EXPECT_EQ(Files("a/data"), (std::vector<std::string>{"x", "y.json"}))
      << "a workdir that git ignores altogether is wanted all the same";
  fs::create_directory_symlink(dir_ / "a/w", above_ / "link");
  const auto linked = CopyWorkdir((above_ / "link").string(), {});
  ASSERT_TRUE(linked) << linked.error().message;
  EXPECT_EQ(FilesOf(*linked), GitFiles("a/w")) << "the rules around where the link leads";
}

TEST_F(CopyRulesTest, ARepositoryInsideBeginsAnew) {
  Write(".gitignore", "*.json\nvendor/\n");
  Write(".launchignore", "*.big\n");
  Shell("git init -q inner && git init -q vendor/other");
  for (const char* path : {"inner/a.json", "inner/b.txt", "inner/c.big", "vendor/other/x"}) {
    Write(path, "x");
  }
  Write("inner/.gitignore", "*.txt\n");
  Shell("cd inner && git add -f b.txt && git commit -qm one");
  EXPECT_EQ(Files(), (std::vector<std::string>{".gitignore", ".launchignore", "inner/.gitignore",
                                               "inner/a.json", "inner/b.txt"}));
  Shell("git add inner 2>/dev/null && git commit -qm one");
  Write(".gitignore", "*.json\nvendor/\ninner\n");
  EXPECT_EQ(Files(), (std::vector<std::string>{".gitignore", ".launchignore", "inner/.gitignore",
                                               "inner/a.json", "inner/b.txt"}))
      << "a submodule is tracked";
}

TEST_F(CopyRulesTest, WithoutGitItIsSaidWhatMayBeMissing) {
  Write(".gitignore", "*.json\n");
  Write("tracked.json", "x");
  Shell("git add -f . && git commit -qm one");
  ScopedVariables variables;
  variables.Set("PATH", (above_ / "nothing").string());
  const WorkdirCopy copy = Copy();
  EXPECT_EQ(copy.unsure, (std::vector<std::string>{"tracked.json"}));
  EXPECT_EQ(copy.unsure_why, "git is not installed here");
}

TEST_F(CopyRulesTest, MoreTrackedFilesThanAPipeKeepsAreAllKnown) {
  Write(".gitignore", "data/\n");
  const std::string directory = "data/" + std::string(200, 'd') + "/" + std::string(200, 'e');
  for (int i = 0; i < 3000; ++i) Write(directory + "/" + std::to_string(i), "");
  Shell("git add -f .");
  EXPECT_EQ(Files().size(), 3001u) << "1.2 MB of names";
}

}  // namespace
}  // namespace launch
