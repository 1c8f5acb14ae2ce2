// A GPU job on GH200 nodes, for tests of preflight rules: one place to change one fact.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "preflight/preflight.h"

namespace launch {

inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline GpuDevice Gpu(const std::string& uuid) {
  GpuDevice gpu;
  gpu.uuid.value = uuid;
  gpu.model = "NVIDIA GH200 480GB";
  gpu.type = "GH200";
  gpu.cc = ComputeCapability{9, 0};
  gpu.memory_bytes = 97871ULL << 20;
  return gpu;
}

inline RuntimeFacts Torch(const std::string& path, const std::string& version,
                          std::optional<std::string> cuda, std::optional<bool> sees_gpu) {
  RuntimeFacts facts;
  facts.path = path;
  facts.python = "3.11.7";
  facts.torch.emplace();
  facts.torch->version = version;
  facts.torch->cuda = std::move(cuda);
  facts.sees_gpu = sees_gpu;
  return facts;
}

// A GPU job on one GH200 node whose venv the node has probed; AddNode() makes it a job of two.
struct Scene {
  JobSpec job;
  Plan plan;
  NodeInventory node;
  NodeInventory second;

  Scene() {
    node.node.value = "gh01";
    node.arch = Arch::kAarch64;
    node.driver = "570.124.06";
    node.driver_cuda = CudaVersion{12, 8};
    node.gpus = {Gpu("GPU-1")};
    node.interpreters = {Torch(Interpreter(), "2.13.0+cu126", "12.6", true)};
    job.venv = "/home/ana/venv";
    plan.device = DeviceClass::kCuda;
    plan.precision = Precision::kBf16;
    plan.command = "exec python train.py";
    plan.assignments = {Rank(0, node.node, "GPU-1")};
    plan.world_size = 1;
  }
  static std::string Interpreter() { return "/home/ana/venv/bin/python"; }
  RankAssignment Rank(int rank, const NodeId& on, const std::string& gpu) const {
    RankAssignment assignment;
    assignment.rank = rank;
    assignment.node = on;
    assignment.gpus = {0};
    assignment.gpu_uuids = {GpuUuid{gpu}};
    assignment.env["VIRTUAL_ENV"] = job.venv;
    return assignment;
  }
  void AddNode() {
    second = node;
    second.node.value = "gh02";
    second.gpus = {Gpu("GPU-2")};
    plan.assignments.push_back(Rank(1, second.node, "GPU-2"));
    plan.world_size = 2;
  }
  // A DeepSpeed job that builds cpu_adam.
  void OffloadOptimizer() {
    plan.strategy = Strategy::kZero2;
    plan.offload = Offload::kOptimizer;
  }
  void SetVariable(const std::string& name, const std::string& value) {
    for (RankAssignment& rank : plan.assignments) rank.env[name] = value;
  }
  TorchFacts& torch() { return *node.interpreters[0].torch; }
  PreflightReport Judge() const {
    std::vector<const NodeInventory*> nodes = {&node};
    if (!second.node.value.empty()) nodes.push_back(&second);
    return JudgeInventories(job, plan, nodes);
  }
  AllocationSpec Allocation() const {
    AllocationSpec spec;
    spec.node = node.node;
    spec.workdir = "/proj";
    spec.interpreter = Interpreter();
    spec.needs_torch_cuda = true;
    return spec;
  }
};

inline std::vector<std::string> Codes(const PreflightReport& report) {
  std::vector<std::string> codes;
  for (const Finding& finding : report.findings) codes.push_back(finding.code);
  return codes;
}

inline const Finding* Find(const PreflightReport& report, const std::string& code) {
  for (const Finding& finding : report.findings) {
    if (finding.code == code) return &finding;
  }
  return nullptr;
}

// "pass", "warn", "fail"; empty when no such line was written.
inline std::string ResultOf(const PreflightReport& report, const std::string& check) {
  for (const Check& line : report.checks) {
    if (line.check == check) return std::string(ToString(line.result));
  }
  return "";
}

}  // namespace launch
