// One-line fixtures for planner tests: cards, clusters, jobs, offers.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/inventory_yaml.h"
#include "planner/planner.h"

namespace launch::testing {

inline std::vector<NodeInventory> Cluster(const std::string& name) {
  auto nodes =
      ReadInventoryFile(std::string(LAUNCH_SOURCE_DIR) + "/configs/clusters/" + name + ".yaml");
  EXPECT_TRUE(nodes) << (nodes ? "" : FormatError(nodes.error()));
  return nodes ? *nodes : std::vector<NodeInventory>{};
}

// A node of 16 cores and 256 GB with `count` cards.
inline NodeInventory Node(const std::string& name, const std::string& model = "",
                          const std::string& cc = "", int mib = 0, int count = 1) {
  std::string yaml = "- node: " + name + "\n  cores: 16\n  memory: 256GB\n" +
                     "  addresses: [{interface: eth0, address: 10.0.0.1, mbit: 10000}]\n";
  if (!model.empty()) {
    yaml += "  driver: \"570.124.06\"\n  driver_cuda: \"12.8\"\n  gpus:\n    - model: \"" + model +
            "\"\n      cc: \"" + cc + "\"\n      memory: " + std::to_string(mib) +
            "MiB\n      count: " + std::to_string(count) + "\n";
  }
  auto nodes = ParseInventories(yaml, "node.yaml");
  EXPECT_TRUE(nodes) << (nodes ? "" : FormatError(nodes.error()));
  return nodes->front();
}

inline NodeInventory H100(const std::string& name, int count) {
  return Node(name, "NVIDIA H100 80GB HBM3", "9.0", 81559, count);
}
inline NodeInventory A100(const std::string& name, int count) {
  return Node(name, "NVIDIA A100-SXM4-40GB", "8.0", 40960, count);
}
inline NodeInventory V100(const std::string& name, int count) {
  return Node(name, "Tesla V100-SXM2-32GB", "7.0", 32768, count);
}

inline std::vector<PlannerOffer> Offers(const std::vector<NodeInventory>& nodes) {
  std::vector<PlannerOffer> offers;
  for (const NodeInventory& node : nodes) {
    PlannerOffer offer;
    offer.inventory = &node;
    for (std::size_t i = 0; i < node.gpus.size(); ++i)
      offer.free_gpus.push_back(static_cast<int>(i));
    offer.free_cpus = node.cores;
    offer.free_memory_bytes = node.memory_bytes;
    offers.push_back(std::move(offer));
  }
  return offers;
}

inline JobSpec Job(const std::string& run = "python train.py") {
  JobSpec job;
  job.name = "job";
  job.workdir = "/proj";
  job.run = run;
  return job;
}

// The `model:` block of Llama-2-7B.
inline std::map<std::string, std::string> Llama7B() {
  return {{"params", "6738415616"},
          {"layers", "32"},
          {"hidden", "4096"},
          {"heads", "32"},
          {"vocab", "32000"},
          {"seq_len", "2048"},
          {"activation_checkpointing", "full"}};
}

inline JobSpec GpuJob(int count, const std::string& model = "", int nodes = 1,
                      const std::string& run = "python train.py") {
  JobSpec job = Job(run);
  job.gpus = {{model, count}};
  job.gpus_written = true;
  job.nodes = {nodes, nodes, false};
  return job;
}

inline SubmitContext Context() {
  SubmitContext context;
  context.submit_dir = "/home/ana/project";
  context.user = "ana";
  return context;
}

// Without files that the line calls.
inline auto Place(const JobSpec& job, const std::vector<PlannerOffer>& offers) {
  return launch::Place(job, offers, DemandIn(ReadLineOf(job, {})));
}
inline Result<void> CheckSpec(const JobSpec& job, const SubmitContext& context) {
  return launch::CheckSpec(job, context, ReadLineOf(job, context.files));
}

// Places and plans; the error of either is returned.
inline Result<PlannedRun> PlanOn(const JobSpec& job, const std::vector<NodeInventory>& nodes,
                                 const SubmitContext& context = Context(),
                                 std::optional<Key> key = std::nullopt) {
  const auto offers = Offers(nodes);
  const auto placement = Place(job, offers);
  if (!placement) {
    return Fail(ErrorCode::kCannotFit, placement.error().reason.code + ": " +
                                           placement.error().reason.evidence + "; closest " +
                                           placement.error().closest_node + " " +
                                           placement.error().missing);
  }
  return MakePlan({job, context, ReadLineOf(job, context.files), offers, *placement, key, "ana"});
}

inline std::string ErrorOf(const Result<PlannedRun>& run) {
  return run ? std::string()
             : std::string(ErrorCodeName(run.error().code)) + ": " + run.error().message + " | " +
                   run.error().hint;
}

inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline const Finding* FindingOf(const Plan& plan, const std::string& code) {
  for (const Finding& finding : plan.warnings) {
    if (finding.code == code) return &finding;
  }
  return nullptr;
}

}  // namespace launch::testing
