// How `run` is started by a plan: once per node, in an environment, with a launcher's settings.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/line/launch_line.h"
#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

using namespace launch::testing;

TEST(Start, ALauncherInsideRunIsStartedOncePerNodeAndHeldToThePlan) {
  JobSpec job = GpuJob(2, "", 2, "source env.sh && torchrun --nproc_per_node 2 train.py");
  job.batch = {64, 8, {}};
  const auto run = PlanOn(job, {H100("a", 2), H100("b", 2)});
  ASSERT_TRUE(run) << FormatError(run.error());
  EXPECT_EQ(run->plan.start, StartKind::kPerNode);
  EXPECT_EQ(run->plan.world_size, 4);
  EXPECT_EQ(run->plan.batch.accumulate, 2) << "of the ranks, not of the nodes";
  ASSERT_EQ(run->plan.assignments.size(), 2U);
  const auto& env = run->plan.assignments[1].env;
  EXPECT_EQ(env.at("NNODES"), "2");
  EXPECT_EQ(env.at("NPROC_PER_NODE"), "2");
  EXPECT_EQ(env.at("NODE_RANK"), "1");
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "0,1");
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"}) {
    EXPECT_EQ(env.count(name), 0U) << name;
  }
  ASSERT_EQ(run->allocations.size(), 2U);
  const AllocationSpec& second = run->allocations[1];
  ASSERT_EQ(second.ranks.size(), 1U);
  EXPECT_EQ(second.ranks[0].rank, 1);
  EXPECT_EQ(second.ranks[0].gpus.size(), 2U);
  EXPECT_TRUE(Contains(second.ranks[0].argv[3], "export -f torchrun deepspeed accelerate"));
  EXPECT_TRUE(second.ranks[0].argv[3].ends_with(job.run));
  const auto wrapper = std::find_if(second.files.begin(), second.files.end(),
                                    [](const GeneratedFile& f) { return f.name == "torchrun"; });
  ASSERT_NE(wrapper, second.files.end());
  EXPECT_TRUE(wrapper->bytes.starts_with("#!"));
}

TEST(Start, ARankWhoseTextSetsDevicesGetsPythonThatMapsThem) {
  const auto text = [](const std::string& run) {
    const auto planned = PlanOn(GpuJob(2, "", 1, run), {H100("a", 2)});
    EXPECT_TRUE(planned) << run << ErrorOf(planned);
    if (!planned || planned->allocations.empty()) return std::string();
    EXPECT_EQ(planned->plan.start, StartKind::kDirect) << run;
    const auto& allocation = planned->allocations[0];
    EXPECT_TRUE(std::ranges::any_of(allocation.files,
                                    [](const GeneratedFile& f) { return f.name == "python"; }) ==
                Contains(allocation.ranks[0].argv[3], "export -f python python3"))
        << run;
    return allocation.ranks[0].argv[3];
  };
  const std::string sets = text("export CUDA_VISIBLE_DEVICES=0\npip list\npython train.py");
  EXPECT_TRUE(Contains(sets, "export LAUNCH_VISIBLE_DEVICES=\"$CUDA_VISIBLE_DEVICES\""));
  EXPECT_FALSE(Contains(sets, "LAUNCH_DEVICES_READ"));
  EXPECT_FALSE(Contains(sets, "PET_NNODES")) << "of a node's text alone";
  EXPECT_TRUE(Contains(text("echo $CUDA_VISIBLE_DEVICES | wc\nexport CUDA_VISIBLE_DEVICES=0\n"
                            "pip list\npython train.py"),
                       "export LAUNCH_DEVICES_READ=1"));
  EXPECT_FALSE(Contains(text("pip list\npython train.py"), "LAUNCH_VISIBLE_DEVICES"));
}

TEST(Start, CountsAreTheLaunchersOwnAndNeverThoseOfAScript) {
  const auto procs = [](const std::string& run) {
    const auto line = ReadLaunchLine(run, LaunchLineOptions());
    return line && line->procs == ProcsWord::kNumber ? line->procs_number : 0;
  };
  const auto nodes = [](const std::string& run) {
    const auto line = ReadLaunchLine(run, LaunchLineOptions());
    return line ? line->nodes_min.value_or(1) : 0;
  };
  EXPECT_EQ(procs("source e.sh && torchrun --nproc_per_node 2 t.py --num_gpus 8"), 2);
  EXPECT_EQ(procs("source e.sh && torchrun --standalone t.py --num_gpus 8 --nproc_per_node 4"), 0);
  EXPECT_EQ(nodes("python make_data.py --num_nodes 16; torchrun --nproc_per_node 2 t.py"), 1);
  EXPECT_EQ(nodes("source e.sh && torchrun --nnodes 2 t.py --num_machines 7"), 2);
  EXPECT_EQ(procs("ARGS=\"--nproc_per_node 8 --nnodes 1\"\ntorchrun $ARGS t.py --num_gpus 2"), 8);
  EXPECT_EQ(procs("L=\"accelerate launch --num_processes 4\"\n$L t.py --num_processes 2"), 4);
  // A flag that we do not know: what looks like the script ends the launcher's words.
  EXPECT_EQ(procs("torchrun --new_flag x --nproc_per_node 2 t.py --nproc_per_node 6"), 2);
}

