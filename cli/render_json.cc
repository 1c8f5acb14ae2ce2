#include "cli/render_json.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/client.h"
#include "cli/contexts.h"
#include "cli/json_inventory.h"
#include "cli/log_printer.h"
#include "cli/render_top.h"
#include "common/launcher_process.h"
#include "common/version.h"

namespace launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string OneLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class T>
Json Maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json Time(WallTime time) {
  const std::string text = FormatTime(time);
  return text.empty() ? Json(nullptr) : Json(text);
}

Json Text(std::string_view text) { return std::string(text); }

Json NodeNames(const std::vector<NodeId>& nodes) {
  Json list = Json::array();
  for (const NodeId& node : nodes) list.push_back(node.value);
  return list;
}

Json Map(const std::map<std::string, std::string>& map) {
  Json object = Json::object();
  for (const auto& [name, value] : map) object[name] = value;
  return object;
}

Json OfFinding(const Finding& finding) {
  return {{"code", finding.code},
          {"severity", Text(ToString(finding.severity))},
          {"node", finding.node ? Json(finding.node->value) : Json(nullptr)},
          {"says", finding.says},
          {"evidence", finding.evidence},
          {"remedy", finding.remedy},
          {"fix", finding.fix}};
}

Json OfFindings(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) list.push_back(OfFinding(finding));
  return list;
}

Json OfVerdict(const Verdict& verdict) {
  return {{"label", verdict.label},
          {"confidence", Text(ToString(verdict.confidence))},
          {"rank", Maybe(verdict.rank)},
          {"node", verdict.node ? Json(verdict.node->value) : Json(nullptr)},
          {"evidence", verdict.evidence},
          {"cause", verdict.cause},
          {"remedy", verdict.remedy},
          {"action", verdict.action},
          {"numbers", verdict.numbers},
          {"changes", verdict.changes}};
}

Json OfBatch(const BatchSplit& batch) {
  return {{"global", Maybe(batch.global)},
          {"micro", Maybe(batch.micro)},
          {"accumulate", Maybe(batch.accumulate)}};
}

Json OfReason(const WaitReason& reason) {
  return {{"code", reason.code}, {"evidence", reason.evidence}};
}

Json OfMemory(const MemoryForecast& memory) {
  Json terms = Json::array();
  for (const PlannedTerm& term : memory.terms)
    terms.push_back({{"name", term.name}, {"phase", term.phase}, {"gib", term.gib}});
  Json interval = nullptr;
  if (memory.low_gib && memory.high_gib) interval = {*memory.low_gib, *memory.high_gib};
  return {{"terms", terms},
          {"peak_gib", Maybe(memory.peak_gib)},
          {"limit_gib", memory.limit_gib},
          {"interval", interval},
          {"basis", Text(ToString(memory.basis))},
          {"phase", memory.phase.empty() ? Json(nullptr) : Json(memory.phase)},
          {"fits", memory.fits.empty() ? Json(nullptr) : Json(memory.fits)},
          {"assumptions", memory.assumptions}};
}

Json OfDuration(const DurationForecast& duration) {
  return {{"seconds", Maybe(duration.seconds)},
          {"low", Maybe(duration.low)},
          {"high", Maybe(duration.high)},
          {"basis", Text(ToString(duration.basis))},
          {"step_seconds", Maybe(duration.step_seconds)},
          {"tokens_per_second_per_gpu", Maybe(duration.tokens_per_second_per_gpu)},
          {"samples_per_second", Maybe(duration.samples_per_second)},
          {"bound", duration.bound.empty() ? Json(nullptr) : Json(duration.bound)}};
}

Json OfFallbacks(const std::vector<Fallback>& fallbacks) {
  Json list = Json::array();
  for (const Fallback& one : fallbacks)
    list.push_back({{"strategy", Text(ToString(one.strategy))},
                    {"offload", Text(ToString(one.offload))},
                    {"checkpointing", one.checkpointing},
                    {"batch", OfBatch(one.batch)},
                    {"peak_gib", one.peak_gib},
                    {"step_seconds", Maybe(one.step_seconds)}});
  return list;
}

