// The environment behind the activation scripts that stand in front of a rank's command.
#include "agent/probes/activated_environment.h"

#include <gtest/gtest.h>

#include <string>

#include "common/activation.h"

namespace launch::agent {
namespace {

using Env = std::vector<EnvVar>;

RankSpec Activating(const std::string& text) {
  RankSpec rank;
  rank.argv = {"/bin/bash", "--norc",
               "-c",        text + std::string(kActivatedCommand),
               "launch",    "exec python train.py"};
  rank.env = {{"CONDA_PREFIX", "/envs/a"}, {"OLD", "1"}, {"PATH", "/usr/bin:/bin"}};
  return rank;
}

TEST(ActivatedEnvironment, IsWhatTheScriptsLeave) {
  const auto env =
      EnvironmentOf(Activating("echo welcome\nexport LIBS=\"$CONDA_PREFIX/lib\nx=y\"\nunset OLD\n"),
                    std::nullopt);
  ASSERT_TRUE(env) << env.error().message;
  EXPECT_EQ(
      *env,
      (Env{{"CONDA_PREFIX", "/envs/a"}, {"LIBS", "/envs/a/lib\nx=y"}, {"PATH", "/usr/bin:/bin"}}));
}

TEST(ActivatedEnvironment, WithoutScriptsIsThePlans) {
  RankSpec rank = Activating("");
  rank.argv = {"/bin/bash", "--norc", "-c", "exec python train.py"};
  EXPECT_EQ(*EnvironmentOf(rank, std::nullopt), rank.env);
}

TEST(ActivatedEnvironment, IsUnknownWhereAScriptEndsTheShell) {
  EXPECT_EQ(EnvironmentOf(Activating("exit 3\n"), std::nullopt).error().code,
            ErrorCode::kFailedPrecondition);
  EXPECT_FALSE(EnvironmentOf(Activating("exit 0\n"), std::nullopt));
}

TEST(ActivatedEnvironment, IsReadBehindTheLastMark) {
  constexpr char kOutput[] =
      "A=no\0@launch-environment\nB=1\0\nx@launch-environment\nC=2=3\0bad\0D=";
  EXPECT_EQ(ReadEnvironment({kOutput, sizeof kOutput - 1}), (Env{{"C", "2=3"}}));
  EXPECT_FALSE(ReadEnvironment("A=1"));
}

}  // namespace
}  // namespace launch::agent
