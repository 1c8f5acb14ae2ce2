#include "planner/start/environment.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

using namespace launch::testing;
using Env = std::map<std::string, std::string>;

NodeInventory NodeWith(Env base) {
  NodeInventory node = Node("n");
  node.base_env = std::move(base);
  return node;
}

Result<Env> EnvOf(const JobSpec& job, const NodeInventory& node,
                  const SubmitContext& context = Context()) {
  return JobEnvironment(job, context, node);
}

TEST(Environment, DocumentIsTheCommittedPage) {
  std::ifstream in(std::string(LAUNCH_SOURCE_DIR) + "/docs/environment.md");
  const std::string page{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_EQ(page, EnvironmentDocument()) << "run: environment-doc > docs/environment.md";
}

TEST(Environment, TableNamesEachVariableOnce) {
  std::set<std::string_view> names;
  for (const EnvRule& rule : EnvironmentTable()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_FALSE(rule.meaning.empty());
  }
}

TEST(Environment, LeavesTheHomeOfAnAccountToTheNodeThatRunsManys) {
  SubmitContext context;
  context.user = "ana";
  JobSpec job = Job();
  job.env = {{"HF_HOME", "$HOME/hf"}, {"SCRATCH", "/scratch/$USER"}};
  const auto env = EnvOf(job, NodeWith({{"PATH", "/bin"}}), context);
  ASSERT_TRUE(env) << FormatError(env.error());
  EXPECT_EQ(env->at("HOME"), "~");
  EXPECT_EQ(env->at("HF_HOME"), "~/hf");
  EXPECT_EQ(env->at("SCRATCH"), "/scratch/ana");
}

TEST(Environment, IsTheCleanBaseOfTheNodeAndNothingElse) {
  const auto env = EnvOf(Job(), NodeWith({{"HOME", "/h"}, {"PATH", "/bin"}}));
  ASSERT_TRUE(env);
  EXPECT_EQ(*env, (Env{{"HOME", "/h"}, {"PATH", "/bin"}}));
}

TEST(Environment, VenvStandsFirstOnPath) {
  JobSpec job = Job();
  job.venv = "/v";
  const auto env = EnvOf(job, NodeWith({{"PATH", "/bin"}}));
  EXPECT_EQ(env->at("VIRTUAL_ENV"), "/v");
  EXPECT_EQ(env->at("PATH"), "/v/bin:/bin");
}

TEST(Environment, TheSubmittersActiveVenvIsTheDefault) {
  SubmitContext context = Context();
  context.active_venv = "/active";
  EXPECT_EQ(EnvOf(Job(), NodeWith({}), context)->at("VIRTUAL_ENV"), "/active");
  JobSpec job = Job();
  job.python = "/opt/py/bin/python3";
  const auto env = EnvOf(job, NodeWith({{"PATH", "/bin"}}), context);
  EXPECT_EQ(env->count("VIRTUAL_ENV"), 0U);
  EXPECT_EQ(env->at("PATH"), "/opt/py/bin:/bin");
}

TEST(Environment, ExpandsInOrderAgainstWhatStandsBefore) {
  JobSpec job = Job();
  job.env = {{"CUDA_HOME", "/usr/lib/cuda"},
             {"LD_LIBRARY_PATH", "$CUDA_HOME/lib64:/usr/lib/aarch64-linux-gnu:$LD_LIBRARY_PATH"},
             {"PATH", "/usr/local/cuda/bin:${PATH}"}};
  const auto env = EnvOf(job, NodeWith({{"PATH", "/bin"}, {"LD_LIBRARY_PATH", "OLD"}}));
  ASSERT_TRUE(env);
  EXPECT_EQ(env->at("LD_LIBRARY_PATH"), "/usr/lib/cuda/lib64:/usr/lib/aarch64-linux-gnu:OLD");
  EXPECT_EQ(env->at("PATH"), "/usr/local/cuda/bin:/bin");
}

TEST(Environment, LibraryPathMayBeUnsetOnTheNode) {
  JobSpec job = Job();
  EXPECT_EQ(EnvOf(job, NodeWith({}))->count("LD_LIBRARY_PATH"), 0U);
  job.env = {{"LD_LIBRARY_PATH", "/x:$LD_LIBRARY_PATH"}};
  EXPECT_EQ(EnvOf(job, NodeWith({}))->at("LD_LIBRARY_PATH"), "/x:");
}

TEST(Environment, ReadsTheFourFormsOfAVariable) {
  JobSpec job = Job();
  job.env = {{"A", "1"},
             {"EMPTY", ""},
             {"B", "$A-${A}-${NO:-x$A}-${A:-y}-${EMPTY:-z}-${EMPTY-w}"},
             {"C", "[${A:+set}][${NO:+set}][${EMPTY:+set}]"},
             {"D", "\\$A costs 5$ or $5"}};
  const auto env = EnvOf(job, NodeWith({}));
  ASSERT_TRUE(env) << FormatError(env.error());
  EXPECT_EQ(env->at("B"), "1-1-x1-1-z-");
  EXPECT_EQ(env->at("C"), "[set][][]");
  EXPECT_EQ(env->at("D"), "$A costs 5$ or $5");
}

TEST(Environment, AnUndefinedNameIsAnErrorWithKeyAndName) {
  JobSpec job = Job();
  job.env = {{"PATH", "$FOO/bin"}};
  const auto env = EnvOf(job, NodeWith({}));
  ASSERT_FALSE(env);
  EXPECT_EQ(env.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(Contains(env.error().message, "env.PATH")) << env.error().message;
  EXPECT_TRUE(Contains(env.error().message, "$FOO")) << env.error().message;
  for (const char* text : {"${FOO", "${FOO%x}", "${}", "$LATER"}) {
    job.env = {{"A", text}, {"LATER", "1"}};
    EXPECT_FALSE(EnvOf(job, NodeWith({}))) << text;
  }
}

TEST(Environment, AValueMayBeRequiredFromTheCaller) {
  JobSpec job = Job();
  job.env = {{"TOKEN", std::nullopt}};
  EXPECT_FALSE(EnvOf(job, NodeWith({})));
  SubmitContext context = Context();
  context.caller_env["TOKEN"] = "a$b";
  EXPECT_EQ(EnvOf(job, NodeWith({}), context)->at("TOKEN"), "a$b");
  job.secrets = {"TOKEN"};  // travels beside the plan
  EXPECT_EQ(EnvOf(job, NodeWith({}), context)->count("TOKEN"), 0U);
}

TEST(Environment, ContractVariablesAreRefusedWithTheReason) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK",
                           "LAUNCH_MICRO_BATCH", "LAUNCH_JOB_ID", "TORCHELASTIC_RUN_ID"}) {
    JobSpec job = Job();
    job.env = {{name, "0"}};
    const auto checked = CheckSpec(job, Context());
    ASSERT_FALSE(checked) << name;
    EXPECT_TRUE(Contains(checked.error().message, name));
  }
  JobSpec job = Job();
  job.env = {{"CUDA_VISIBLE_DEVICES", "0,1"}};
  const auto checked = CheckSpec(job, Context());
  ASSERT_FALSE(checked);
  EXPECT_TRUE(Contains(checked.error().message, "visible_devices_set"));
  EXPECT_TRUE(Contains(checked.error().hint, "gpu_ids: [0,1]"));
}