Json OfChanges(const std::vector<Change>& changes) {
  Json list = Json::array();
  for (const Change& one : changes)
    list.push_back({{"change", one.change},
                    {"strategy", one.strategy.empty() ? Json(nullptr) : Json(one.strategy)},
                    {"offload", Text(ToString(one.offload))},
                    {"batch", OfBatch(one.batch)},
                    {"peak_gib", Maybe(one.peak_gib)},
                    {"fits", one.fits.empty() ? Json(nullptr) : Json(one.fits)},
                    {"step_seconds", Maybe(one.step_seconds)},
                    {"duration_seconds", Maybe(one.duration_seconds)},
                    {"says", one.says}});
  return list;
}

// Keys of the plan alone; the caller adds what stands beside it.
Json OfPlan(const Plan& plan) {
  Json assignments = Json::array();
  for (const RankAssignment& one : plan.assignments) {
    Json uuids = Json::array();
    for (const GpuUuid& uuid : one.gpu_uuids) uuids.push_back(uuid.value);
    assignments.push_back({{"rank", one.rank},
                           {"local_rank", one.local_rank},
                           {"node", one.node.value},
                           {"gpus", one.gpus},
                           {"gpu_uuids", uuids},
                           {"env", Map(one.env)}});
  }
  Json files = Json::array();
  for (const GeneratedFile& file : plan.files)
    files.push_back({{"name", file.name}, {"text", file.bytes}});
  Json rejected = Json::array();
  for (const Candidate& candidate : plan.rejected)
    rejected.push_back(
        {{"strategy", candidate.strategy}, {"code", candidate.code}, {"reason", candidate.reason}});
  return {{"strategy", Text(ToString(plan.strategy))},
          {"why", plan.why},
          {"offload", Text(ToString(plan.offload))},
          {"device", Text(ToString(plan.device))},
          {"device_name", plan.device_name},
          {"device_reason", plan.device_reason},
          {"precision", Text(ToString(plan.precision))},
          {"precision_reason", plan.precision_reason},
          {"batch", OfBatch(plan.batch)},
          {"world_size", plan.world_size},
          {"processes",
           {{"total", plan.processes.total},
            {"per_node", plan.processes.per_node},
            {"cpus_per_process", plan.processes.cpus_per_process}}},
          {"start", Text(ToString(plan.start))},
          {"launcher", Text(ToString(plan.launcher))},
          {"read", plan.read},
          {"command", plan.command},
          {"workdir", plan.workdir},
          {"memory", OfMemory(plan.memory)},
          {"loader",
           {{"num_workers", plan.loader.num_workers},
            {"pin_memory", plan.loader.pin_memory},
            {"persistent_workers", plan.loader.persistent_workers}}},
          {"steps", Maybe(plan.steps)},
          {"duration", OfDuration(plan.duration)},
          {"host_memory",
           {{"gib", Maybe(plan.memory.host_gib)}, {"limit_gib", plan.memory.host_limit_gib}}},
          {"checkpointing", plan.checkpointing.empty() ? Json(nullptr) : Json(plan.checkpointing)},
          {"assignments", assignments},
          {"late", plan.late},
          {"files", files},
          {"warnings", OfFindings(plan.warnings)},
          {"rejected", rejected},
          {"fallbacks", OfFallbacks(plan.fallbacks)},
          {"changes", OfChanges(plan.changes)}};
}

Json OfMemory(const RankMemory& memory) {
  const bool said = memory.allocated.has_value();
  return {{"allocated_bytes", Maybe(memory.allocated)},
          {"reserved_bytes", Maybe(memory.reserved)},
          {"said", said ? Time(memory.said) : Json(nullptr)},
          {"process_bytes", Maybe(memory.process)},
          {"foreign_bytes", Maybe(memory.foreign)},
          {"free_bytes", Maybe(memory.free)},
          {"sampled", memory.sampled == WallTime{} ? Json(nullptr) : Time(memory.sampled)}};
}

Json OfProcess(const LauncherProcess& process) {
  return {{"rank", process.rank},
          {"local_rank", process.local_rank},
          {"pid", process.pid == 0 ? Json(nullptr) : Json(process.pid)},
          {"code", process.end ? Json(ShellCode(*process.end)) : Json(nullptr)},
          {"says", process.end ? Json(Describe(*process.end)) : Json(nullptr)},
          {"error", process.error.empty() ? Json(nullptr) : Json(process.error)}};
}

