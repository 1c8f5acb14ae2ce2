#include "cli/calibration_file.h"

#include <algorithm>

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

Result<std::optional<double>> Gib(const YamlMap& map, std::string_view key) {
  LAUNCH_ASSIGN_OR_RETURN(const auto value, map.Double(key));
  if (value && !(*value > 0 && *value < kMaxGib))
    return map.Bad(*map.Get(key), key, std::string(key) + " is not a number of GiB above 0");
  return value;
}

// What other jobs' runs must share with it, and its memory.
Result<void> ReadKey(const YamlMap& map, MeasuredRun& run) {
  LAUNCH_ASSIGN_OR_RETURN(run.micro, map.Int("micro"));
  if (run.micro && *run.micro < 1) return map.Bad(*map.Get("micro"), "micro", "micro is below 1");
  for (const auto& [key, to] :
       {std::pair("peak_gib", &run.peak_gib), std::pair("cold_peak_gib", &run.cold_peak_gib),
        std::pair("cold_fixed_gib", &run.cold_fixed_gib)}) {
    LAUNCH_ASSIGN_OR_RETURN(*to, Gib(map, key));
  }
  for (const auto& [key, to] :
       {std::pair("architecture", &run.architecture), std::pair("framework", &run.framework),
        std::pair("strategy", &run.strategy), std::pair("script", &run.script),
        std::pair("precision", &run.precision), std::pair("offload", &run.offload),
        std::pair("checkpointing", &run.checkpointing)}) {
    LAUNCH_ASSIGN_OR_RETURN(const auto word, map.String(key));
    *to = word.value_or("");
  }
  return {};
}

Result<void> ReadProbePoint(const YamlMap& map, MeasuredRun& run) {
  constexpr double kZeroToo = 0;
  const YamlNode* node = map.Get("probe");
  if (node == nullptr) return {};
  const YamlMap probe(*node, map.file(), map.path() + ".probe");
  LAUNCH_RETURN_IF_ERROR(probe.AllowOnly({"micro", "accumulate", "gpu", "load_gib", "peak_gib",
                                          "static_gib", "step_seconds", "loader_seconds"}));
  ProbePoint& point = run.probe.emplace();
  for (const auto& [key, to] :
       {std::pair("micro", &point.micro), std::pair("accumulate", &point.accumulate)}) {
    LAUNCH_ASSIGN_OR_RETURN(const auto number, probe.Int(key));
    if (number && *number < 1)
      return probe.Bad(*probe.Get(key), key, std::string(key) + " is below 1");
    *to = number.value_or(1);
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto gpu, probe.Bool("gpu"));
  point.gpu = gpu.value_or(false);
  for (const auto& [key, to] :
       {std::pair("load_gib", &point.load_bytes), std::pair("peak_gib", &point.peak_bytes),
        std::pair("static_gib", &point.static_bytes)}) {
    LAUNCH_ASSIGN_OR_RETURN(const auto gib, probe.Double(key));
    if (gib && !(*gib >= kZeroToo && *gib < kMaxGib))
      return probe.Bad(*probe.Get(key), key, std::string(key) + " is not a number of GiB");
    *to = gib.value_or(0) * kGiBytes;
  }
  if (!(point.peak_bytes > 0))
    return probe.Bad(*node, "peak_gib", "peak_gib is missing", "write what its steps took");
  for (const auto& [key, to] : {std::pair("step_seconds", &point.step_seconds),
                                std::pair("loader_seconds", &point.loader_seconds)}) {
    LAUNCH_ASSIGN_OR_RETURN(const auto seconds, probe.Double(key));
    *to = std::max(0.0, seconds.value_or(0));
  }
  return {};
}

Result<MeasuredRun> ReadRun(const YamlNode& node, const std::string& file, std::size_t position) {
  const YamlMap map(node, file, "[" + std::to_string(position) + "]");
  LAUNCH_RETURN_IF_ERROR(map.AllowOnly(
      {"job", "device", "ranks", "global_batch", "step_seconds", "seconds", "micro", "peak_gib",
       "architecture", "framework", "strategy", "cold_step_seconds", "cold_peak_gib",
       "cold_fixed_gib", "script", "precision", "offload", "checkpointing", "probe"}));
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
  LAUNCH_RETURN_IF_ERROR(ReadProbePoint(map, run));
  if (!run.step_seconds && !run.seconds && !run.peak_gib && !run.probe)
    return map.Bad(node, "step_seconds", "nothing of it was measured",
                   "write step_seconds, seconds, peak_gib or probe");
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
  const auto number = [&](const char* key, const std::optional<double>& value) {
    if (value) text += std::string("  ") + key + ": " + FormatNumber(*value, "%.6g") + "\n";
  };
  const auto count = [&](const char* key, const std::optional<std::int64_t>& value) {
    if (value) text += std::string("  ") + key + ": " + std::to_string(*value) + "\n";
  };
  const auto word = [&](const char* key, const std::string& value) {
    if (!value.empty()) text += std::string("  ") + key + ": " + Quoted(value) + "\n";
  };
  for (const MeasuredRun& run : runs) {
    text += "- job: " + Quoted(run.job) + "\n";
    word("device", run.device);
    count("ranks", run.ranks);
    count("global_batch", run.global_batch);
    number("step_seconds", run.step_seconds);
    number("seconds", run.seconds);
    count("micro", run.micro);
    number("peak_gib", run.peak_gib);
    word("architecture", run.architecture);
    word("framework", run.framework);
    word("strategy", run.strategy);
    number("cold_step_seconds", run.cold_step_seconds);
    number("cold_peak_gib", run.cold_peak_gib);
    number("cold_fixed_gib", run.cold_fixed_gib);
    word("script", run.script);
    word("precision", run.precision);
    word("offload", run.offload);
    word("checkpointing", run.checkpointing);
    if (!run.probe) continue;
    const ProbePoint& point = *run.probe;
    const auto gib = [](double bytes) { return FormatNumber(bytes / kGiBytes, "%.9g"); };
    text += "  probe: {micro: " + std::to_string(point.micro) +
            ", accumulate: " + std::to_string(point.accumulate) +
            ", gpu: " + (point.gpu ? "true" : "false") + ", load_gib: " + gib(point.load_bytes) +
            ", peak_gib: " + gib(point.peak_bytes) + ", static_gib: " + gib(point.static_bytes) +
            ", step_seconds: " + FormatNumber(point.step_seconds, "%.6g") +
            ", loader_seconds: " + FormatNumber(point.loader_seconds, "%.6g") + "}\n";
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
  constexpr std::size_t kNewest = 200;  // a file of more would be too long to be read
  if (runs.size() > kNewest)
    runs.erase(runs.begin(), runs.end() - static_cast<std::ptrdiff_t>(kNewest));
  return runs;
}

}  // namespace launch
