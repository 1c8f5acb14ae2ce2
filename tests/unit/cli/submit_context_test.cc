#include "cli/submit_context.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace launch {
namespace {

TEST(SubmitContext, TakesRequiredValuesFromTheCaller) {
  setenv("LAUNCH_TEST_VALUE", "v", 1);
  unsetenv("LAUNCH_TEST_MISSING");
  JobSpec spec;
  spec.env = {{"LAUNCH_TEST_VALUE", std::nullopt}, {"FIXED", "x"}};
  const auto facts = ReadSubmitterFacts(spec, "/tmp");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->context.caller_env,
            (std::map<std::string, std::string>{{"LAUNCH_TEST_VALUE", "v"}}));
  spec.env.push_back({"LAUNCH_TEST_MISSING", std::nullopt});
  const auto missing = ReadSubmitterFacts(spec, "/tmp");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(missing.error().message.find("LAUNCH_TEST_MISSING"), std::string::npos);
}

TEST(SubmitContext, KeepsSecretsApartFromTheEnvironment) {
  setenv("LAUNCH_TEST_TOKEN", "s3cret", 1);
  JobSpec spec;
  spec.env = {{"LAUNCH_TEST_TOKEN", std::nullopt}};
  spec.secrets = {"LAUNCH_TEST_TOKEN"};
  const auto facts = ReadSubmitterFacts(spec, "/tmp");
  ASSERT_TRUE(facts);
  EXPECT_TRUE(facts->context.caller_env.empty());
  EXPECT_EQ(facts->secrets,
            (std::vector<std::pair<std::string, std::string>>{{"LAUNCH_TEST_TOKEN", "s3cret"}}));
}

TEST(SubmitContext, RefusesASecretThatStandsInTheFile) {
  JobSpec spec;
  spec.env = {{"TOKEN", "plain"}};
  spec.secrets = {"TOKEN"};
  EXPECT_FALSE(ReadSubmitterFacts(spec, "/tmp"));
}

TEST(SubmitContext, KnowsTheActiveEnvironmentAndTheWorkdir) {
  setenv("VIRTUAL_ENV", "/opt/env", 1);
  JobSpec spec;
  spec.workdir = "/tmp";
  const auto facts = ReadSubmitterFacts(spec, "/tmp");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->context.active_venv, "/opt/env");
  EXPECT_NE(facts->context.workdir_inode, 0u);
  EXPECT_FALSE(facts->context.user.empty());
  EXPECT_FALSE(facts->context.host_boot_id.empty());
}

}  // namespace
}  // namespace launch