Json OfRank(const RankView& rank) {
  Json exit = nullptr;
  if (rank.exit) {
    Json processes = Json::array();
    for (const LauncherProcess& process : ProcessesIn(rank.exit->kernel_lines))
      processes.push_back(OfProcess(process));
    exit = {{"code", ShellCode(rank.exit->cause)},
            {"says", Describe(rank.exit->cause)},
            {"user_ms", rank.exit->user_ms},
            {"system_ms", rank.exit->system_ms},
            {"max_rss_bytes", rank.exit->max_rss_bytes},
            {"log_bytes", rank.exit->log_end},
            {"processes", std::move(processes)}};
  }
  return {{"rank", rank.rank},
          {"node", rank.node.value},
          {"pid", rank.pid == 0 ? Json(nullptr) : Json(rank.pid)},
          {"state", rank.state},
          {"memory", rank.memory ? OfMemory(*rank.memory) : Json(nullptr)},
          {"exit", exit}};
}

Json OfAttempt(const AttemptView& attempt) {
  Json ranks = Json::array();
  for (const RankView& rank : attempt.ranks) ranks.push_back(OfRank(rank));
  return {{"attempt", attempt.attempt.value},
          {"phase", attempt.phase},
          {"outcome", attempt.outcome},
          {"cause", attempt.cause},
          {"nodes", NodeNames(attempt.nodes)},
          {"master", attempt.master},
          {"resumed_from", attempt.resumed_from},
          {"batch", OfBatch(attempt.batch)},
          {"env", Map(attempt.env)},
          {"first_failed_rank", Maybe(attempt.first_failed_rank)},
          {"first_failed_node",
           attempt.first_failed_node ? Json(attempt.first_failed_node->value) : Json(nullptr)},
          {"change", Text(attempt.change)},
          {"verdict", attempt.verdict ? OfVerdict(*attempt.verdict) : Json(nullptr)},
          {"started", Time(attempt.started)},
          {"ended", Time(attempt.ended)},
          {"ranks", ranks}};
}

Json OfJob(const JobView& job) {
  Json attempts = Json::array();
  for (const AttemptView& attempt : job.attempts) attempts.push_back(OfAttempt(attempt));
  return {{"id", job.id.value},
          {"name", job.name},
          {"kind", job.kind},
          {"user", job.user},
          {"array", job.array ? Json(job.array->value) : Json(nullptr)},
          {"array_index", job.array ? Json(job.array_index) : Json(nullptr)},
          {"priority", job.priority},
          {"state", Text(ToString(job.state))},
          {"st", Text(StateCode(job.state))},
          {"sub_reason", job.sub_reason},
          {"reason", job.reason.code.empty() ? Json(nullptr) : OfReason(job.reason)},
          {"outcome", job.outcome},
          {"exit_code", Maybe(job.exit_code)},
          {"cancelled_by", job.cancelled_by},
          {"gpus", job.gpus},
          {"nodes", job.nodes},
          {"nodelist", NodeNames(job.nodelist)},
          {"strategy", job.strategy},
          {"step", Maybe(job.step)},
          {"steps", Maybe(job.steps)},
          {"seconds_per_step", Maybe(job.seconds_per_step)},
          {"eta_s", Maybe(job.eta_s)},
          {"submitted", Time(job.submitted)},
          {"started", Time(job.started)},
          {"ended", Time(job.ended)},
          {"held", job.held},
          {"findings", OfFindings(job.findings)},
          {"attempts", attempts},
          {"git_commit", job.git_commit},
          {"git_diff", job.git_diff},
          {"plan", job.plan ? OfPlan(*job.plan) : Json(nullptr)}};
}

Json OfGpu(const GpuDevice& gpu, const NodeView& node) {
  Json sample = nullptr;
  for (const GpuSample& one : node.samples)
    if (one.uuid == gpu.uuid)
      sample = {{"utilization", Maybe(one.utilization)},
                {"used_bytes", Maybe(one.used_bytes)},
                {"power_w", Maybe(one.power_w)},
                {"temperature_c", Maybe(one.temperature_c)},
                {"ours_bytes", Maybe(one.ours_bytes)},
                {"foreign_bytes", Maybe(one.foreign_bytes)},
                {"ecc_uncorrected", Maybe(one.ecc_uncorrected)}};
  const bool free =
      std::find(node.free_gpus.begin(), node.free_gpus.end(), gpu.uuid) != node.free_gpus.end();
  Json quarantined = nullptr;
  for (const auto& [uuid, why] : node.quarantined)
    if (uuid == gpu.uuid) quarantined = why;
  Json json = JsonOf(gpu);
  json["free"] = free;
  json["quarantined"] = quarantined;
  json["sample"] = sample;
  return json;
}

