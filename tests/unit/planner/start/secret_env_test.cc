#include "planner/start/secret_env.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

std::string Named(std::vector<EnvEntry> env) {
  JobSpec spec;
  spec.env = std::move(env);
  const std::vector<Finding> findings = SecretsInClear(spec);
  if (findings.empty()) return "";
  EXPECT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
  EXPECT_NE(findings[0].remedy.find("secrets: ["), std::string::npos);
  return findings[0].says.substr(0, findings[0].says.find(" looks"));
}

TEST(SecretsInClear, AreNamedOnceWithTheFieldThatKeepsThem) {
  EXPECT_EQ(Named({{"HF_TOKEN", "hf_abcdefgh"}, {"EPOCHS", "10"}, {"DB_PASSWORD", "opensesame"}}),
            "env: HF_TOKEN, DB_PASSWORD");
}

TEST(SecretsInClear, AValueFromTheCallerIsStoredToo) {
  EXPECT_EQ(Named({{"WANDB_API_KEY", std::nullopt}}), "env: WANDB_API_KEY");
}

TEST(SecretsInClear, APasswordInAUrlIsOne) {
  EXPECT_EQ(Named({{"MIRROR", "https://ana:opensesame@host/simple"}}), "env: MIRROR");
}

TEST(SecretsInClear, NamesOfFilesOtherVariablesAndSwitchesAreNone) {
  EXPECT_EQ(Named({{"TOKENIZERS_PARALLELISM", "false"},
                   {"HF_TOKEN_PATH", "/home/ana/.cache/token"},
                   {"DB_PASSWORD", "$OTHER"},
                   {"PAD_TOKEN", "0"},
                   {"OMP_NUM_THREADS", "4"}}),
            "");
}

}  // namespace
}  // namespace launch