TEST(Start, ACondaEnvironmentIsActivatedInFrontOfTheCommand) {
  JobSpec job = GpuJob(1, "", 1, "python train.py");
  job.conda = "/opt/conda/envs/train";
  job.env = {{"OMP_PLACES", "cores"}};
  const auto run = PlanOn(job, {H100("a", 1)});
  ASSERT_TRUE(run) << FormatError(run.error());
  const auto& env = run->plan.assignments[0].env;
  EXPECT_EQ(env.at("CONDA_PREFIX"), "/opt/conda/envs/train");
  EXPECT_EQ(env.at("CONDA_DEFAULT_ENV"), "train");
  EXPECT_TRUE(env.at("PATH").starts_with("/opt/conda/envs/train/bin:"));
  EXPECT_EQ(run->allocations[0].interpreter, "/opt/conda/envs/train/bin/python");
  const std::vector<std::string>& argv = run->allocations[0].ranks[0].argv;
  ASSERT_GE(argv.size(), 6U);
  EXPECT_TRUE(Contains(argv[3], "activate.d"));
  EXPECT_TRUE(Contains(argv[3], "export OMP_PLACES")) << "env: comes after the environment";
  EXPECT_TRUE(argv[3].ends_with("exec /bin/bash --norc -c \"$@\"\n")) << argv[3];
  EXPECT_EQ(argv[5], "exec python train.py");
  job.conda = "train";
  EXPECT_TRUE(Contains(ErrorOf(PlanOn(job, {H100("a", 1)})), "path"));
}

TEST(Start, TheCallersActiveCondaEnvironmentIsTheDefault) {
  SubmitContext context = Context();
  context.active_conda = "/opt/conda/envs/eval";
  const auto run = PlanOn(GpuJob(1), {H100("a", 1)}, context);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->allocations[0].interpreter, "/opt/conda/envs/eval/bin/python");
  JobSpec named = GpuJob(1);
  named.venv = "/v";
  EXPECT_EQ(PlanOn(named, {H100("a", 1)}, context)->allocations[0].interpreter, "/v/bin/python");
}

TEST(Start, AModuleIsNoFileToLookFor) {
  for (const char* run :
       {"torchrun --nproc_per_node 2 -m pkg.train", "deepspeed --num_gpus 2 --module pkg.train",
        "accelerate launch --num_processes 2 -m pkg.train"}) {
    const auto planned = PlanOn(GpuJob(2, "", 1, run), {H100("a", 2)});
    ASSERT_TRUE(planned) << FormatError(planned.error());
    EXPECT_EQ(planned->allocations[0].script, "") << run;
  }
  const auto file =
      PlanOn(GpuJob(2, "", 1, "torchrun --nproc_per_node 2 train.py"), {H100("a", 2)});
  ASSERT_TRUE(file) << FormatError(file.error());
  EXPECT_EQ(file->allocations[0].script, "/proj/train.py");
}

TEST(Start, NumProcessesOfAccelerateIsATotal) {
  const std::string run = "accelerate launch --num_processes 4 train.py";
  const auto two = PlanOn(GpuJob(2, "", 2, run), {H100("a", 2), H100("b", 2)});
  ASSERT_TRUE(two) << FormatError(two.error());
  EXPECT_EQ(two->plan.world_size, 4);
  const auto odd = PlanOn(GpuJob(1, "", 2, "accelerate launch --num_processes 3 train.py"),
                          {H100("a", 2), H100("b", 2)});
  EXPECT_TRUE(Contains(ErrorOf(odd), "cannot share")) << ErrorOf(odd);
}

TEST(Start, MoreRanksThanGpusAreRefused) {
  const std::string run = "torchrun --nproc_per_node 4 train.py";
  const auto four = PlanOn(GpuJob(2, "", 1, run), {H100("a", 4)});
  EXPECT_TRUE(Contains(ErrorOf(four), "4 processes")) << ErrorOf(four);
  JobSpec shared = GpuJob(2, "", 1, run);
  shared.procs_per_node = 4;
  EXPECT_TRUE(PlanOn(shared, {H100("a", 4)}));
}