Json OfNode(const NodeView& node) {
  const NodeInventory& inventory = node.inventory;
  Json gpus = Json::array();
  bool gpu_available = false;
  bool mps = false;
  for (const GpuDevice& gpu : inventory.gpus) {
    gpus.push_back(OfGpu(gpu, node));
    gpu_available = gpu_available || gpu.health != Health::kBad;
    mps = mps || gpu.device_class == DeviceClass::kMps;
  }
  Json interpreters = Json::array();
  bool cuda = false;
  for (const RuntimeFacts& runtime : inventory.interpreters) {
    interpreters.push_back(JsonOf(runtime));
    cuda = cuda || runtime.sees_gpu.value_or(false);
    mps = mps || runtime.mps.value_or(false);
  }
  Json addresses = Json::array();
  for (const NetworkAddress& address : inventory.addresses) addresses.push_back(JsonOf(address));
  Json jobs = Json::array();
  for (const JobId& job : node.jobs) jobs.push_back(job.value);
  const bool has_gpu = !inventory.gpus.empty();
  Json json = {
      {"node", inventory.node.value},
      {"state", node.state},
      {"reason", node.reason},
      {"schedulable", node.schedulable},
      {"account", node.account ? Json(node.account->value) : Json(nullptr)},
      {"simulated", inventory.simulated},
      {"device_type", Text(ToString(has_gpu ? inventory.gpus[0].device_class : DeviceClass::kCpu))},
      {"device_name", has_gpu ? inventory.gpus[0].model : "CPU"},
      {"gpu_available", gpu_available},
      {"cuda_available", cuda},
      {"mps_available", mps},
      {"precision", NodePrecision(inventory)},
      {"health", Text(ToString(node.health.health))},
      {"health_reason", node.health.reason},
      {"gpus_free", node.free_gpus.size()},
      {"gpus_all", inventory.gpus.size()},
      {"gpus", gpus},
      {"driver", Maybe(inventory.driver)},
      {"driver_cuda",
       inventory.driver_cuda ? Json(ToString(*inventory.driver_cuda)) : Json(nullptr)},
      {"driver_problem", inventory.driver_problem},
      {"toolkit", inventory.toolkit ? Json(inventory.toolkit->nvcc) : Json(nullptr)},
      {"arch", Text(ToString(inventory.arch))},
      {"kernel", inventory.kernel},
      {"cores", inventory.cores},
      {"threads", inventory.threads},
      {"memory_bytes", inventory.memory_bytes},
      {"shm_bytes", inventory.shm_bytes},
      {"containment", Text(ToString(inventory.containment))},
      {"addresses", addresses},
      {"interpreters", interpreters},
      {"labels", Map(inventory.labels)},
      {"jobs", jobs},
      {"silent_ms", node.silent_ms},
      {"last_seen", Time(node.last_seen)}};
  json.update(JsonOfHost(inventory));
  return json;
}

Json WithVersion(const Json& body) {
  Json document = {{"version", kVersion}};
  document.update(body);
  return document;
}

Json OfAnswer(const PlanAnswer& answer) {
  Json document = answer.plan ? OfPlan(*answer.plan) : Json::object();
  document["findings"] = OfFindings(answer.findings);
  document["waits"] = answer.waits ? OfReason(*answer.waits) : Json(nullptr);
  return document;
}

// Block style throughout; texts are JSON strings, which every YAML reader takes.
void WriteYaml(const Json& json, std::size_t indent, std::string& out) {
  const std::string pad(indent, ' ');
  const auto is_block = [](const Json& j) { return j.is_structured() && !j.empty(); };
  const auto write_value = [&](const Json& value) {
    if (is_block(value)) {
      out += "\n";
      WriteYaml(value, indent + 2, out);
    } else {
      out += " " + value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
  };
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      out += pad + Json(key).dump() + ":";
      write_value(value);
    }
  } else if (json.is_array()) {
    for (const Json& value : json) {
      out += pad + "-";
      write_value(value);
    }
  } else {
    out += pad + json.dump() + "\n";
  }
}

