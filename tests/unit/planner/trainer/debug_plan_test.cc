#include "planner/trainer/debug_plan.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

TEST(DebugPlan, IsAFewStepsOfSmallBatches) {
  UserChoices choices;
  choices.job.debug = true;
  choices.job.batch = {512, 4, 128};
  choices.job.steps = 9000;
  ApplyDebug(choices);
  EXPECT_EQ(choices.job.batch, (BatchSpec{std::nullopt, 1, 16}));
  EXPECT_EQ(choices.job.steps, kDebugSteps);
  ASSERT_EQ(choices.read.size(), 1u);

  choices.job.batch = {std::nullopt, 8, 4};
  ApplyDebug(choices);
  EXPECT_EQ(choices.job.batch.accumulate, 4);
}

TEST(DebugPlan, LeavesOtherJobsAlone) {
  UserChoices choices;
  choices.job.batch = {64, 4, 16};
  LaunchLine line;
  line.shell = "exec python t.py";
  line.script = "t.py";
  ApplyDebug(choices);
  choices.trainer = Trainer::kHf;
  AppendDebugFlags(choices, line);
  EXPECT_EQ(choices.job.batch, (BatchSpec{64, 4, 16}));
  EXPECT_EQ(line.shell, "exec python t.py");
}

TEST(DebugPlan, ReachesTheHuggingFaceTrainerByItsFlags) {
  UserChoices choices;
  choices.job.debug = true;
  choices.trainer = Trainer::kHf;
  LaunchLine line;
  line.shell = "exec python t.py --max_steps 5000";
  line.script = "t.py";
  AppendDebugFlags(choices, line);
  EXPECT_NE(line.shell.find("--max_steps 5000 --max_steps 10 --save_steps 5"), std::string::npos);
  EXPECT_EQ(line.shell.find("--output_dir"), std::string::npos);
  choices.job.checkpoint.dir = "out.debug-1";
  line.shell = "exec python t.py --output_dir out";
  AppendDebugFlags(choices, line);
  EXPECT_TRUE(line.shell.ends_with(" --output_dir \"$LAUNCH_CHECKPOINT_DIR\"")) << line.shell;
  choices.trainer = Trainer::kAuto;
  line.shell = "exec python t.py";
  AppendDebugFlags(choices, line);
  EXPECT_EQ(line.shell, "exec python t.py");
}

}  // namespace
}  // namespace launch
