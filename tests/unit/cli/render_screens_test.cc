// What `top` shows.
#include <gtest/gtest.h>

#include "cli/render_top.h"

namespace launch {
namespace {

constexpr std::int64_t kMoment = 1'795'000'000'000;

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

GpuDevice Gpu(const std::string& uuid) {
  GpuDevice gpu;
  gpu.uuid = GpuUuid{uuid};
  gpu.type = "H100";
  gpu.memory_bytes = 80ULL << 30;
  return gpu;
}

TopFacts Facts() {
  TopFacts facts;
  NodeView node;
  node.inventory.node = NodeId{"gpu01"};
  node.inventory.gpus = {Gpu("GPU-a"), Gpu("GPU-b"), Gpu("GPU-c"), Gpu("GPU-d")};
  node.free_gpus = {GpuUuid{"GPU-c"}};
  node.quarantined = {{GpuUuid{"GPU-d"}, "process 7 holds it"}};
  node.jobs = {JobId{4}, JobId{5}};
  node.schedulable = true;
  GpuSample sample;
  sample.uuid = GpuUuid{"GPU-a"};
  sample.utilization = 0.5;
  sample.used_bytes = 40ULL << 30;
  sample.power_w = 412.4;
  node.samples = {sample};
  NodeView cpu;
  cpu.inventory.node = NodeId{"login"};
  cpu.inventory.cores = 8;
  cpu.state = "drain";
  facts.nodes = {node, cpu};
  facts.gpu_users = {{GpuUuid{"GPU-a"}, JobId{4}}};
  JobView waits;
  waits.id = JobId{3};
  waits.name = "waits";
  waits.reason = {"Priority", "behind 2"};
  JobView runs;
  runs.id = JobId{4};
  runs.name = "runs";
  runs.state = JobState::kRunning;
  runs.started = WallMs(kMoment - 60'000);
  facts.jobs = {waits, runs};
  facts.cluster = "lab";
  return facts;
}

TEST(Top, ShowsEachGpuWithItsUseAndWhoHasIt) {
  Screen screen;
  screen.now = WallMs(kMoment);
  const std::string text = Joined(TopLines(Facts(), screen));
  for (const char* shown :
       {"lab", "2 nodes (1 out of service)", "2 of 4 GPUs in use, 1 quarantined",
        "2 jobs, 1 started", "[|||||     ]  50%", "40GiB of 80GiB", "412 W", "job 4", "one of 4, 5",
        "free", "quarantined: process 7 holds it", "8 cores", "drain", "(Priority: behind 2)"}) {
    EXPECT_NE(text.find(shown), std::string::npos) << shown << "\n" << text;
  }
  EXPECT_LT(text.find("runs"), text.find("waits")) << "what runs comes first";
}

TEST(Top, SaysThatItsFactsAreOld) {
  TopFacts facts = Facts();
  facts.trouble = "NO ANSWER: it is away";
  EXPECT_NE(TopLines(facts, Screen()).front().find("it is away"), std::string::npos);
}

TEST(Top, TheWindowKeepsTheHeadAndStopsAtTheEnd) {
  const std::vector<std::string> lines = {"head", "", "a", "b", "c", "d"};
  std::size_t from = 1;
  EXPECT_EQ(Window(lines, 4, from), (std::vector<std::string>{"head", "", "b", "c"}));
  from = 99;
  EXPECT_EQ(Window(lines, 4, from), (std::vector<std::string>{"head", "", "c", "d"}));
  EXPECT_EQ(from, 2u);
  EXPECT_EQ(Window(lines, 40, from), lines);
  EXPECT_EQ(from, 0u);
  EXPECT_EQ(Window(lines, 1, from), std::vector<std::string>{"head"});
}

}  // namespace
}  // namespace launch
