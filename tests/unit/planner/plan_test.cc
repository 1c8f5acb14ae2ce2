#include <gtest/gtest.h>

#include <tuple>

#include "common/mig.h"
#include "common/units.h"
#include "tests/unit/planner/plan_fixtures.h"
#include "tests/unit/planner/plan_text.h"

namespace launch {
namespace {

using namespace launch::testing;

struct Golden {
  const char* name;
  const char* cluster;
  JobSpec job;
};

std::vector<Golden> Goldens() {
  std::vector<Golden> goldens;
  JobSpec single = GpuJob(1, "GH200", 1);
  single.venv = "/home/ana/venv";
  goldens.push_back({"gh200-single", "gh200x2", single});

  JobSpec two = GpuJob(1, "GH200", 2, "python train.py --b $LAUNCH_MICRO_BATCH");
  two.batch = {64, 8, {}};
  two.checkpoint.dir = "out";
  two.checkpoint.signal = 10;
  two.checkpoint.signal_before = Millis{120000};
  two.memory_bytes = Amount{200'000'000'000, false};
  goldens.push_back({"gh200x2-ddp", "gh200x2", two});

  JobSpec line =
      GpuJob(4, "A100", 1, "torchrun --nproc_per_node=4 --master_port=29500 train.py --lr 1e-4");
  line.batch = {256, 4, {}};
  line.dataset = DatasetSpec{2500, 3};
  goldens.push_back({"a100x4-torchrun", "a100-40x4", line});

  JobSpec ids = Job("python train.py");
  ids.gpu_ids = {1, 3};
  goldens.push_back({"a100x4-gpu-ids", "a100-40x4", ids});

  JobSpec zero = GpuJob(8, "A100-80GB");
  zero.strategy = Strategy::kZero2;
  zero.offload = Offload::kOptimizer;
  zero.batch = {{}, 2, {}};
  goldens.push_back({"a100x8-zero2", "a100-80x8", zero});

  goldens.push_back({"v100x4-ddp", "v100-32x4", GpuJob(4)});
  goldens.push_back({"rtx3090-auto", "rtx3090", Job()});
  goldens.push_back({"m2max-auto", "m2max", Job()});
  goldens.push_back({"cpu-auto", "cpu", Job()});

  // Full training of a 7B model (1B on the RTX 3090) on the cluster that each inventory is.
  for (const auto& [name, cluster, gpus, nodes] :
       {std::tuple{"a100-80x8-7b", "a100-80x8", 8, 1},
        std::tuple{"a100-40x8-7b", "a100-40x8", 8, 1},
        std::tuple{"a100-40x4-7b", "a100-40x4", 4, 1},
        std::tuple{"v100-32x4-7b", "v100-32x4", 4, 1}, std::tuple{"gh200x2-7b", "gh200x2", 1, 2},
        std::tuple{"rtx3090-1b", "rtx3090", 1, 1}}) {
    JobSpec model = GpuJob(gpus, "", nodes);
    model.model.fields = Llama7B();
    if (cluster == std::string("rtx3090")) model.model.fields["params"] = "1100000000";
    if (cluster == std::string("rtx3090")) model.model.fields["hidden"] = "1664";
    model.batch = {{}, 1, 16};
    model.steps = 100;
    goldens.push_back({name, cluster, model});
  }

  JobSpec gloo = GpuJob(0, "", 1, "torchrun --nproc_per_node=2 train.py");
  gloo.device = DeviceChoice::kCpu;
  gloo.env = {{"DATA", "/data"}, {"HF_HOME", "$DATA/hf"}};
  goldens.push_back({"cpu-gloo", "cpu", gloo});
  return goldens;
}

TEST(Plan, EqualsItsGoldenFile) {
  for (const Golden& golden : Goldens()) {
    SCOPED_TRACE(golden.name);
    const auto run = PlanOn(golden.job, Cluster(golden.cluster));
    ASSERT_TRUE(run) << ErrorOf(run);
    ExpectGolden(std::string("plans/") + golden.name + ".txt", PlanText(*run));
    ExpectGolden(std::string("env/") + golden.name + ".txt", RankEnvText(*run));
  }
}

TEST(Plan, IsTheSameEveryTime) {
  for (const Golden& golden : Goldens()) {
    const auto first = PlanOn(golden.job, Cluster(golden.cluster));
    const auto second = PlanOn(golden.job, Cluster(golden.cluster));
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->plan, second->plan);
    EXPECT_EQ(first->allocations, second->allocations);
  }
}

// What plan shows is what ranks get, but for the late ones: the two come from one value.
TEST(Plan, ShowsTheEnvironmentThatAllocationsCarry) {
  for (const Golden& golden : Goldens()) {
    const auto run = PlanOn(golden.job, Cluster(golden.cluster));
    ASSERT_TRUE(run);
    for (const AllocationSpec& spec : run->allocations) {
      for (const RankSpec& rank : spec.ranks) {
        std::map<std::string, std::string> shown =
            run->plan.assignments[static_cast<std::size_t>(rank.rank)].env;
        std::map<std::string, std::string> carried;
        for (const EnvVar& variable : rank.env) carried[variable.name] = variable.value;
        for (const std::string& late : run->plan.late) {
          shown.erase(late);
          carried.erase(late);
        }
        EXPECT_EQ(shown, carried) << golden.name;
      }
    }
  }
}

TEST(Plan, AnAttemptsNumbersAreNotLate) {
  const auto run = PlanOn(GpuJob(1), {H100("a", 1)}, Context(), Key{JobId{12}, Attempt{3}});
  ASSERT_TRUE(run);
  const auto& env = run->plan.assignments[0].env;
  EXPECT_EQ(env.at("LAUNCH_JOB_ID"), "12");
  EXPECT_EQ(env.at("LAUNCH_ATTEMPT"), "3");
  EXPECT_EQ(env.at("TORCHELASTIC_RUN_ID"), "12-3");
  EXPECT_EQ(env.at("TORCHELASTIC_RESTART_COUNT"), "2");
  for (const char* name : {"LAUNCH_JOB_ID", "LAUNCH_ATTEMPT", "TORCHELASTIC_RUN_ID"}) {
    EXPECT_FALSE(std::binary_search(run->plan.late.begin(), run->plan.late.end(), name)) << name;
  }
  EXPECT_EQ(run->allocations[0].key, (Key{JobId{12}, Attempt{3}}));
}

// A user story (S000-4): a job without a `model:` block on a single GH200 node.
TEST(Plan, OneRepairedGraceHopperNode) {
  const auto run = PlanOn(GpuJob(1, "GH200"), {Cluster("gh200x2")[0]});
  ASSERT_TRUE(run) << ErrorOf(run);
  const Plan& plan = run->plan;
  EXPECT_EQ(plan.strategy, Strategy::kSingle);
  EXPECT_EQ(plan.precision, Precision::kBf16);
  EXPECT_FALSE(plan.memory.peak_gib);
  EXPECT_NE(FindingOf(plan, "memory_unknown"), nullptr);
  EXPECT_GT(plan.memory.limit_gib, 88);
  EXPECT_LT(plan.memory.limit_gib, 96);
  const auto& env = plan.assignments[0].env;
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "0");
  EXPECT_EQ(env.at("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  EXPECT_EQ(env.at("RANK"), "0");
  EXPECT_EQ(env.at("WORLD_SIZE"), "1");
}

TEST(Plan, TwoNodesShareOneMasterThatIsAnAddress) {
  const auto run = PlanOn(GpuJob(1, "GH200", 2), Cluster("gh200x2"));
  ASSERT_TRUE(run);
  for (const RankAssignment& rank : run->plan.assignments) {
    EXPECT_EQ(rank.env.at("LOCAL_RANK"), "0");
    EXPECT_EQ(rank.env.at("MASTER_ADDR"), "10.0.0.1");
    EXPECT_EQ(rank.env.at("MASTER_PORT"), run->plan.assignments[0].env.at("MASTER_PORT"));
  }
  EXPECT_TRUE(run->allocations[0].needs_ports);
  EXPECT_FALSE(run->allocations[1].needs_ports);
}

// A user story (S002-5): the torchrun line that a user typed on the first of two nodes.
TEST(Plan, ReadsATorchrunLineForTwoNodes) {
  JobSpec job = GpuJob(0, "", 2,
                       "torchrun --nproc_per_node=2 --nnodes=2 --node_rank=0 "
                       "--master_addr=192.168.1.1 --master_port=29500 train.py");
  const auto run = PlanOn(job, {Node("a"), Node("b")});
  ASSERT_TRUE(run) << ErrorOf(run);
  EXPECT_EQ(run->plan.read[0], "torchrun line read: 4 processes = 2 nodes x 2, started directly");
  const Finding* replaced = FindingOf(run->plan, "launcher_flags_replaced");
  ASSERT_NE(replaced, nullptr);
  for (const char* flag : {"node_rank", "master_addr", "master_port"}) {
    EXPECT_TRUE(Contains(replaced->says, flag));
  }
  ASSERT_EQ(run->plan.assignments.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    const auto& env = run->plan.assignments[static_cast<std::size_t>(rank)].env;
    EXPECT_EQ(env.at("RANK"), std::to_string(rank));
    EXPECT_EQ(env.at("WORLD_SIZE"), "4");
    EXPECT_EQ(env.at("LOCAL_RANK"), std::to_string(rank % 2));
    EXPECT_EQ(env.at("GROUP_RANK"), std::to_string(rank / 2));
  }
}

TEST(Plan, DevicesChosenInTheLineAreSentToTheFieldThatChoosesThem) {
  for (const char* line :
       {"deepspeed --include localhost:1 train.py", "accelerate launch --gpu_ids 1 train.py"}) {
    const auto run = PlanOn(GpuJob(0, "", 1, line), {Node("a")});
    ASSERT_TRUE(run) << ErrorOf(run);
    const Finding* replaced = FindingOf(run->plan, "launcher_flags_replaced");
    ASSERT_NE(replaced, nullptr) << line;
    EXPECT_TRUE(Contains(replaced->remedy, "gpu_ids: [")) << replaced->remedy;
  }
}

TEST(Plan, VariablesThatTheJobDoesNotSetAreSaid) {
  JobSpec job =
      GpuJob(0, "", 1, "python t.py --rank $RANK --data $DATA_DIR --cfg ${CONFIG} $LAUNCH_JOB_ID");
  const auto said = [&] {
    const auto run = PlanOn(job, {Node("a")});
    if (!run) return ErrorOf(run);
    const Finding* unset = FindingOf(run->plan, "variables_unset");
    return unset == nullptr ? std::string() : unset->says;
  };
  EXPECT_EQ(said(), "run uses $DATA_DIR, $CONFIG, which the job does not set: they are empty");
  job.env = {{"DATA_DIR", "/d"}};
  EXPECT_EQ(said(), "run uses $CONFIG, which the job does not set: it is empty");
  job.image = "a/b:1";  // which may have it
  EXPECT_EQ(said(), "");
  job.image.clear();
  job.run = "torchrun --nproc_per_node=2 t.py ${DATA:?}";
  EXPECT_EQ(said(), "run uses $DATA, which the job does not set: bash stops there");
  job.env = {{"DATA", "/d"}};
  EXPECT_EQ(said(), "");
}

TEST(CheckSignalLead, RefusesASignalThatWouldComeBeforeTheStart) {
  JobSpec job = Job();
  job.time_limit = Millis{12'000};
  job.checkpoint.signal = 10;
  job.checkpoint.signal_before = Millis{20'000};
  ASSERT_FALSE(CheckSignalLead(job));
  EXPECT_TRUE(Contains(CheckSignalLead(job).error().message, "checkpoint.signal"));
  EXPECT_TRUE(CheckSpec(job, Context())) << "what was accepted before is not ended for it";
  job.time_limit = Millis{21'000};
  EXPECT_TRUE(CheckSignalLead(job));
}

TEST(Plan, TheLineAndTheJobMustAgreeOnTheNumberOfNodes) {
  JobSpec job = GpuJob(1, "", 1, "torchrun --nnodes=2 --nproc_per_node=1 train.py");
  EXPECT_TRUE(Contains(CheckSpec(job, Context()).error().hint, "nodes: 2"));
  job.nodes = {2, 2, false};
  EXPECT_TRUE(CheckSpec(job, Context()));
  job.run = "torchrun --nnodes=1 --nproc_per_node=1 train.py";  // a line for one node, used on two
  EXPECT_TRUE(CheckSpec(job, Context()));
}

TEST(Plan, ParticularDevicesAreNamedByIndex) {
  JobSpec job = Job();
  job.gpu_ids = {1, 3};
  const auto run = PlanOn(job, Cluster("a100-40x4"));
  ASSERT_TRUE(run) << ErrorOf(run);
  EXPECT_EQ(run->plan.world_size, 2);
  EXPECT_EQ(run->plan.assignments[1].env.at("CUDA_VISIBLE_DEVICES"), "1,3");
  EXPECT_EQ(run->plan.assignments[1].gpus, std::vector<int>{3});
  job.gpu_binding = GpuBinding::kPerRank;
  EXPECT_EQ(PlanOn(job, Cluster("a100-40x4"))->plan.assignments[1].env.at("CUDA_VISIBLE_DEVICES"),
            "3");
}

TEST(Plan, RanksShareDevicesInOrderWhereThereAreMoreOfThem) {
  JobSpec job = Job();
  job.gpu_ids = {0, 2};
  job.procs_per_node = 4;
  job.gpu_binding = GpuBinding::kPerRank;
  const auto run = PlanOn(job, Cluster("a100-40x4"));
  ASSERT_TRUE(run) << ErrorOf(run);
  std::vector<std::string> seen;
  for (const RankAssignment& rank : run->plan.assignments)
    seen.push_back(rank.env.at("CUDA_VISIBLE_DEVICES"));
  EXPECT_EQ(seen, (std::vector<std::string>{"0", "0", "2", "2"}));
  EXPECT_EQ(run->plan.assignments[3].gpus, std::vector<int>{2});
  EXPECT_EQ(FindingOf(run->plan, "gpu_binding_no_effect"), nullptr);
  job.gpu_binding = GpuBinding::kAll;  // then the script chooses
  EXPECT_EQ(PlanOn(job, Cluster("a100-40x4"))->plan.assignments[3].gpus, (std::vector<int>{0, 2}));
}

TEST(Plan, ABindingWithoutEffectIsSaid) {
  JobSpec job = Job();
  job.gpu_ids = {0, 1, 2};
  job.procs_per_node = 2;
  job.gpu_binding = GpuBinding::kPerRank;
  const auto uneven = PlanOn(job, Cluster("a100-40x4"));
  ASSERT_TRUE(uneven) << ErrorOf(uneven);
  EXPECT_NE(FindingOf(uneven->plan, "gpu_binding_no_effect"), nullptr);
  job.gpu_ids = {0, 1};
  EXPECT_EQ(FindingOf(PlanOn(job, Cluster("a100-40x4"))->plan, "gpu_binding_no_effect"), nullptr);
  job.run = "true && torchrun --nproc_per_node=2 train.py";
  const auto per_node = PlanOn(job, Cluster("a100-40x4"));
  ASSERT_TRUE(per_node) << ErrorOf(per_node);
  EXPECT_NE(FindingOf(per_node->plan, "gpu_binding_no_effect"), nullptr);
}

TEST(Plan, AnArgumentForTheLocalRankIsAddedOrRefused) {
  JobSpec job = Job();
  job.local_rank_arg = true;
  const std::pair<const char*, bool> lines[] = {
      {"python train.py --a 1", true},
      {"torchrun --nproc_per_node=2 train.py", true},
      {"./run.sh --local_rank=$LOCAL_RANK", true},
      {"./run.sh --a 1", false},
      {"bash -c 'python train.py'", false},
      {"true && torchrun --nproc_per_node=2 train.py", false},
  };
  for (const auto& [run, added] : lines) {
    job.run = run;
    const auto checked = CheckSpec(job, Context());
    EXPECT_EQ(checked.has_value(), added) << run;
    if (!added) {
      EXPECT_NE(checked.error().message.find("local_rank_arg"), std::string::npos);
    }
  }
}

TEST(Plan, ASliceIsNamedByItsUuid) {
  NodeInventory node = H100("cut", 2);
  node.gpus[0].mig = {{GpuUuid{"MIG-b"}, "1g.10gb", 10ull << 30}};
  ListSlicesAsDevices(node);
  const auto slice = PlanOn(GpuJob(1, "1g.10gb"), {node});
  ASSERT_TRUE(slice) << ErrorOf(slice);
  EXPECT_EQ(slice->plan.assignments[0].env.at("CUDA_VISIBLE_DEVICES"), "MIG-b");
  // The position of a whole GPU beside it is not what CUDA counts.
  const auto whole = PlanOn(GpuJob(1, "H100"), {node});
  ASSERT_TRUE(whole) << ErrorOf(whole);
  EXPECT_EQ(whole->plan.assignments[0].env.at("CUDA_VISIBLE_DEVICES"), node.gpus[1].uuid.value);
}

// A user story (S002-1): `precision: auto` on each card, and on mixed ones.
TEST(Plan, PrecisionFollowsTheWeakestDevice) {
  struct Card {
    const char* model;
    const char* cc;
    int mib;
    Precision precision;
  };
  const Card cards[] = {{"NVIDIA GeForce RTX 3090", "8.6", 24576, Precision::kBf16},
                        {"NVIDIA GeForce RTX 4090", "8.9", 24564, Precision::kBf16},
                        {"NVIDIA RTX A6000", "8.6", 49140, Precision::kBf16},
                        {"NVIDIA A100-SXM4-40GB", "8.0", 40960, Precision::kBf16},
                        {"NVIDIA A100-SXM4-80GB", "8.0", 81920, Precision::kBf16},
                        {"NVIDIA H100 80GB HBM3", "9.0", 81559, Precision::kBf16},
                        {"Tesla V100-SXM2-32GB", "7.0", 32768, Precision::kFp16},
                        {"Tesla P100-PCIE-16GB", "6.0", 16280, Precision::kFp16}};
  for (const Card& card : cards) {
    const auto run = PlanOn(GpuJob(1), {Node("n", card.model, card.cc, card.mib)});
    ASSERT_TRUE(run);
    EXPECT_EQ(run->plan.precision, card.precision) << card.model;
    EXPECT_EQ(Contains(run->plan.precision_reason, "no tensor cores"),
              std::string_view(card.cc) == "6.0")
        << run->plan.precision_reason;
  }
  JobSpec bf16 = GpuJob(1);
  bf16.precision = Precision::kBf16;
  const std::string error = ErrorOf(PlanOn(bf16, {V100("v", 1)}));
  EXPECT_TRUE(Contains(error, "CANNOT_FIT") && Contains(error, "7.0") && Contains(error, "8.0"))
      << error;
  JobSpec fp16 = GpuJob(1);
  fp16.precision = Precision::kFp16;
  EXPECT_EQ(PlanOn(fp16, {A100("a", 1)})->plan.precision, Precision::kFp16);
  const auto mixed = PlanOn(GpuJob(1, "", 2), {A100("a", 1), V100("v", 1)});
  EXPECT_EQ(mixed->plan.precision, Precision::kFp16);
  EXPECT_TRUE(Contains(mixed->plan.precision_reason, "V100"));
  JobSpec fp8 = GpuJob(1);
  fp8.precision = Precision::kFp8;
  EXPECT_TRUE(Contains(ErrorOf(PlanOn(fp8, {A100("a", 1)})), "8.9"));
  EXPECT_TRUE(PlanOn(fp8, {H100("h", 1)}));
}

// User stories (S001-1, S001-2): one job on a workstation, a Mac and a machine without a GPU.
TEST(Plan, SaysWhoNamedThePrecision) {
  const auto reason = [](const char* run, Precision precision = Precision::kAuto) {
    JobSpec job = GpuJob(2, "A100");
    job.run = run;
    job.precision = precision;
    const auto planned = PlanOn(job, {A100("a", 2)});
    EXPECT_TRUE(planned) << ErrorOf(planned);
    return planned ? planned->plan.precision_reason : "";
  };
  EXPECT_EQ(reason("python t.py", Precision::kBf16).rfind("asked for; NVIDIA A100", 0), 0u);
  EXPECT_EQ(
      reason("accelerate launch t.py").rfind("accelerate launch without --mixed_precision; ", 0),
      0u)
      << reason("accelerate launch t.py");
  EXPECT_EQ(reason("accelerate launch --mixed_precision bf16 t.py").find("asked for"),
            std::string::npos);
}

TEST(Plan, DevicePrecisionAndLoaderOfThreeMachines) {
  const NodeInventory card = Node("ws", "NVIDIA GeForce RTX 4090", "8.9", 24564);
  const NodeInventory mac = Cluster("m2max")[0];
  const NodeInventory cpu = Node("i9");
  const auto cuda = PlanOn(Job(), {card});
  EXPECT_EQ(cuda->plan.device, DeviceClass::kCuda);
  EXPECT_EQ(cuda->plan.loader, (LoaderPlan{4, true, true}));
  EXPECT_TRUE(Contains(cuda->plan.device_reason, "NVIDIA GeForce RTX 4090"));
  const auto mps = PlanOn(Job(), {mac});
  EXPECT_EQ(mps->plan.device, DeviceClass::kMps);
  EXPECT_EQ(mps->plan.precision, Precision::kFp32);
  EXPECT_EQ(mps->plan.loader, (LoaderPlan{0, false, false}));
  const auto& env = mps->plan.assignments[0].env;
  EXPECT_EQ(env.at("PYTORCH_ENABLE_MPS_FALLBACK"), "1");
  EXPECT_EQ(env.at("LAUNCH_DEVICE"), "mps");
  EXPECT_EQ(env.count("CUDA_VISIBLE_DEVICES"), 0U);
  for (const auto& [name, value] : env) EXPECT_NE(name.rfind("NCCL_", 0), 0U) << name;
  const auto slow = PlanOn(Job(), {cpu});
  EXPECT_EQ(slow->plan.device, DeviceClass::kCpu);
  EXPECT_EQ(slow->plan.precision, Precision::kFp32);
  EXPECT_GE(slow->plan.loader.num_workers, 1);
  ASSERT_NE(FindingOf(slow->plan, "device_slower"), nullptr);
  EXPECT_EQ(PlanOn(Job(), {cpu, mac, card})->plan.device, DeviceClass::kCuda);
  EXPECT_EQ(PlanOn(Job(), {cpu, mac})->plan.device, DeviceClass::kMps);
}

TEST(Plan, Bf16OnAppleIsAcceptedWithAWarning) {
  JobSpec job = Job();
  job.precision = Precision::kBf16;
  const auto run = PlanOn(job, Cluster("m2max"));
  ASSERT_TRUE(run);
  EXPECT_EQ(run->plan.precision, Precision::kBf16);
  EXPECT_NE(FindingOf(run->plan, "precision_unsupported"), nullptr);
}

TEST(Plan, DeviceCpuHidesTheGpus) {
  JobSpec job = GpuJob(2, "H100");
  job.device = DeviceChoice::kCpu;
  const auto run = PlanOn(job, {H100("h", 8)});
  ASSERT_TRUE(run) << ErrorOf(run);
  EXPECT_EQ(run->plan.world_size, 2);  // the count becomes the number of processes
  EXPECT_NE(FindingOf(run->plan, "gpus_ignored"), nullptr);
  const auto& env = run->plan.assignments[0].env;
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_EQ(env.at("PYTORCH_ENABLE_MPS_FALLBACK"), "0");
  EXPECT_EQ(env.at("LAUNCH_BACKEND"), "gloo");
  EXPECT_EQ(env.at("ACCELERATE_USE_CPU"), "true");
  EXPECT_TRUE(run->allocations[0].gpus.empty());
  EXPECT_FALSE(run->allocations[0].needs_torch_cuda);
}

TEST(Plan, AsksForTorchWithCudaWherePythonRunsOrAnEnvironmentIsNamed) {
  const auto needs = [](const JobSpec& job, const SubmitContext& context) {
    return PlanOn(job, {H100("h", 1)}, context)->allocations[0].needs_torch_cuda;
  };
  SubmitContext active = Context();
  active.active_venv = "/v";
  JobSpec named = GpuJob(1, "", 1, "./train.sh");
  named.venv = "/v";
  EXPECT_TRUE(needs(GpuJob(1), Context()));
  EXPECT_TRUE(needs(named, Context()));
  EXPECT_FALSE(needs(GpuJob(1, "", 1, "nvidia-smi"), active));
}

TEST(Plan, NamesTheScriptThatMustBeThereWhereTheLineSaysSo) {
  const auto script = [](const std::string& line) {
    JobSpec job = GpuJob(1, "", 1, line);
    job.workdir = "/proj";
    const auto run = PlanOn(job, {H100("h", 1)});
    EXPECT_TRUE(run) << line << ": " << ErrorOf(run);
    return run ? run->allocations[0].script : "";
  };
  EXPECT_EQ(script("python train.py --lr 1"), "/proj/train.py");
  EXPECT_EQ(script("python /opt/train.py"), "/opt/train.py");
  EXPECT_EQ(script("torchrun --nproc-per-node=1 src/train.py"), "/proj/src/train.py");
  for (const char* line :
       {"python -m pkg.train", "python -c 'print(1)'", "cd src && python train.py",
        "python $HOME/train.py", "./train.sh", "nvidia-smi"}) {
    EXPECT_EQ(script(line), "") << line;
  }
}

TEST(Plan, StrategyIsWhatTheUserNamesOrFollowsTheProcesses) {
  EXPECT_EQ(PlanOn(GpuJob(1), {H100("h", 8)})->plan.strategy, Strategy::kSingle);
  EXPECT_EQ(PlanOn(GpuJob(8), {H100("h", 8)})->plan.strategy, Strategy::kDdp);
  JobSpec zero = GpuJob(8);
  zero.strategy = Strategy::kZero2;
  const auto run = PlanOn(zero, {H100("h", 8)});
  EXPECT_EQ(run->plan.assignments[0].env.at("LAUNCH_ZERO_STAGE"), "2");
  EXPECT_NE(FindingOf(run->plan, "plan_cannot_reach_script"), nullptr);
  JobSpec single = GpuJob(8);
  single.strategy = Strategy::kSingle;
  EXPECT_TRUE(Contains(ErrorOf(PlanOn(single, {H100("h", 8)})), "one process"));
  JobSpec offload = GpuJob(8);
  offload.strategy = Strategy::kDdp;
  offload.offload = Offload::kOptimizer;
  EXPECT_FALSE(CheckSpec(offload, Context()));
  offload.strategy = Strategy::kZero2;
  EXPECT_TRUE(CheckSpec(offload, Context()));
  offload.offload = Offload::kAll;
  EXPECT_FALSE(CheckSpec(offload, Context()));
  offload.strategy = Strategy::kDdp;
  EXPECT_TRUE(Contains(CheckSpec(offload, Context()).error().hint, "zero3 or fsdp"));
  offload.strategy = Strategy::kFsdpGradOp;
  EXPECT_TRUE(CheckSpec(offload, Context()));
  offload.offload = Offload::kOptimizer;
  EXPECT_TRUE(Contains(CheckSpec(offload, Context()).error().hint, "offload: all"));
}

TEST(Plan, ADeepspeedDictOfTheScriptIsSaidToRule) {
  const auto finding = [](const std::string& text, const std::string& run,
                          Strategy strategy = Strategy::kAuto) {
    JobSpec job = GpuJob(2, "", 1, run);
    job.strategy = strategy;
    SubmitContext context = Context();
    context.files["dsp.py"] = text;
    const auto planned = PlanOn(job, {A100("a", 4)}, context);
    EXPECT_TRUE(planned) << ErrorOf(planned);
    const Finding* found = planned ? FindingOf(planned->plan, "plan_cannot_reach_script") : nullptr;
    return found == nullptr ? std::string() : found->says + " " + found->remedy;
  };
  const std::string dict =
      "import deepspeed\nconfig = {'train_batch_size': 8,\n"
      "          'zero_optimization': {'overlap_comm': True, 'stage': 2}}\n"
      "engine, *_ = deepspeed.initialize(model=m, config=config)\n";
  const std::string run = "deepspeed --num_gpus 2 dsp.py";
  EXPECT_TRUE(Contains(finding(dict, run), "ZeRO stage 2")) << finding(dict, run);
  EXPECT_TRUE(Contains(finding(dict, run), "strategy: zero2"));
  EXPECT_TRUE(Contains(finding(dict, "torchrun --nproc_per_node 2 dsp.py"), "plain DDP"));
  EXPECT_TRUE(
      Contains(finding("import deepspeed\ndeepspeed.initialize(model=m, config='c.json')", run),
               "configures DeepSpeed by itself, which rules"));
  EXPECT_FALSE(Contains(finding(dict, run, Strategy::kZero2), "by itself"));
  EXPECT_EQ(finding("import deepspeed\nc = {\"zero_optimization\": {\"stage\": 0}}\n", run), "");
  EXPECT_EQ(finding("import os\nc = os.environ['LAUNCH_DS_CONFIG']\n" + dict, run), "");
  EXPECT_EQ(finding("import torch\n", run), "");
  // Only where an argument asks for it.
  const std::string maybe =
      "import deepspeed\nif args.enable_deepspeed:\n"
      "    engine, *_ = deepspeed.initialize(args=args, model=m)\n";
  EXPECT_EQ(finding(maybe, "torchrun --nproc_per_node 2 dsp.py"), "");
  EXPECT_TRUE(Contains(finding(maybe, "torchrun --nproc_per_node 2 dsp.py --enable_deepspeed"),
                       "configures DeepSpeed by itself"));
  EXPECT_TRUE(Contains(finding(maybe, run), "configures DeepSpeed by itself"));
}

TEST(Plan, AnInterfaceThatNoNodeHasIsNamed) {
  const auto finding = [](const std::string& run, std::vector<EnvEntry> env = {},
                          const std::string& script = "") {
    JobSpec job = GpuJob(2, "", 2, run);
    job.env = std::move(env);
    NodeInventory first = A100("a", 4);
    NodeInventory second = A100("b", 4);
    first.addresses = {{"eth0", "10.0.0.1", {}, {}, false}, {"ib0", "10.1.0.1", {}, {}, true}};
    second.addresses = {{"eth0", "10.0.0.2", {}, {}, false}};
    SubmitContext context = Context();
    context.files["train.sh"] = script;
    const auto planned = PlanOn(job, {first, second}, context);
    EXPECT_TRUE(planned) << ErrorOf(planned);
    const Finding* found = planned ? FindingOf(planned->plan, "interface_missing") : nullptr;
    return found == nullptr ? std::string() : found->says + "; " + found->evidence;
  };
  const auto env = [](const std::string& value) {
    return std::vector<EnvEntry>{{"NCCL_SOCKET_IFNAME", value}};
  };
  EXPECT_EQ(finding("python t.py", env("bond0")),
            "NCCL_SOCKET_IFNAME=bond0 of `env:` names no interface of a, b: NCCL cannot start "
            "there; the nodes have addresses on eth0, ib0");
  EXPECT_TRUE(Contains(finding("python t.py", env("ib")), "no interface of b:"));
  for (const char* value : {"eth", "=eth0", "bond0,eth0", "^docker0,lo"})
    EXPECT_EQ(finding("python t.py", env(value)), "") << value;
  EXPECT_TRUE(Contains(finding("python t.py", env("=eth")), "no interface of a, b"));
  EXPECT_EQ(finding("python t.py"), "");
  EXPECT_TRUE(Contains(finding("GLOO_SOCKET_IFNAME=eth torchrun --nproc_per_node 2 t.py"),
                       "GLOO_SOCKET_IFNAME=eth of `run` names no interface of a, b: gloo"));
  EXPECT_TRUE(Contains(finding("GLOO_SOCKET_IFNAME=eth0,bond0 torchrun --nproc_per_node 2 t.py"),
                       "no interface of a, b: gloo"))
      << "gloo opens each";
  EXPECT_EQ(finding("GLOO_SOCKET_IFNAME=eth0 torchrun --nproc_per_node 2 t.py"), "");
  const std::string launcher = "torchrun --nproc_per_node 2 t.py\n";
  // Of two branches nobody knows which one is taken; an echo is none.
  EXPECT_EQ(finding("bash train.sh", {},
                    "if [ -d /x ]; then\n  export NCCL_SOCKET_IFNAME=eth0\nelse\n"
                    "  export NCCL_SOCKET_IFNAME=bond0\nfi\n" +
                        launcher),
            "");
  const std::string bond = "export NCCL_SOCKET_IFNAME=bond0\n";
  EXPECT_TRUE(Contains(finding("bash train.sh", {},
                               bond + "echo NCCL_SOCKET_IFNAME=$NCCL_SOCKET_IFNAME\n" + launcher),
                       "NCCL_SOCKET_IFNAME=bond0 of train.sh"));
  EXPECT_EQ(finding("bash train.sh", env("bond0"), "unset NCCL_SOCKET_IFNAME\n" + launcher), "");
  EXPECT_EQ(finding("bash train.sh", env("bond0"), "export NCCL_SOCKET_IFNAME=$NIC\n" + launcher),
            "");
  EXPECT_TRUE(
      Contains(finding("bash train.sh", {}, "export NCCL_SOCKET_IFNAME='bond0'\n" + launcher),
               "NCCL_SOCKET_IFNAME=bond0 of train.sh"));
  EXPECT_EQ(
      finding("bash train.sh", {},
              "# export NCCL_SOCKET_IFNAME=bond0\nexport NCCL_SOCKET_IFNAME=$NIC\n" + launcher),
      "");
}

TEST(Plan, SaysWhenItCannotReachTheScript) {
  const auto finding = [](const std::string& run) {
    JobSpec job = GpuJob(4, "", 1, run);
    job.batch = {64, 8, {}};
    const auto planned = PlanOn(job, {A100("a", 4)});
    EXPECT_TRUE(planned) << ErrorOf(planned);
    const Finding* found = FindingOf(planned->plan, "plan_cannot_reach_script");
    return found == nullptr ? std::string() : found->says;
  };
  EXPECT_TRUE(Contains(finding("python train.py --gpus 4,5,6,7"), "--gpus 4,5,6,7"));
  EXPECT_TRUE(Contains(finding("python train.py --gpu_ids 0,1,2,3,4,5"), "6 GPUs of a node"));
  EXPECT_TRUE(Contains(finding("python train.py --gpus 0,1,2,3"), "--gpus 0,1,2,3"))
      << "each of four processes would take all of them";
  EXPECT_TRUE(Contains(finding("python train.py --batch_size 2"), "--batch_size 2"));
  EXPECT_TRUE(Contains(finding("python train.py --fp16"), "--fp16"));
  EXPECT_EQ(finding("python train.py --batch_size 8 --bf16"), "");
  EXPECT_EQ(finding("python train.py --batch_size $LAUNCH_MICRO_BATCH"), "");
  EXPECT_EQ(finding("python train.py --lr 1e-4"), "");
}

TEST(Plan, MemoryIsALimitButOnCoherentNodes) {
  JobSpec job = GpuJob(1);
  job.memory_bytes = Amount{200'000'000'000, false};
  EXPECT_EQ(PlanOn(job, {H100("h", 1)})->allocations[0].memory_limit_bytes, 200'000'000'000U);
  const auto coherent = PlanOn(job, Cluster("gh200x2"));
  EXPECT_FALSE(coherent->allocations[0].memory_limit_bytes);
  EXPECT_NE(FindingOf(coherent->plan, "memory_limit_ignored"), nullptr);
  job.memory_bytes->at_least = true;
  EXPECT_FALSE(PlanOn(job, {H100("h", 1)})->allocations[0].memory_limit_bytes);
}

TEST(Plan, StepsComeFromTheDataSet) {
  JobSpec job = GpuJob(1);
  job.batch = {64, 8, {}};
  job.dataset = DatasetSpec{2500, 3};
  EXPECT_EQ(PlanOn(job, {A100("a", 1)})->plan.steps, 120);
  job.dataset->epochs = 0.5;
  EXPECT_EQ(PlanOn(job, {A100("a", 1)})->plan.steps, 20);
  job.steps = 7;
  EXPECT_EQ(PlanOn(job, {A100("a", 1)})->plan.steps, 7);
}

TEST(Plan, LaterVersionsAreNamed) {
  for (const auto change : {+[](JobSpec& j) { j.nodes.automatic = true; },
                            +[](JobSpec& j) { j.run = "mpirun -n 2 python x.py"; }}) {
    JobSpec job = Job();
    change(job);
    const auto checked = CheckSpec(job, Context());
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kUnimplemented);
    EXPECT_FALSE(checked.error().hint.empty());
  }
}

TEST(Plan, SaysWhetherWorkdirIsShipped) {
  JobSpec job = Job();
  const auto workdir = [&](const SubmitContext& context) {
    return PlanOn(job, {A100("a", 1)}, context)->plan.workdir;
  };
  SubmitContext context = Context();
  EXPECT_EQ(workdir(context), "/proj (in place)");
  context.snapshot = std::string(64, 'a');
  context.snapshot_files = 3;
  context.snapshot_bytes = 2048;
  EXPECT_EQ(workdir(context),
            "/proj (in place; a shipped copy of 3 files, 2KiB if a node does not see it)");
  job.snapshot = true;
  EXPECT_EQ(workdir(context), "/proj (a shipped copy of 3 files, 2KiB on each node)");
  EXPECT_EQ(workdir(Context()), "/proj (a shipped copy on each node)");
}

TEST(Plan, AnImageTakesTheRuntimeWhoseProcessesStayOurs) {
  JobSpec job = Job();
  job.image = "nvcr.io/nvidia/pytorch:25.08-py3";
  job.mounts = {{"$HOME/data", "/data", true}};
  job.env = {{"PATH", "/opt/bin"}};
  job.shm_bytes = 1 << 30;
  NodeInventory with = A100("b", 1);
  with.container_runtimes = {"docker", "podman", "enroot", "apptainer"};
  const auto run = PlanOn(job, {A100("a", 1), with});
  ASSERT_TRUE(run) << run.error().message;
  const AllocationSpec& spec = run->allocations[0];
  EXPECT_EQ(spec.node, with.node) << "the other has no runtime";
  ASSERT_TRUE(spec.container);
  EXPECT_EQ(spec.container->runtime, "apptainer");
  EXPECT_EQ(spec.container->image, job.image);
  EXPECT_EQ(spec.container->shm_bytes, job.shm_bytes);
  ASSERT_EQ(spec.container->mounts.size(), 1u);
  EXPECT_TRUE(spec.container->mounts[0].source.ends_with("/data"));
  EXPECT_EQ(spec.container->mounts[0].source[0], '/');
  const auto& own = spec.container->own_env;
  EXPECT_EQ(std::count(own.begin(), own.end(), "LD_LIBRARY_PATH"), 1);
  EXPECT_EQ(std::count(own.begin(), own.end(), "PATH"), 0) << "env: names it";
  EXPECT_TRUE(spec.command_word.empty()) << "what is in the image is not looked for outside";
  EXPECT_FALSE(spec.needs_torch_cuda);
  with.container_runtimes = {"docker"};
  EXPECT_EQ(PlanOn(job, {with})->allocations[0].container->runtime, "docker");
  job.image.clear();
  EXPECT_FALSE(PlanOn(job, {with})) << "mounts of nothing";
}

TEST(Plan, ChecksASpecBeforeAnyNodeIsKnown) {
  EXPECT_TRUE(CheckSpec(Job(), Context()));
  for (const auto change :
       {+[](JobSpec& j) { j.workdir = "here"; }, +[](JobSpec& j) { j.constraints = "cc>"; },
        +[](JobSpec& j) {
          j.batch = {64, 8, 3};
        },
        +[](JobSpec& j) {
          j.gpu_ids = {1, 1};
        },
        +[](JobSpec& j) { j.procs_per_node = 0; }, +[](JobSpec& j) { j.run = "python 'x"; },
        +[](JobSpec& j) {
          j.nodes = {0, 0, false};
        },
        +[](JobSpec& j) {
          j.gpu_ids = {1};
          j.gpus = {{"", 2}};
          j.gpus_written = true;
        }}) {
    JobSpec job = Job();
    change(job);
    const auto checked = CheckSpec(job, Context());
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument) << checked.error().message;
  }
}

}  // namespace
}  // namespace launch
