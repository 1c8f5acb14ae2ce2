#include "tests/unit/planner/plan_text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace launch::testing {
namespace {

class Lines {
 public:
  void Add(const std::string& key, const std::string& value) { text_ += key + ": " + value + "\n"; }
  void Add(const std::string& key, std::string_view value) { Add(key, std::string(value)); }
  void Add(const std::string& key, const char* value) { Add(key, std::string(value)); }
  void Add(const std::string& key, std::int64_t value) { Add(key, std::to_string(value)); }
  void Add(const std::string& key, const std::optional<std::int64_t>& value) {
    Add(key, value ? std::to_string(*value) : std::string("-"));
  }
  std::string text_;
};

std::string Listed(const std::vector<int>& numbers) {
  std::string text;
  for (int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return "[" + text + "]";
}

void AddPlan(const Plan& plan, Lines& out) {
  out.Add("strategy", ToString(plan.strategy));
  out.Add("why", plan.why);
  out.Add("offload", ToString(plan.offload));
  out.Add("device", ToString(plan.device));
  out.Add("device_name", plan.device_name);
  out.Add("device_reason", plan.device_reason);
  out.Add("precision", ToString(plan.precision));
  out.Add("precision_reason", plan.precision_reason);
  out.Add("batch.global", plan.batch.global);
  out.Add("batch.micro", plan.batch.micro);
  out.Add("batch.accumulate", plan.batch.accumulate);
  out.Add("world_size", std::int64_t{plan.world_size});
  out.Add("processes", std::to_string(plan.processes.total) + " total, " +
                           std::to_string(plan.processes.per_node) + " per node, " +
                           std::to_string(plan.processes.cpus_per_process) + " cpus each");
  out.Add("start", ToString(plan.start));
  out.Add("launcher", ToString(plan.launcher));
  for (const std::string& line : plan.read) out.Add("read", line);
  out.Add("command", plan.command);
  char limit[32];
  std::snprintf(limit, sizeof limit, "%.2f", plan.memory.limit_gib);
  out.Add("memory.peak_gib", plan.memory.peak_gib ? "set" : "-");
  out.Add("memory.limit_gib", limit);
  out.Add("loader", std::to_string(plan.loader.num_workers) + " workers, pinned " +
                        (plan.loader.pin_memory ? "yes" : "no") + ", persistent " +
                        (plan.loader.persistent_workers ? "yes" : "no"));
  out.Add("steps", plan.steps);
  out.Add("duration", plan.duration.seconds ? "set" : "-");
  out.Add("workdir", plan.workdir);
  std::string late;
  for (const std::string& name : plan.late) late += (late.empty() ? "" : " ") + name;
  out.Add("late", late);
  for (const Finding& finding : plan.warnings) {
    out.Add(std::string(ToString(finding.severity)) + " " + finding.code, finding.says);
    out.Add("  remedy", finding.remedy);
  }
  for (const RankAssignment& rank : plan.assignments) {
    out.Add("rank " + std::to_string(rank.rank), rank.node.value + " local " +
                                                     std::to_string(rank.local_rank) + " gpus " +
                                                     Listed(rank.gpus));
  }
  for (const GeneratedFile& file : plan.files) out.Add("file " + file.name, "\n" + file.bytes);
}

void AddAllocation(const AllocationSpec& spec, Lines& out) {
  out.text_ += "--- allocation on " + spec.node.value + "\n";
  out.Add("workdir", spec.workdir);
  out.Add("interpreter", spec.interpreter);
  out.Add("interpreter_of", spec.interpreter_of);
  out.Add("command_word", spec.command_word);
  out.Add("needs_torch_cuda", spec.needs_torch_cuda ? "yes" : "no");
  out.Add("gpu_indices", Listed(spec.gpu_indices));
  out.Add("cpus", std::int64_t{spec.cpus});
  out.Add("memory_limit", spec.memory_limit_bytes ? std::to_string(*spec.memory_limit_bytes) : "-");
  out.Add("needs_ports", spec.needs_ports ? "yes" : "no");
  out.Add("stop", "signal " + std::to_string(spec.stop.signal.value_or(0)) + " " +
                      std::to_string(spec.stop.signal_before.count()) + " ms before, grace " +
                      std::to_string(spec.stop.grace.count()) + " ms");
  out.Add("checkpoint_dir", spec.checkpoint_dir);
  for (const RankSpec& rank : spec.ranks) {
    std::string argv;
    for (const std::string& word : rank.argv) argv += "<" + word + ">";
    out.Add("rank " + std::to_string(rank.rank), argv);
  }
}

}  // namespace

std::string PlanText(const PlannedRun& run) {
  Lines out;
  AddPlan(run.plan, out);
  for (const AllocationSpec& spec : run.allocations) AddAllocation(spec, out);
  return out.text_;
}

std::string RankEnvText(const PlannedRun& run) {
  std::string text;
  for (const RankAssignment& rank : run.plan.assignments) {
    text += "--- rank " + std::to_string(rank.rank) + " on " + rank.node.value + "\n";
    for (const auto& [name, value] : rank.env) text += name + "=" + value + "\n";
  }
  return text;
}

void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = std::string(LAUNCH_SOURCE_DIR) + "/tests/golden/" + name;
  const char* update = std::getenv("UPDATE_GOLDEN");
  if (update != nullptr && std::string_view(update) == "1") {
    std::ofstream out(path, std::ios::binary);
    out << text;
    ASSERT_TRUE(out.good()) << path;
    return;
  }
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in) << path << " is missing: run with UPDATE_GOLDEN=1";
  const std::string golden{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, golden) << path << ": look at the difference, then run with UPDATE_GOLDEN=1";
}

}  // namespace launch::testing
