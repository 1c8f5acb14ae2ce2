#include "cli/snapshot/git_state.h"

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "cli/snapshot/quiet_git.h"
#include "tests/unit/cli/git_tree.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

// On a machine that stands still for a while git is slow too.
constexpr Millis kPatient{120'000};

class GitStateTest : public GitTreeTest {
 protected:
  GitState State(const std::string& below = "") const {
    return ReadGitState((dir_ / below).string(), kPatient);
  }
};

TEST_F(GitStateTest, IsCommitDifferenceAndUntrackedNames) {
  Write("train.py", "lr = 1\n");
  Write("sub/other.py", "x = 1\n");
  EXPECT_EQ(State().commit, "") << "no commit yet";
  Shell("git add . && git commit -qm one && git pack-refs --all");
  EXPECT_EQ(State().commit + "\n", Shell("git rev-parse HEAD"));
  EXPECT_EQ(State().diff, "");
  Write("train.py", "lr = 2\n");
  Write("new.py", "");
  Write("junk.pyc", "");
  Write(".git/info/exclude", "*.pyc\n");
  const GitState state = State();
  EXPECT_NE(state.diff.find("-lr = 1\n+lr = 2\n"), std::string::npos) << state.diff;
  EXPECT_TRUE(state.diff.ends_with("untracked: new.py\n")) << state.diff;
  EXPECT_EQ(State("sub").diff, "") << "only what lies below workdir counts";
  Shell("git worktree add -q ../linked");
  std::ofstream(above_ / "linked/sub/other.py") << "x = 2\n";
  const GitState linked = ReadGitState((above_ / "linked").string(), kPatient);
  EXPECT_EQ(linked.commit, state.commit);
  EXPECT_NE(linked.diff.find("+x = 2"), std::string::npos) << linked.diff;
}

TEST_F(GitStateTest, StagedChangesAndFilesTouchedWithoutAChangeAreToldApart) {
  Write("a", "1\n");
  Write("b", "1\n");
  Shell("git add . && git commit -qm one");
  fs::last_write_time(dir_ / "a", fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(State().diff, "");
  Write("b", "2\n");
  Shell("git add b");
  const std::string index = Shell("sha256sum .git/index");
  EXPECT_NE(State().diff.find("+2"), std::string::npos);
  EXPECT_EQ(Shell("sha256sum .git/index"), index) << "nothing is written into the repository";
}

TEST_F(GitStateTest, APlainRepositoryOfSplitIndexAndSha256IsReadToo) {
  Write("a", "1\n");
  Shell("rm -rf .git && git init -q --object-format=sha256 . && git add . && git commit -qm one");
  Shell("git update-index --split-index");
  EXPECT_EQ(State().commit.size(), 64u);
  EXPECT_EQ(State().diff, "");
  Write("a", "2\n");
  EXPECT_NE(State().diff.find("-1\n+2\n"), std::string::npos) << State().diff;
}

TEST_F(GitStateTest, AKeyWithoutAValueTakesNoOtherWithIt) {
  Write("a", "1\n");
  Write("note.skip", "1\n");
  std::ofstream(home_ / "ignored") << "*.skip\n";
  Shell("git add a && git commit -qm one");
  Shell(
      "printf '[core]\\n\\tfileMode = false\\n\\tquotePath\\n\\texcludesFile = ~/ignored\\n' "
      ">>.git/config");
  Shell("chmod +x a");
  EXPECT_EQ(State().diff, "") << "fileMode and excludesFile hold";
}

using GitStateDeathTest = GitStateTest;

TEST_F(GitStateDeathTest, AnInterruptLeavesNothingBehind) {
  Write("a", "1\n");
  Shell("git add . && git commit -qm one");
  ScopedVariables here;
  here.Set("TMPDIR", home_.string());
  const auto repository = GitRepositoryAround(dir_);
  ASSERT_TRUE(repository);
  EXPECT_EXIT(
      {
        const auto git = QuietGit::Open(*repository, kPatient);
        ::raise(SIGINT);
        std::fprintf(stderr, "goes on: %d", git.has_value());
      },
      testing::KilledBySignal(SIGINT), "goes on: 1");
  for (const auto& entry : fs::directory_iterator(home_))
    EXPECT_FALSE(entry.path().filename().string().starts_with("launch-git-")) << entry.path();
}

// Whoever wrote the repository's files decides nothing about what runs here.
TEST_F(GitStateTest, NoProgramOfTheRepositorysConfigurationIsRun) {
  Write("train.txt", "lr = 1\n");
  Shell("git add . && git commit -qm one");
  const std::string touch = "touch " + (above_ / "ran").string() + "; ";
  for (const char* key : {"filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv"}) {
    Shell("git config " + std::string(key) + " '" + touch + "cat'");
  }
  for (const char* key : {"filter.evil.process", "diff.external", "diff.evil.command",
                          "core.fsmonitor", "core.pager", "pager.diff", "core.sshCommand"}) {
    Shell("git config " + std::string(key) + " '" + touch + "false'");
  }
  Write(".git/hooks/post-index-change", "#!/bin/sh\n" + touch + "\n");
  fs::permissions(dir_ / ".git/hooks/post-index-change", fs::perms::owner_all);
  Write(".git/info/attributes", "* filter=evil diff=evil\n");
  Write(".gitattributes", "* filter=evil diff=evil\n");
  Write("train.txt", "lr = 2\n");
  const GitState state = State();
  EXPECT_FALSE(fs::exists(above_ / "ran"));
  EXPECT_NE(state.diff.find("-lr = 1\n+lr = 2\n"), std::string::npos) << state.diff;
  EXPECT_NE(state.diff.find("untracked: .gitattributes\n"), std::string::npos) << state.diff;
  Shell("git diff --quiet || true");
  EXPECT_TRUE(fs::exists(above_ / "ran")) << "the trap was no trap";
}

TEST_F(GitStateTest, NorOneOfASubmodule) {
  Write("a", "1\n");
  Shell("git add . && git commit -qm one");
  Shell("git init -q inner && cd inner && echo 1 >b && git add b && git commit -qm one");
  Shell("git add inner 2>/dev/null && git commit -qm two");
  Shell("git -C inner config core.fsmonitor 'touch " + (above_ / "ran").string() + "; false'");
  Write("inner/b", "2\n");
  (void)State();
  EXPECT_FALSE(fs::exists(above_ / "ran"));
  Shell("git status --short");
  EXPECT_TRUE(fs::exists(above_ / "ran")) << "the trap was no trap";
}

TEST_F(GitStateTest, ALongDifferenceSaysWhereItIsCut) {
  std::string numbers;
  for (int i = 0; i < 40'000; ++i) numbers += std::to_string(i) + "\n";
  Write("numbers", numbers);
  Shell("git add . && git commit -qm one");
  Write("numbers", "x" + numbers.substr(0, 100'000));
  Write("new.py", "");
  const std::string diff = State().diff;
  EXPECT_LE(diff.size(), std::size_t{64} * 1024);
  EXPECT_GT(diff.size(), std::size_t{50} * 1024);
  EXPECT_NE(diff.find("\n[cut here: it is longer than 54KiB]\n"), std::string::npos)
      << diff.substr(diff.size() - 200);
  EXPECT_TRUE(diff.ends_with("untracked: new.py\n")) << "they are said all the same";
}

TEST_F(GitStateTest, AFileOfManyMiBIsComparedAsAWhole) {
  Write("table.txt", "");
  Write("train.py", "lr = 1\n");
  Shell("git add . && git commit -qm one");
  Write("train.py", "lr = 2\n");
  Write("table.txt", std::string(std::size_t{20} << 20, 'x'));
  const GitState state = State();
  EXPECT_NE(state.diff.find("Binary files a/table.txt"), std::string::npos) << state.diff;
  EXPECT_NE(state.diff.find("+lr = 2\n"), std::string::npos);
}

TEST_F(GitStateTest, AGitThatIsMissingOrBrokenOrSlowIsNoCleanTree) {
  Write("a", "1\n");
  Shell("git add . && git commit -qm one");
  ScopedVariables variables;
  fs::create_directory(above_ / "bin");
  variables.Set("PATH", (above_ / "bin").string());
  EXPECT_EQ(State().diff, "[not recorded: git is not installed here]\n");
  const auto git = [&](const std::string& body) {
    std::ofstream(above_ / "bin/git") << "#!/bin/sh\n" + body + "\n";
    fs::permissions(above_ / "bin/git", fs::perms::owner_all);
  };
  git("echo 'fatal: bad object' >&2; exit 128");
  EXPECT_TRUE(
      State().diff.starts_with("[not recorded: git ended with exit code 128: fatal: bad object]\n"))
      << State().diff;
  git("exec /bin/sleep 20");
  const GitState slow = ReadGitState(dir_.string(), Millis(100));
  EXPECT_EQ(slow.commit.size(), 40u);
  EXPECT_TRUE(slow.diff.starts_with("[not recorded: git took too long]\n")) << slow.diff;
}

TEST(RecordedOutput, IsWholeLinesAndTheReasonWhyTheRestIsMissing) {
  EXPECT_EQ(RecordedOutput(Finished{.code = 0, .output = "a\nb\n", .errors = "w"}, 10), "a\nb\n");
  EXPECT_EQ(RecordedOutput(Finished{}, 10), "");
  EXPECT_EQ(RecordedOutput(Finished{.code = 0, .output = "1234\n5678\n9", .errors = ""}, 8),
            "1234\n[cut here: it is longer than 8B]\n");
  EXPECT_EQ(RecordedOutput(Finished{.code = 128, .output = "1", .errors = "fatal: x\ny"}, 8),
            "1\n[cut here: git ended with exit code 128: fatal: x]\n");
  EXPECT_EQ(RecordedOutput(Fail(ErrorCode::kDeadlineExceeded, "git", "-a\n+b"), 80),
            "-a\n+b\n[cut here: git took too long]\n");
  EXPECT_EQ(RecordedOutput(Fail(ErrorCode::kIo, "no space"), 80), "[not recorded: no space]\n");
}

}  // namespace
}  // namespace launch