Json OfJobs(const std::vector<JobView>& jobs) {
  Json list = Json::array();
  for (const JobView& job : jobs) list.push_back(OfJob(job));
  return list;
}

Json OfNodes(const std::vector<NodeView>& nodes) {
  Json list = Json::array();
  for (const NodeView& node : nodes) list.push_back(OfNode(node));
  return list;
}

// The names of the calibration file, but sizes of the probe in bytes.
Json OfMeasured(const MeasuredRun& run) {
  Json probe = nullptr;
  if (run.probe)
    probe = {{"micro", run.probe->micro},
             {"accumulate", run.probe->accumulate},
             {"gpu", run.probe->gpu},
             {"load_bytes", run.probe->load_bytes},
             {"peak_bytes", run.probe->peak_bytes},
             {"static_bytes", run.probe->static_bytes},
             {"step_seconds", run.probe->step_seconds},
             {"loader_seconds", run.probe->loader_seconds}};
  return {{"job", run.job},
          {"device", run.device},
          {"ranks", run.ranks},
          {"global_batch", Maybe(run.global_batch)},
          {"step_seconds", Maybe(run.step_seconds)},
          {"seconds", Maybe(run.seconds)},
          {"micro", Maybe(run.micro)},
          {"peak_gib", Maybe(run.peak_gib)},
          {"architecture", run.architecture},
          {"framework", run.framework},
          {"strategy", run.strategy},
          {"cold_step_seconds", Maybe(run.cold_step_seconds)},
          {"cold_peak_gib", Maybe(run.cold_peak_gib)},
          {"cold_fixed_gib", Maybe(run.cold_fixed_gib)},
          {"script", run.script},
          {"precision", run.precision},
          {"offload", run.offload},
          {"checkpointing", run.checkpointing},
          {"probe", probe}};
}

}  // namespace

std::string FormatTime(WallTime time) {
  const std::int64_t ms = ToMs(time);
  if (ms == 0) return {};
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(ms % 1000));
  return text;
}

std::string NodePrecision(const NodeInventory& inventory) {
  Precision precision = Precision::kFp32;
  bool first = true;
  for (const GpuDevice& gpu : inventory.gpus) {
    Precision own = Precision::kFp32;
    if (gpu.device_class == DeviceClass::kCuda)
      own = gpu.cc && gpu.cc->major >= 8 ? Precision::kBf16 : Precision::kFp16;
    if (first || own != Precision::kBf16) precision = own;
    first = false;
  }
  return std::string(ToString(precision));
}

std::string JobJson(const JobView& job) { return Dump(WithVersion(OfJob(job))); }

std::string JobsJson(const std::vector<JobView>& jobs) {
  return Dump({{"version", kVersion}, {"jobs", OfJobs(jobs)}});
}

std::string NodesJson(const std::vector<NodeView>& nodes) {
  return Dump({{"version", kVersion}, {"nodes", OfNodes(nodes)}});
}

std::string PlanJson(const PlanAnswer& answer) { return Dump(WithVersion(OfAnswer(answer))); }

std::string SubmitJson(const SubmitAnswer& answer) {
  return Dump({{"version", kVersion},
               {"id", answer.job.value},
               {"elements", answer.elements},
               {"first", answer.elements > 0 ? answer.first.value : answer.job.value},
               {"known", answer.known},
               {"state", Text(ToString(answer.state))},
               {"plan", OfAnswer(answer.answer)}});
}

std::string CheckJson(const PreflightReport& report) {
  Json checks = Json::array();
  Json passed = Json::array();
  for (const Check& one : report.checks) {
    const Json node = one.node ? Json(one.node->value) : Json(nullptr);
    checks.push_back({{"check", one.check},
                      {"node", node},
                      {"result", Text(ToString(one.result))},
                      {"says", one.says},
                      {"code", one.code.empty() ? Json(nullptr) : Json(one.code)}});
    if (one.result == CheckResult::kPass && one.code.empty())
      passed.push_back({{"check", one.check}, {"node", node}, {"says", one.says}});
  }
  return Dump({{"version", kVersion},
               {"findings", OfFindings(report.findings)},
               {"checks", checks},
               {"passed", passed}});
}

