#include "planner/reach.h"

#include <gtest/gtest.h>

#include "planner/trainer/hf_flags.h"
#include "planner/trainer/user_choices.h"

namespace launch {
namespace {

struct Line {
  const char* run;
  BatchReach batch;
};

JobSpec HfJob(const char* run) {
  JobSpec spec;
  spec.trainer = Trainer::kHf;
  spec.run = run;
  spec.batch = {64, {}, {}};
  return spec;
}

Plan HfPlan() {
  Plan plan;
  plan.trainer = Trainer::kHf;
  plan.batch = {64, 8, 1};
  plan.precision = Precision::kBf16;
  plan.checkpointing = "full";
  return plan;
}

// What is said to follow a plan is what gets the plan's flags.
TEST(Reach, AgreesWithTheFlagsThatAreAdded) {
  const Line lines[] = {
      {"torchrun train.py --output_dir=out", BatchReach::kFollows},
      {"torchrun train.py --output_dir out", BatchReach::kFollows},
      {"torchrun train.py", BatchReach::kFollows},
      {"python train.py --output_dir out --bf16 true", BatchReach::kFollows},
      {"python train.py args.json", BatchReach::kUnknown},
      {"torchrun train.py args.yaml", BatchReach::kUnknown},
      {"python train.py --per_device_train_batch_size $MINE", BatchReach::kUnknown},
      {"python train.py --per_device_train_batch_size 4", BatchReach::kFixed},
  };
  for (const Line& line : lines) {
    const JobSpec spec = HfJob(line.run);
    const PlanReach reach = ReachOf(spec, {}, HfPlan());
    EXPECT_EQ(reach.batch, line.batch) << line.run;
    auto read = ReadLaunchLine(spec.run, LineOptions(spec, {}));
    ASSERT_TRUE(read) << line.run;
    const auto choices = ReadUserChoices(spec, {}, *read);
    ASSERT_TRUE(choices) << line.run;
    Plan plan = HfPlan();
    AppendHfFlags(*choices, *read, plan);
    const bool added = read->shell.find("$LAUNCH_MICRO_BATCH") != std::string::npos;
    EXPECT_EQ(added, line.batch == BatchReach::kFollows) << line.run << " became " << read->shell;
    EXPECT_EQ(reach.checkpointing,
              read->shell.find("--gradient_checkpointing") != std::string::npos)
        << line.run;
  }
}

}  // namespace
}  // namespace launch