TEST(Environment, AUsersValueWinsOverAPlannedOne) {
  JobSpec job = GpuJob(2, "", 1);
  job.env = {{"OMP_NUM_THREADS", "3"}, {"NCCL_SOCKET_IFNAME", "ib0"}};
  const auto run = PlanOn(job, {H100("a", 2)});
  ASSERT_TRUE(run) << ErrorOf(run);
  const RankAssignment& rank = run->plan.assignments[0];
  EXPECT_EQ(rank.env.at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(rank.env.at("NCCL_SOCKET_IFNAME"), "ib0");
  const auto& late = run->plan.late;
  EXPECT_EQ(std::count(late.begin(), late.end(), "NCCL_SOCKET_IFNAME"), 0);
  EXPECT_EQ(std::count(late.begin(), late.end(), "GLOO_SOCKET_IFNAME"), 1);
}

TEST(Environment, TheAllocatorSettingIsOneSettingUnderTwoNames) {
  JobSpec job = GpuJob(1);
  job.model.fields["variable_length"] = "true";
  auto run = PlanOn(job, {H100("a", 1)});
  EXPECT_EQ(run->plan.assignments[0].env.at("PYTORCH_ALLOC_CONF"), "expandable_segments:True");
  EXPECT_EQ(run->plan.assignments[0].env.at("PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
  job.env = {{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64"}};
  run = PlanOn(job, {H100("a", 1)});
  EXPECT_EQ(run->plan.assignments[0].env.count("PYTORCH_ALLOC_CONF"), 0U);
  EXPECT_EQ(run->plan.assignments[0].env.at("PYTORCH_CUDA_ALLOC_CONF"), "max_split_size_mb:64");
}

TEST(Environment, TheCheckpointDirectoryIsAbsoluteAndExpanded) {
  const std::pair<const char*, const char*> rows[] = {{"out", "/proj/out"},
                                                      {"./out", "/proj/out"},
                                                      {"/abs", "/abs"},
                                                      {"${SCRATCH}/ck", "/scratch/ck"},
                                                      {"~/ck", "/h/ck"}};
  for (const auto& [written, expected] : rows) {
    JobSpec job = GpuJob(0);
    job.checkpoint.dir = written;
    job.env = {{"SCRATCH", "/scratch"}};
    const auto run = PlanOn(job, {NodeWith({{"HOME", "/h"}})});
    ASSERT_TRUE(run) << ErrorOf(run);
    EXPECT_EQ(run->allocations[0].checkpoint_dir, expected);
    EXPECT_EQ(run->plan.assignments[0].env.at("LAUNCH_CHECKPOINT_DIR"), expected);
  }
  JobSpec job = GpuJob(0);
  job.checkpoint.format = "marker";
  job.checkpoint.complete_marker = "DONE";
  const auto marked = PlanOn(job, {Node("n")});
  ASSERT_TRUE(marked);
  EXPECT_EQ(marked->allocations[0].checkpoint_format, "marker");
  EXPECT_EQ(marked->allocations[0].checkpoint_marker, "DONE");
  job.checkpoint.dir = "$NOWHERE/x";
  EXPECT_TRUE(Contains(ErrorOf(PlanOn(job, {Node("n")})), "checkpoint.dir uses $NOWHERE"));
}

std::string VisibleDevicesOn(const NodeInventory& node, const PlannedRun& run) {
  for (const RankAssignment& rank : run.plan.assignments) {
    if (rank.node == node.node) return rank.env.at("CUDA_VISIBLE_DEVICES");
  }
  return "(no rank)";
}

TEST(Environment, DevicesAreUuidsWhereOneOfThemIsBad) {
  std::vector<NodeInventory> nodes = {H100("a", 4), H100("b", 4)};
  nodes[0].gpus[1].health = Health::kBad;
  nodes[0].gpus[1].why = "lost";
  const auto run = PlanOn(GpuJob(3, "", 2), nodes);
  ASSERT_TRUE(run) << ErrorOf(run);
  const auto& gpus = nodes[0].gpus;
  EXPECT_EQ(VisibleDevicesOn(nodes[0], *run),
            gpus[0].uuid.value + "," + gpus[2].uuid.value + "," + gpus[3].uuid.value);
  EXPECT_EQ(VisibleDevicesOn(nodes[1], *run), "0,1,2");
  const Finding* notice = FindingOf(run->plan, "devices_by_uuid");
  ASSERT_NE(notice, nullptr);
  EXPECT_EQ(notice->severity, Severity::kNotice);
  EXPECT_EQ(notice->says,
            "CUDA_VISIBLE_DEVICES lists UUIDs on a, which has an unhealthy GPU 1: lost");
}

TEST(Environment, DevicesAreUuidsForAnAgentThatHasSomeOfTheMachinesGpus) {
  std::vector<NodeInventory> nodes = {H100("a", 2)};
  const auto indices = PlanOn(GpuJob(2), nodes);
  ASSERT_TRUE(indices);
  EXPECT_EQ(VisibleDevicesOn(nodes[0], *indices), "0,1");
  EXPECT_EQ(FindingOf(indices->plan, "devices_by_uuid"), nullptr);
  nodes[0].gpu_subset = true;
  const auto run = PlanOn(GpuJob(2), nodes);
  ASSERT_TRUE(run);
  EXPECT_EQ(VisibleDevicesOn(nodes[0], *run),
            nodes[0].gpus[0].uuid.value + "," + nodes[0].gpus[1].uuid.value);
  EXPECT_EQ(FindingOf(run->plan, "gpu_ids_of_agent"), nullptr);
  JobSpec particular = GpuJob(1);
  particular.gpu_ids = {1};
  const auto named = PlanOn(particular, nodes);
  ASSERT_TRUE(named);
  const Finding* ids = FindingOf(named->plan, "gpu_ids_of_agent");
  ASSERT_NE(ids, nullptr);
  EXPECT_TRUE(ids->says.ends_with(": 1 is " + nodes[0].gpus[1].uuid.value)) << ids->says;
  EXPECT_EQ(VisibleDevicesOn(nodes[0], *named), nodes[0].gpus[1].uuid.value);
}

TEST(Environment, ALaunchVariableThatThePlanDoesNotSetIsAnError) {
  const std::vector<NodeInventory> nodes = {Node("n")};
  const auto error = [&](const std::string& run) { return ErrorOf(PlanOn(Job(run), nodes)); };
  EXPECT_TRUE(Contains(error("python t.py --b $LAUNCH_MICRO_BATCH"), "$LAUNCH_MICRO_BATCH"));
  EXPECT_TRUE(Contains(error("python t.py --b $LAUNCH_MICRO_BATCH"), "batch: {global"));
  EXPECT_TRUE(Contains(error("python t.py ${LAUNCH_MICROBATCH}"), "did you mean"));
  EXPECT_EQ(error("python t.py --b ${LAUNCH_MICRO_BATCH:-4}"), "");
  EXPECT_EQ(error("python t.py ${LAUNCH_RESUME_FROM:+--resume $LAUNCH_RESUME_FROM}"), "");
  EXPECT_EQ(error("python t.py $LAUNCH_RESUME_FROM $LAUNCH_JOB_ID"), "");
  EXPECT_EQ(error("python t.py '$LAUNCH_NOTHING'"), "");
  EXPECT_EQ(error("LAUNCH_MINE=1 bash -c 'true' $LAUNCH_MINE"), "");
}

}  // namespace
}  // namespace launch
