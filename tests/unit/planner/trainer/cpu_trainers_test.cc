#include "planner/trainer/cpu_trainers.h"

#include "tests/unit/planner/plan_fixtures.h"

namespace launch::testing {
namespace {

constexpr const char* kStage2 =
    R"({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"})";

JobSpec CpuJob(const std::string& run, int processes = 2) {
  JobSpec job = Job(run);
  job.device = DeviceChoice::kCpu;
  job.procs_per_node = processes;
  return job;
}

Result<PlannedRun> Planned(const JobSpec& job,
                           const std::map<std::string, std::string>& files = {}) {
  SubmitContext context = Context();
  context.files = files;
  return PlanOn(job, {Node("n")}, context);
}

TEST(CpuTrainers, TheHuggingFaceTrainerUsesDeepspeedOnTheCpu) {
  JobSpec job = CpuJob("python t.py");
  job.trainer = Trainer::kHf;
  job.strategy = Strategy::kZero2;
  job.batch = {8, 2, {}};
  const auto run = Planned(job);
  ASSERT_TRUE(run) << ErrorOf(run);
  const auto& env = run->plan.assignments[0].env;
  EXPECT_EQ(env.count("ACCELERATE_USE_CPU"), 0u) << "accelerate would leave DeepSpeed aside";
  EXPECT_EQ(env.at("DS_ACCELERATOR"), "cpu");
  EXPECT_EQ(env.at("ACCELERATE_USE_DEEPSPEED"), "true");
  EXPECT_TRUE(Contains(run->plan.command, "--use_cpu True")) << run->plan.command;

  const auto own = Planned(
      CpuJob("torchrun t.py --output_dir o --save_strategy no --deepspeed ds.json --use_cpu"),
      {{"ds.json", kStage2}});
  ASSERT_TRUE(own) << ErrorOf(own);
  EXPECT_EQ(own->plan.strategy, Strategy::kZero2);
  EXPECT_EQ(own->plan.assignments[0].env.count("ACCELERATE_USE_CPU"), 0u);
  EXPECT_FALSE(Contains(own->plan.command, "--use_cpu True")) << "written already";
}

TEST(CpuTrainers, WhatTheirPluginsCannotDoOnTheCpuIsRefused) {
  for (const Trainer trainer : {Trainer::kHf, Trainer::kAccelerate}) {
    JobSpec fsdp = CpuJob("python t.py");
    fsdp.trainer = trainer;
    fsdp.strategy = Strategy::kFsdp;
    const auto run = Planned(fsdp);
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, ErrorCode::kCannotFit);
    EXPECT_TRUE(Contains(run.error().message, "FSDP for GPUs only")) << ErrorOf(run);
  }
  JobSpec zero = CpuJob("python t.py");
  zero.trainer = Trainer::kAccelerate;
  zero.strategy = Strategy::kZero2;
  EXPECT_FALSE(Planned(zero));
  zero.procs_per_node = 1;
  EXPECT_TRUE(Planned(zero)) << "one rank needs no world";
  EXPECT_FALSE(Planned(CpuJob("accelerate launch --use_deepspeed --num_processes 2 t.py")));
  EXPECT_FALSE(Planned(CpuJob("accelerate launch --use_fsdp --num_processes 2 t.py")));
  EXPECT_FALSE(Planned(CpuJob("bash t.sh"),
                       {{"t.sh", "accelerate launch --use_fsdp --num_processes 2 t.py\n"}}));
  EXPECT_TRUE(Planned(CpuJob("accelerate launch --cpu --use_deepspeed --num_processes 2 t.py")))
      << "accelerate itself leaves it aside there, and so does the plan";
  // Arguments that other scripts have too.
  const auto unsure = Planned(
      CpuJob(
          "torchrun t.py --per_device_train_batch_size 2 --num_train_epochs 1 --deepspeed d.json"),
      {{"d.json", kStage2}});
  ASSERT_FALSE(unsure);
  EXPECT_TRUE(Contains(unsure.error().hint, "--use_cpu True")) << ErrorOf(unsure);

  JobSpec own = CpuJob("torchrun t.py");
  own.strategy = Strategy::kFsdp;
  EXPECT_TRUE(Planned(own)) << "a script that shards itself";
}

TEST(CpuTrainers, AScriptInsideATextIsTold) {
  const std::string call = "torchrun --nproc_per_node 2 t.py --deepspeed ds.json";
  const auto plan = [&](const std::string& flags) {
    return Planned(CpuJob("bash t.sh"), {{"t.sh", call + flags + "\n"}, {"ds.json", kStage2}});
  };
  const auto run = plan("");
  ASSERT_TRUE(run) << ErrorOf(run);
  EXPECT_EQ(run->plan.assignments[0].env.count("ACCELERATE_USE_CPU"), 0u);
  const Finding* finding = FindingOf(run->plan, "plan_cannot_reach_script");
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(Contains(finding->says, "--use_cpu True")) << finding->says;
}

TEST(CpuTrainers, ALineOfAccelerateMeansTheSameInsideAScript) {
  const std::string line =
      "accelerate launch --config_file a.yaml --num_cpu_threads_per_process 3 t.py";
  const std::map<std::string, std::string> files = {
      {"a.yaml",
       "distributed_type: MULTI_CPU\nnum_machines: 1\nnum_processes: 2\n"
       "use_cpu: true\ndynamo_config:\n  dynamo_backend: INDUCTOR\n"},
      {"t.sh", line + "\n"}};
  for (const std::string& run : {line, std::string("bash t.sh")}) {
    const auto made = Planned(CpuJob(run), files);
    ASSERT_TRUE(made) << ErrorOf(made);
    const auto& env = made->plan.assignments[0].env;
    ASSERT_EQ(env.count("ACCELERATE_DYNAMO_BACKEND"), 1u) << run;
    EXPECT_EQ(env.at("ACCELERATE_DYNAMO_BACKEND"), "INDUCTOR");
    EXPECT_EQ(env.at("OMP_NUM_THREADS"), "3") << run;
    EXPECT_EQ(env.at("ACCELERATE_USE_CPU"), "true");
  }
}

}  // namespace
}  // namespace launch::testing