TEST(Start, ALoneProcessOnACpuKeepsRankOnlyIfItsScriptTakesIt) {
  JobSpec job = Job("python train.py --device=cpu");
  job.device = DeviceChoice::kCpu;
  SubmitContext context;
  context.files["train.py"] =
      "ddp = int(os.environ.get('RANK', -1)) != -1\n"
      "if ddp: init_process_group('nccl'); torch.cuda.set_device(0)\n";
  const auto alone = PlanOn(job, {H100("a", 2)}, context);
  ASSERT_TRUE(alone) << FormatError(alone.error());
  const auto& env = alone->plan.assignments[0].env;
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"})
    EXPECT_EQ(env.count(name), 0U) << name;
  EXPECT_EQ(env.at("LAUNCH_DEVICE"), "cpu");
  job.procs_per_node = 2;
  const auto two = PlanOn(job, {H100("a", 2)}, context);
  ASSERT_TRUE(two) << FormatError(two.error());
  EXPECT_EQ(two->plan.assignments[1].env.at("RANK"), "1");
}

TEST(Start, APythonCommandKeepsItsPath) {
  const auto run = PlanOn(GpuJob(1), {H100("a", 1)});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->plan.assignments[0].env.count("LAUNCH_WRAPPERS"), 0U);
  EXPECT_EQ(run->allocations[0].files.size(), 1U);
}

TEST(Start, SettingsOfAccelerateFixThePlanAndReachTheRanks) {
  JobSpec job = GpuJob(2, "", 1, "accelerate launch --config_file z.yaml train.py");
  SubmitContext context = Context();
  context.files["z.yaml"] =
      "distributed_type: DEEPSPEED\nnum_processes: 2\nmixed_precision: fp16\n"
      "deepspeed_config:\n  zero_stage: 2\n  offload_optimizer_device: cpu\n";
  const auto run = PlanOn(job, {H100("a", 2)}, context);
  ASSERT_TRUE(run) << FormatError(run.error());
  EXPECT_EQ(run->plan.launcher, LauncherKind::kAccelerate);
  EXPECT_EQ(run->plan.start, StartKind::kDirect);
  EXPECT_EQ(run->plan.strategy, Strategy::kZero2);
  EXPECT_EQ(run->plan.offload, Offload::kOptimizer);
  EXPECT_EQ(run->plan.precision, Precision::kFp16);
  EXPECT_EQ(run->plan.trainer, Trainer::kAccelerate);
  const auto& env = run->plan.assignments[1].env;
  EXPECT_EQ(env.at("ACCELERATE_USE_DEEPSPEED"), "true");
  EXPECT_EQ(env.at("ACCELERATE_DEEPSPEED_ZERO_STAGE"), "2");
  EXPECT_EQ(env.at("ACCELERATE_MIXED_PRECISION"), "fp16");
  job.precision = Precision::kBf16;
  const std::string error = ErrorOf(PlanOn(job, {H100("a", 2)}, context));
  EXPECT_TRUE(Contains(error, "mixed_precision in z.yaml")) << error;
}

TEST(Start, OneNodeOfTheLineGivesWayToThoseOfTheJobAndIsNamed) {
  const auto run = PlanOn(GpuJob(2, "", 2, "torchrun --nnodes 1 --nproc_per_node 2 train.py"),
                          {H100("a", 2), H100("b", 2)});
  ASSERT_TRUE(run) << FormatError(run.error());
  EXPECT_EQ(run->plan.world_size, 4);
  const auto& warnings = run->plan.warnings;
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [](const Finding& finding) {
    return finding.says.find("replaced by nodes: 2") != std::string::npos;
  }));
}

// docs/decisions/0008
TEST(Start, APrecisionThatNobodyAskedForDoesNotReachAnUnmodifiedScript) {
  const auto value = [](const JobSpec& job) -> std::string {
    const auto run = PlanOn(job, {H100("a", 2)});
    if (!run) return FormatError(run.error());
    const auto& env = run->plan.assignments[0].env;
    return env.count("ACCELERATE_MIXED_PRECISION") > 0 ? env.at("ACCELERATE_MIXED_PRECISION") : "";
  };
  JobSpec job = GpuJob(2, "", 1, "torchrun --nproc_per_node 2 train.py");
  EXPECT_EQ(value(job), "");
  job.precision = Precision::kBf16;
  EXPECT_EQ(value(job), "bf16");
  EXPECT_EQ(value(GpuJob(2, "", 1, "accelerate launch --num_processes 2 train.py")), "no");
  const std::string fp16 = "accelerate launch --mixed_precision fp16 --num_processes 2 train.py";
  EXPECT_EQ(value(GpuJob(2, "", 1, fp16)), "fp16");
}

TEST(Start, DevicesThatATextSetsAreCountedAndGivenBack) {
  const auto run =
      PlanOn(Job("export CUDA_VISIBLE_DEVICES=4,5\ntrue && torchrun --nproc_per_node=2 train.py"),
             {H100("a", 8)});
  ASSERT_TRUE(run) << FormatError(run.error());
  EXPECT_EQ(run->plan.assignments[0].env.at("CUDA_VISIBLE_DEVICES"), "0,1");
  EXPECT_EQ(run->plan.assignments[0].env.at("NPROC_PER_NODE"), "2");
}

}  // namespace
}  // namespace launch
