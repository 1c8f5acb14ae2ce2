#include "cli/calibration_file.h"

#include "common/quoted.h"
#include "common/units.h"
#include "common/yaml_reader.h"

namespace launch {
namespace {

constexpr double kMaxSeconds = 1e10;
constexpr int kMaxRanks = 65'536;
constexpr double kMaxGib = 1e6;

Result<std::optional<double>> Seconds(const YamlMap& map, std::string_view key) {
  LAUNCH_ASSIGN_OR_RETURN(const auto value, map.Double(key));
  if (value && !(*value > 0 && *value < kMaxSeconds))
    return map.Bad(*map.Get(key), key, std::string(key) + " is not a number of seconds above 0");
  return value;
}

// What other jobs' runs must share with it, and its memory.
Result<void> ReadKey(const YamlMap& map, MeasuredRun& run) {
  LAUNCH_ASSIGN_OR_RETURN(run.micro, map.Int("micro"));
  if (run.micro && *run.micro < 1) return map.Bad(*map.Get("micro"), "micro", "micro is below 1");
  LAUNCH_ASSIGN_OR_RETURN(run.peak_gib, map.Double("peak_gib"));
  if (run.peak_gib && !(*run.peak_gib > 0 && *run.peak_gib < kMaxGib))
    return map.Bad(*map.Get("peak_gib"), "peak_gib", "peak_gib is not a number of GiB above 0");
  LAUNCH_ASSIGN_OR_RETURN(const auto architecture, map.String("architecture"));
  LAUNCH_ASSIGN_OR_RETURN(const auto framework, map.String("framework"));
  LAUNCH_ASSIGN_OR_RETURN(const auto strategy, map.String("strategy"));
  run.architecture = architecture.value_or("");
  run.framework = framework.value_or("");
  run.strategy = strategy.value_or("");
  return {};
}

Result<MeasuredRun> ReadRun(const YamlNode& node, const std::string& file, std::size_t position) {
  const YamlMap map(node, file, "[" + std::to_string(position) + "]");
  LAUNCH_RETURN_IF_ERROR(
      map.AllowOnly({"job", "device", "ranks", "global_batch", "step_seconds", "seconds", "micro",
                     "peak_gib", "architecture", "framework", "strategy", "cold_step_seconds"}));
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
  LAUNCH_ASSIGN_OR_RETURN(run.cold_step_seconds, Seconds(map, "cold_step_seconds"));
  LAUNCH_RETURN_IF_ERROR(ReadKey(map, run));
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
    if (run.micro) text += "  micro: " + std::to_string(*run.micro) + "\n";
    if (run.peak_gib) text += "  peak_gib: " + FormatNumber(*run.peak_gib, "%.6g") + "\n";
    if (!run.architecture.empty()) text += "  architecture: " + Quoted(run.architecture) + "\n";
    if (!run.framework.empty()) text += "  framework: " + Quoted(run.framework) + "\n";
    if (!run.strategy.empty()) text += "  strategy: " + Quoted(run.strategy) + "\n";
    if (run.cold_step_seconds)
      text += "  cold_step_seconds: " + FormatNumber(*run.cold_step_seconds, "%.6g") + "\n";
  }
  return text.empty() ? "[]\n" : text;
}

Result<std::vector<MeasuredRun>> HistoryOf(Client& client, const std::string& name) {
  JobsCall call;
  call.include_done = true;
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobView> jobs, client.Jobs(call));
  std::vector<MeasuredRun> runs;
  for (const JobView& job : jobs) {
    if (job.measured && (name.empty() || job.name == name)) runs.push_back(*job.measured);
  }
  constexpr std::size_t kNewest = 1000;
  if (runs.size() > kNewest)
    runs.erase(runs.begin(), runs.end() - static_cast<std::ptrdiff_t>(kNewest));
  return runs;
}

}  // namespace launch
