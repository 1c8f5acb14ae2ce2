#include "cli/snapshot/ignore_rules.h"

#include <gtest/gtest.h>

#include "cli/snapshot/glob.h"

namespace launch {
namespace {

TEST(IgnoreRules, GlobsAsGitReadsThem) {
  struct Row {
    const char* pattern;
    const char* text;
    bool matches;
  };
  for (const Row& row : {
           Row{"*.pt", "model.pt", true},
           {"*.pt", "a/model.pt", false},
           {"a/*.pt", "a/model.pt", true},
           {"**/x", "x", true},
           {"**/x", "a/b/x", true},
           {"a/**/b", "a/b", true},
           {"a/**/b", "a/c/d/b", true},
           {"a/**", "a/c/d", true},
           {"a/**", "a", false},
           {"?.txt", "a.txt", true},
           {"?.txt", "/.txt", false},
           {"[a-c]x", "bx", true},
           {"[!a-c]x", "bx", false},
           {"[!a-c]x", "dx", true},
           {"[]]x", "]x", true},
           {"[ab", "[ab", false},  // never closed: nothing
           {"x[", "x[", false},
           {"[[:digit:]]", "7", true},
           {"[[:digit:]]", "x", false},
           {"[![:digit:]_]", "x", true},
           {"[[:nothing:]]", "n", false},
           {"[a-]", "-", true},
           {"[\\]]", "]", true},
           {"[\xc0-\xff]", "\xe9", true},
           {"[!a]", "/", false},
           {"a\\", "a\\", false},  // a quote of nothing
           {"\\*", "*", true},
           {"\\*", "a", false},
           {"run*", "runs", true},
           {"*", "", true},
           {"data", "database", false},
           {"a**b", "axxb", true},
       }) {
    EXPECT_EQ(GlobMatches(row.pattern, row.text), row.matches) << row.pattern << " " << row.text;
  }
}

// It took minutes before what failed once was remembered.
TEST(IgnoreRules, ManyStarsOverALongNameAreSoonRefused) {
  std::string pattern;
  for (int i = 0; i < 30; ++i) pattern += "*a";
  EXPECT_FALSE(GlobMatches(pattern + "b", std::string(200, 'a')));
  EXPECT_TRUE(GlobMatches(pattern, std::string(200, 'a')));
}

TEST(IgnoreRules, TheLastRuleThatMatchesWins) {
  IgnoreRules rules;
  rules.Add("# weights\n*.pt\n!keep.pt\n\n", "");
  EXPECT_TRUE(rules.Ignores("model.pt", false));
  EXPECT_TRUE(rules.Ignores("deep/model.pt", false));
  EXPECT_FALSE(rules.Ignores("deep/keep.pt", false));
  EXPECT_FALSE(rules.Ignores("# weights", false));
}

TEST(IgnoreRules, ASlashBindsToTheDirectoryOfTheFile) {
  IgnoreRules rules;
  rules.Add("/data\nsrc/gen\n", "");
  EXPECT_TRUE(rules.Ignores("data", true));
  EXPECT_FALSE(rules.Ignores("src/data", true));
  EXPECT_TRUE(rules.Ignores("src/gen", true));
  EXPECT_FALSE(rules.Ignores("x/src/gen", true));
}

TEST(IgnoreRules, ASlashAtTheEndMeansDirectoriesOnly) {
  IgnoreRules rules;
  rules.Add("out/\n", "");
  EXPECT_TRUE(rules.Ignores("out", true));
  EXPECT_TRUE(rules.Ignores("a/out", true));
  EXPECT_FALSE(rules.Ignores("out", false));
}

TEST(IgnoreRules, ADeeperFileWinsAndReachesNoFurtherThanItsDirectory) {
  IgnoreRules rules;
  rules.Add("*.log\n", "");
  rules.Add("!*.log\n*.tmp\n", "keep");
  EXPECT_TRUE(rules.Ignores("a.log", false));
  EXPECT_FALSE(rules.Ignores("keep/a.log", false));
  EXPECT_TRUE(rules.Ignores("keep/deep/a.tmp", false));
  EXPECT_FALSE(rules.Ignores("a.tmp", false));
  EXPECT_FALSE(rules.Ignores("keeper/a.tmp", false));
}

TEST(IgnoreRules, WindowsLineEndsAndBlanksAtTheEndDoNotCount) {
  IgnoreRules rules;
  rules.Add("data  \r\n*.bin\r\n", "");
  EXPECT_TRUE(rules.Ignores("data", true));
  EXPECT_TRUE(rules.Ignores("a.bin", false));
}

TEST(IgnoreRules, AByteOrderMarkAndQuotedBlanksAreReadAsGitReadsThem) {
  IgnoreRules rules;
  rules.Add("\xef\xbb\xbf*.pt\nkept\\ \ncut\\\\ \n", "");
  EXPECT_TRUE(rules.Ignores("a.pt", false));
  EXPECT_TRUE(rules.Ignores("kept ", false));
  EXPECT_TRUE(rules.Ignores("cut\\", false));
}

TEST(IgnoreRules, TrackedFilesAreReachedByLaunchsOwnRulesOnly) {
  IgnoreRules rules;
  rules.Add("*.json\n", "", RuleSource::kLaunch);
  rules.Add("!b.json\n*.pt\n", "");
  EXPECT_TRUE(rules.IgnoresTracked("a.json", false));
  EXPECT_TRUE(rules.IgnoresTracked("b.json", false));
  EXPECT_FALSE(rules.Ignores("b.json", false));
  EXPECT_TRUE(rules.Ignores("a.pt", false));
  EXPECT_FALSE(rules.IgnoresTracked("a.pt", false));
  rules.DropGitRules();
  EXPECT_FALSE(rules.Ignores("a.pt", false));
  EXPECT_TRUE(rules.Ignores("b.json", false));
}

}  // namespace
}  // namespace launch
