// The file that `accelerate config` writes.
#include <array>

#include "cli/import/import.h"
#include "planner/line/accelerate_settings.h"

namespace launch {
namespace {

// Placement and rendezvous: the cluster's.
constexpr std::array<std::string_view, 8> kPlacement = {
    "machine_rank", "main_process_ip", "main_process_port",      "rdzv_backend",
    "same_network", "gpu_ids",         "main_training_function", "deepspeed_hostfile"};

std::string Text(const YamlNode& root, std::string_view key) {
  const YamlNode* node = root.Find(key);
  return node != nullptr && node->kind == YamlNode::Kind::kScalar ? node->scalar : "";
}

}  // namespace

Result<Imported> ImportAccelerate(const YamlNode& root, const std::string& path) {
  if (Text(root, "compute_environment") == "AMAZON_SAGEMAKER")
    return Fail(ErrorCode::kUnimplemented, path + " is for SageMaker, which launch cannot import",
                "");
  AccelerateSettings settings;
  settings.file = path;
  for (const auto& [key, value] : root.entries) {
    if (value.kind == YamlNode::Kind::kScalar) {
      settings.values[key.scalar] = {value.scalar, key.scalar};
      continue;
    }
    for (const auto& [inner, text] : value.entries)
      if (text.kind == YamlNode::Kind::kScalar)
        settings.values[inner.scalar] = {text.scalar, inner.scalar};
  }
  LAUNCH_ASSIGN_OR_RETURN(const AccelerateShape shape, ShapeOf(settings));
  LAUNCH_ASSIGN_OR_RETURN(const AccelerateChoices choices, ChoicesOf(settings));
  JobFileDraft draft;
  draft.Set("nodes", std::to_string(shape.machines.value_or(1)));
  const std::string count = std::to_string(shape.per_machine.value_or(1));
  const bool cpu = settings.True("use_cpu") || Text(root, "distributed_type") == "MULTI_CPU";
  draft.Set("gpus", cpu ? "0" : count);
  if (cpu) {
    draft.Set("device", "cpu");
    draft.Set("procs_per_node", count);
  }
  if (choices.strategy) draft.Set("strategy", std::string(ToString(*choices.strategy)));
  if (choices.offload) draft.Set("offload", std::string(ToString(*choices.offload)));
  if (choices.precision) draft.Set("precision", std::string(ToString(*choices.precision)));
  if (choices.accumulate)
    draft.SetRaw("batch", "{accumulate: " + std::to_string(*choices.accumulate) + "}");
  if (!choices.deepspeed_file.empty())
    draft.Note("deepspeed_config_file " + choices.deepspeed_file +
               ": the training line must name it, or strategy and batch stand in the job");
  for (const std::string_view key : kPlacement)
    if (root.Find(key) != nullptr && !Text(root, key).empty())
      draft.Note(std::string(key) + " is dropped: placement is the cluster's");
  draft.Note("run: accelerate launch --config_file " + path +
             " SCRIPT reads the whole file, also what a job file has no field for");
  return std::move(draft).Finish("accelerate configuration", path);
}

}  // namespace launch
