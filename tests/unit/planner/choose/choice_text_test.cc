#include "planner/choose/choice_text.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/units.h"

namespace launch {
namespace {

ChoiceInput EightA100() {
  ChoiceInput input;
  input.card.architecture = Architecture::kDecoder;
  input.card.params = 6'738'415'616;
  input.card.layers = 32;
  input.card.hidden = 4096;
  input.card.heads = 32;
  input.card.vocab = 32000;
  input.setup.framework = Framework::kHf;
  input.setup.seq = 2048;
  input.machine.gpu = *GpuCatalog::BuiltIn().Find("A100", 80);
  input.machine.gpus_per_node = 8;
  input.shape = {8, 8};
  input.limits.batch.global = 256;
  input.gpu_bytes = 80.0 * static_cast<double>(kGiB);
  return input;
}

TEST(ChoiceText, SaysWhatTheSimplerPlanLacksAndWhatTheChosenOneTakes) {
  const ChoiceInput input = EightA100();
  const auto choice = ChoosePlan(input);
  ASSERT_TRUE(choice && choice->chosen);
  const std::string why = WhyChosen(*choice, input);
  EXPECT_EQ(why.find("zero1 on 8 GPUs: ddp, activation checkpointing needs 1"), 0U) << why;
  EXPECT_NE(why.find(" GiB of 80.0; predicted "), std::string::npos) << why;
  EXPECT_NE(why.find(" s a step, most of it "), std::string::npos) << why;
}

TEST(ChoiceText, GivesOneReasonForEveryOtherWay) {
  const ChoiceInput input = EightA100();
  const auto choice = ChoosePlan(input);
  ASSERT_TRUE(choice && choice->chosen);
  std::set<std::string> ways;
  for (const JudgedOption& judged : choice->judged) ways.insert(NameOf(judged.option));
  const std::string chosen = NameOf(choice->judged[*choice->chosen].option);
  std::set<std::string> rejected;
  for (const RejectedWay& way : RejectedWays(*choice, input)) {
    EXPECT_TRUE(rejected.insert(way.name).second) << way.name;
    EXPECT_NE(way.name, chosen);
    EXPECT_FALSE(way.code.empty());
    EXPECT_FALSE(way.reason.empty());
    // Another micro-batch of the same way is no reason against the way.
    EXPECT_NE(way.code, "OTHER_BATCH") << way.name;
    if (way.code == "GPU_MEM") {
      EXPECT_EQ(way.reason.find("needs "), 0U) << way.reason;
    }
    if (way.code == "SLOWER") {
      EXPECT_TRUE(way.reason.find("slower") == 0 || way.reason.find("not faster") == 0)
          << way.reason;
    }
  }
  EXPECT_EQ(rejected.size() + 1, ways.size());
}

TEST(ChoiceText, SaysNothingWhereNothingFits) {
  ChoiceInput input = EightA100();
  input.gpu_bytes = 1e9;
  const auto choice = ChoosePlan(input);
  ASSERT_TRUE(choice);
  EXPECT_FALSE(choice->chosen);
  EXPECT_EQ(WhyChosen(*choice, input), "");
  for (const RejectedWay& way : RejectedWays(*choice, input)) {
    EXPECT_TRUE(way.code == "GPU_MEM" || way.code == "HOST_MEM") << way.name;
  }
}

}  // namespace
}  // namespace launch