std::string CancelJson(const std::vector<CancelAnswer>& answers) {
  Json list = Json::array();
  for (const CancelAnswer& answer : answers)
    list.push_back({{"id", answer.job.value},
                    {"already_done", answer.already_done},
                    {"error", answer.error},
                    {"held", answer.held}});
  return Dump({{"version", kVersion}, {"jobs", list}});
}

std::string QuarantineJson(const std::vector<QuarantinedGpu>& gpus) {
  Json list = Json::array();
  for (const QuarantinedGpu& gpu : gpus)
    list.push_back({{"gpu", gpu.gpu.value},
                    {"node", gpu.node.value},
                    {"why", gpu.why},
                    {"attempt", gpu.key ? Json(ToString(*gpu.key)) : Json(nullptr)},
                    {"since", Time(gpu.since)}});
  return Dump({{"version", kVersion}, {"gpus", list}});
}

std::string ChangeJson(const std::vector<ChangeAnswer>& answers) {
  Json list = Json::array();
  for (const ChangeAnswer& answer : answers)
    list.push_back({{"id", answer.job.value}, {"error", answer.error}, {"says", answer.says}});
  return Dump({{"version", kVersion}, {"jobs", list}});
}

std::string ContextsJson(const std::vector<ContextRow>& contexts) {
  Json list = Json::array();
  for (const ContextRow& context : contexts)
    list.push_back({{"name", context.name},
                    {"current", context.current},
                    {"cluster", Maybe(context.cluster)},
                    {"address", Maybe(context.address)},
                    {"user", Maybe(context.user)}});
  return Dump({{"version", kVersion}, {"contexts", list}});
}

std::string DrainJson(const std::vector<std::string>& nodes, bool drained) {
  Json list = Json::array();
  for (const std::string& node : nodes) list.push_back({{"node", node}, {"drained", drained}});
  return Dump({{"version", kVersion}, {"nodes", list}});
}

std::string TokensJson(const std::vector<TokenRow>& tokens) {
  Json list = Json::array();
  for (const TokenRow& token : tokens)
    list.push_back({{"serial", token.serial}, {"says", token.says}});
  return Dump({{"version", kVersion}, {"tokens", list}});
}

std::string VersionJson() { return Dump({{"version", kVersion}, {"launch", Text(Version())}}); }

std::string EventLine(const EventView& event) {
  return OneLine({{"version", kVersion},
                  {"seq", event.seq},
                  {"at", Time(event.at)},
                  {"kind", event.kind},
                  {"subject", event.subject},
                  {"text", event.text}});
}

std::string RankLineJson(const RankLine& line) {
  return OneLine({{"version", kVersion},
                  {"time", Time(WallTime(Millis(line.wall_ms)))},
                  {"attempt", line.attempt.value},
                  {"node", Text(line.node)},
                  {"rank", line.rank},
                  {"stream", Text(line.stream)},
                  {"text", Text(line.text)}});
}

std::string TopJson(const TopFacts& facts) {
  Json gpus = Json::object();
  for (const auto& [gpu, job] : facts.gpu_users) gpus[gpu.value] = job.value;
  return Dump({{"version", kVersion},
               {"cluster", facts.cluster},
               {"nodes", OfNodes(facts.nodes)},
               {"jobs", OfJobs(facts.jobs)},
               {"gpu_jobs", gpus}});
}

std::string CalibrationJson(const std::vector<MeasuredRun>& runs) {
  Json list = Json::array();
  for (const MeasuredRun& run : runs) list.push_back(OfMeasured(run));
  return Dump({{"version", kVersion}, {"runs", list}});
}

std::string ErrorJson(const Error& error) {
  Json where = nullptr;
  if (error.where)
    where = {{"file", error.where->file},
             {"line", error.where->line},
             {"column", error.where->column},
             {"field", error.where->field}};
  return Dump({{"version", kVersion},
               {"error",
                {{"code", Text(ErrorCodeName(error.code))},
                 {"exit", ExitCodeOf(error.code)},
                 {"message", error.message},
                 {"hint", error.hint},
                 {"where", where}}}});
}

std::string YamlOfJson(const std::string& json) {
  std::string out;
  WriteYaml(Json::parse(json), 0, out);
  return out;
}

}  // namespace launch
