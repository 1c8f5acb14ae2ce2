#include "planner/reach.h"

#include <gtest/gtest.h>

#include "planner/line/script_habits.h"
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

// A script that knows NCCL alone cannot train on a CPU: said before it fails.
TEST(Reach, AScriptThatOnlyKnowsNcclIsNamedOnAJobWithoutGpus) {
  const auto warns = [](const std::string& text, DeviceClass device) {
    JobSpec spec;
    spec.run = "torchrun --nproc_per_node=2 train.py";
    const std::map<std::string, std::string> files = {{"train.py", text}};
    const auto line = ReadLaunchLine(spec.run, LineOptions(spec, files));
    EXPECT_TRUE(line);
    const auto finding = OnlyNccl(*line, files, device);
    EXPECT_EQ(
        finding.has_value(),
        finding && finding->says.find("train.py asks for the backend nccl") != std::string::npos);
    return finding.has_value();
  };
  for (const char* nccl :
       {"dist.init_process_group('nccl')\n", "init_process_group(backend=\"nccl\", rank=r)\n",
        "    init_process_group(\n        backend='nccl')\n"}) {
    EXPECT_TRUE(warns(nccl, DeviceClass::kCpu)) << nccl;
    EXPECT_FALSE(warns(nccl, DeviceClass::kCuda)) << nccl;
  }
  for (const char* fine :
       {"dist.init_process_group()\n", "dist.init_process_group(args.backend)\n",
        "dist.init_process_group('nccl' if cuda else 'gloo')\n", "# init_process_group('nccl')\n",
        "dist.init_process_group('cpu:gloo,cuda:nccl')\n"})
    EXPECT_FALSE(warns(fine, DeviceClass::kCpu)) << fine;
}

}  // namespace
}  // namespace launch
