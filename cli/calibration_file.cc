#include "cli/calibration_file.h"

#include "common/gpu_catalog.h"
#include "common/quoted.h"
#include "common/units.h"
#include "common/yaml_reader.h"

namespace launch {
namespace {

constexpr double kMaxSeconds = 1e10;
constexpr int kMaxRanks = 65'536;

Result<std::optional<double>> Seconds(const YamlMap& map, std::string_view key) {
  LAUNCH_ASSIGN_OR_RETURN(const auto value, map.Double(key));
  if (value && !(*value > 0 && *value < kMaxSeconds))
    return map.Bad(*map.Get(key), key, std::string(key) + " is not a number of seconds above 0");
  return value;
}

Result<MeasuredRun> ReadRun(const YamlNode& node, const std::string& file, std::size_t position) {
  const YamlMap map(node, file, "[" + std::to_string(position) + "]");
  LAUNCH_RETURN_IF_ERROR(
      map.AllowOnly({"job", "device", "ranks", "global_batch", "step_seconds", "seconds"}));
  MeasuredRun run;
  LAUNCH_ASSIGN_OR_RETURN(const auto job, map.String("job"));
  LAUNCH_ASSIGN_OR_RETURN(const auto device, map.String("device"));
  if (!job || job->empty())
    return map.Bad(node, "job", "job is missing", "write the name of the job");
  if (!device || device->empty())
    return map.Bad(node, "device", "device is missing", "write a class of GPU, mps or cpu");
  run.job = *job;
  run.device = *device;
  LAUNCH_ASSIGN_OR_RETURN(const auto ranks, map.Int("ranks"));
  if (ranks && (*ranks < 1 || *ranks > kMaxRanks))
    return map.Bad(*map.Get("ranks"), "ranks", "ranks is not a number of processes");
  run.ranks = static_cast<int>(ranks.value_or(1));
  LAUNCH_ASSIGN_OR_RETURN(run.global_batch, map.Int("global_batch"));
  if (run.global_batch && *run.global_batch < 1)
    return map.Bad(*map.Get("global_batch"), "global_batch", "global_batch is below 1");
  LAUNCH_ASSIGN_OR_RETURN(run.step_seconds, Seconds(map, "step_seconds"));
  LAUNCH_ASSIGN_OR_RETURN(run.seconds, Seconds(map, "seconds"));
  if (!run.step_seconds && !run.seconds)
    return map.Bad(node, "step_seconds", "its time is missing",
                   "write step_seconds, seconds or both");
  return run;
}

Result<std::vector<MeasuredRun>> ReadRuns(const YamlNode& root, const std::string& file) {
  if (root.kind != YamlNode::Kind::kList)
    return Fail(ErrorCode::kInvalidArgument, file + " is not a list of measured runs",
                "write `- job: NAME`, `device: CLASS`, `ranks: N`, `step_seconds: S`; "
                "`launch calibration` prints such a file");
  std::vector<MeasuredRun> runs;
  for (std::size_t i = 0; i < root.items.size(); ++i) {
    LAUNCH_ASSIGN_OR_RETURN(MeasuredRun run, ReadRun(root.items[i], file, i));
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace

Result<std::vector<MeasuredRun>> ParseCalibration(std::string_view text, const std::string& file) {
  LAUNCH_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, file));
  return ReadRuns(root, file);
}

Result<std::vector<MeasuredRun>> ReadCalibrationFile(const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(const YamlNode root, ReadYamlFile(path));
  return ReadRuns(root, path);
}

std::string FormatCalibration(const std::vector<MeasuredRun>& runs) {
  std::string text;
  for (const MeasuredRun& run : runs) {
    text += "- job: " + Quoted(run.job) + "\n  device: " + Quoted(run.device) +
            "\n  ranks: " + std::to_string(run.ranks) + "\n";
    if (run.global_batch) text += "  global_batch: " + std::to_string(*run.global_batch) + "\n";
    if (run.step_seconds)
      text += "  step_seconds: " + FormatNumber(*run.step_seconds, "%.6g") + "\n";
    if (run.seconds) text += "  seconds: " + FormatNumber(*run.seconds, "%.6g") + "\n";
  }
  return text.empty() ? "[]\n" : text;
}

std::optional<MeasuredRun> MeasuredBy(const JobView& job, const std::vector<NodeView>& nodes) {
  if (job.state != JobState::kSucceeded || !job.plan || job.attempts.empty()) return std::nullopt;
  if (job.spec && job.spec->debug) return std::nullopt;
  const Plan& plan = *job.plan;
  MeasuredRun run;
  run.job = job.name;
  run.device = std::string(ToString(plan.device));
  if (plan.device == DeviceClass::kCuda) {
    const RankAssignment* rank = plan.assignments.empty() ? nullptr : &plan.assignments[0];
    for (const NodeView& node : nodes) {
      if (rank == nullptr || rank->gpu_uuids.empty()) break;
      for (const GpuDevice& gpu : node.inventory.gpus) {
        if (gpu.uuid != rank->gpu_uuids[0]) continue;
        const GpuType* type = GpuCatalog::BuiltIn().TypeOf(gpu.model, gpu.memory_bytes);
        run.device = type == nullptr ? gpu.model : type->name;
      }
    }
    if (run.device == "cuda") return std::nullopt;  // the node is gone: the class is not known
  }
  run.ranks = plan.world_size;
  run.global_batch = plan.batch.global;
  run.step_seconds = job.seconds_per_step;
  const bool whole = job.attempts.size() == 1 && ToMs(job.started) > 0 && job.ended > job.started;
  if (whole) run.seconds = static_cast<double>(ToMs(job.ended) - ToMs(job.started)) / 1000;
  if (!run.step_seconds && !run.seconds) return std::nullopt;
  return run;
}

Result<std::vector<MeasuredRun>> HistoryOf(Client& client, const std::string& name) {
  JobsCall call;
  call.include_done = true;
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobView> jobs, client.Jobs(call));
  std::vector<JobId> ids;
  for (const JobView& job : jobs) {
    if (job.state == JobState::kSucceeded && (name.empty() || job.name == name))
      ids.push_back(job.id);
  }
  constexpr std::size_t kNewest = 50;
  if (ids.size() > kNewest)
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(kNewest));
  std::vector<MeasuredRun> runs;
  if (ids.empty()) return runs;
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
  for (const JobId id : ids) {
    LAUNCH_ASSIGN_OR_RETURN(const JobView job, client.Job(id));
    if (auto run = MeasuredBy(job, nodes)) runs.push_back(std::move(*run));
  }
  return runs;
}

}  // namespace launch
