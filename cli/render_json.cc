#include "cli/render_json.h"

#include "cli/client.h"
#include "cli/contexts.h"
#include "cli/json_views.h"
#include "cli/log_printer.h"
#include "cli/render_top.h"
#include "common/version.h"

namespace launch {
namespace {

constexpr int kVersion = 1;

std::string Dump(const OrderedJson& json) {
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string OneLine(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson WithVersion(const OrderedJson& body) {
  OrderedJson document = {{"version", kVersion}};
  document.update(body);
  return document;
}

OrderedJson AnswerOf(const PlanAnswer& answer) {
  OrderedJson document = answer.plan ? JsonOf(*answer.plan) : OrderedJson::object();
  document["findings"] = JsonOf(answer.findings);
  document["waits"] = answer.waits ? JsonOf(*answer.waits) : OrderedJson(nullptr);
  return document;
}

// The names of the calibration file, but sizes of the probe in bytes.
OrderedJson JsonOf(const MeasuredRun& run) {
  OrderedJson probe = nullptr;
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
          {"global_batch", OrNull(run.global_batch)},
          {"step_seconds", OrNull(run.step_seconds)},
          {"seconds", OrNull(run.seconds)},
          {"micro", OrNull(run.micro)},
          {"peak_gib", OrNull(run.peak_gib)},
          {"architecture", run.architecture},
          {"framework", run.framework},
          {"strategy", run.strategy},
          {"cold_step_seconds", OrNull(run.cold_step_seconds)},
          {"cold_peak_gib", OrNull(run.cold_peak_gib)},
          {"cold_fixed_gib", OrNull(run.cold_fixed_gib)},
          {"script", run.script},
          {"precision", run.precision},
          {"offload", run.offload},
          {"checkpointing", run.checkpointing},
          {"probe", probe}};
}

template <class T>
OrderedJson ListOf(const std::vector<T>& values) {
  OrderedJson list = OrderedJson::array();
  for (const T& value : values) list.push_back(JsonOf(value));
  return list;
}

}  // namespace

std::string JobJson(const JobView& job) { return Dump(WithVersion(JsonOf(job))); }

std::string JobsJson(const std::vector<JobView>& jobs) {
  return Dump({{"version", kVersion}, {"jobs", ListOf(jobs)}});
}

std::string NodesJson(const std::vector<NodeView>& nodes) {
  return Dump({{"version", kVersion}, {"nodes", ListOf(nodes)}});
}

std::string PlanJson(const PlanAnswer& answer) { return Dump(WithVersion(AnswerOf(answer))); }

std::string SubmitJson(const SubmitAnswer& answer) {
  return Dump({{"version", kVersion},
               {"id", answer.job.value},
               {"elements", answer.elements},
               {"first", answer.elements > 0 ? answer.first.value : answer.job.value},
               {"known", answer.known},
               {"state", Word(ToString(answer.state))},
               {"plan", AnswerOf(answer.answer)}});
}

std::string CheckJson(const PreflightReport& report) {
  OrderedJson checks = OrderedJson::array();
  OrderedJson passed = OrderedJson::array();
  for (const Check& one : report.checks) {
    const OrderedJson node = one.node ? OrderedJson(one.node->value) : OrderedJson(nullptr);
    checks.push_back({{"check", one.check},
                      {"node", node},
                      {"result", Word(ToString(one.result))},
                      {"says", one.says},
                      {"code", one.code.empty() ? OrderedJson(nullptr) : OrderedJson(one.code)}});
    if (one.result == CheckResult::kPass && one.code.empty())
      passed.push_back({{"check", one.check}, {"node", node}, {"says", one.says}});
  }
  return Dump({{"version", kVersion},
               {"findings", JsonOf(report.findings)},
               {"checks", checks},
               {"passed", passed}});
}

std::string CancelJson(const std::vector<CancelAnswer>& answers) {
  OrderedJson list = OrderedJson::array();
  for (const CancelAnswer& answer : answers)
    list.push_back({{"id", answer.job.value},
                    {"already_done", answer.already_done},
                    {"error", answer.error},
                    {"held", answer.held}});
  return Dump({{"version", kVersion}, {"jobs", list}});
}

std::string QuarantineJson(const std::vector<QuarantinedGpu>& gpus) {
  OrderedJson list = OrderedJson::array();
  for (const QuarantinedGpu& gpu : gpus)
    list.push_back({{"gpu", gpu.gpu.value},
                    {"node", gpu.node.value},
                    {"why", gpu.why},
                    {"attempt", gpu.key ? OrderedJson(ToString(*gpu.key)) : OrderedJson(nullptr)},
                    {"since", TimeOrNull(gpu.since)}});
  return Dump({{"version", kVersion}, {"gpus", list}});
}

std::string ChangeJson(const std::vector<ChangeAnswer>& answers) {
  OrderedJson list = OrderedJson::array();
  for (const ChangeAnswer& answer : answers)
    list.push_back({{"id", answer.job.value}, {"error", answer.error}, {"says", answer.says}});
  return Dump({{"version", kVersion}, {"jobs", list}});
}

std::string ContextsJson(const std::vector<ContextRow>& contexts) {
  OrderedJson list = OrderedJson::array();
  for (const ContextRow& context : contexts)
    list.push_back({{"name", context.name},
                    {"current", context.current},
                    {"cluster", OrNull(context.cluster)},
                    {"address", OrNull(context.address)},
                    {"user", OrNull(context.user)}});
  return Dump({{"version", kVersion}, {"contexts", list}});
}

std::string DrainJson(const std::vector<std::string>& nodes, bool drained) {
  OrderedJson list = OrderedJson::array();
  for (const std::string& node : nodes) list.push_back({{"node", node}, {"drained", drained}});
  return Dump({{"version", kVersion}, {"nodes", list}});
}

std::string TokensJson(const std::vector<TokenRow>& tokens) {
  OrderedJson list = OrderedJson::array();
  for (const TokenRow& token : tokens)
    list.push_back({{"serial", token.serial}, {"says", token.says}});
  return Dump({{"version", kVersion}, {"tokens", list}});
}

std::string VersionJson() { return Dump({{"version", kVersion}, {"launch", Word(Version())}}); }

std::string EventLine(const EventView& event) {
  return OneLine({{"version", kVersion},
                  {"seq", event.seq},
                  {"at", TimeOrNull(event.at)},
                  {"kind", event.kind},
                  {"subject", event.subject},
                  {"text", event.text}});
}

std::string RankLineJson(const RankLine& line) {
  return OneLine({{"version", kVersion},
                  {"time", TimeOrNull(WallTime(Millis(line.wall_ms)))},
                  {"attempt", line.attempt.value},
                  {"node", Word(line.node)},
                  {"rank", line.rank},
                  {"stream", Word(line.stream)},
                  {"text", Word(line.text)}});
}

std::string TopJson(const TopFacts& facts) {
  OrderedJson gpus = OrderedJson::object();
  for (const auto& [gpu, job] : facts.gpu_users) gpus[gpu.value] = job.value;
  return Dump({{"version", kVersion},
               {"cluster", facts.cluster},
               {"nodes", ListOf(facts.nodes)},
               {"jobs", ListOf(facts.jobs)},
               {"gpu_jobs", gpus}});
}

std::string CalibrationJson(const std::vector<MeasuredRun>& runs) {
  OrderedJson list = OrderedJson::array();
  for (const MeasuredRun& run : runs) list.push_back(JsonOf(run));
  return Dump({{"version", kVersion}, {"runs", list}});
}

std::string ErrorJson(const Error& error) {
  OrderedJson where = nullptr;
  if (error.where)
    where = {{"file", error.where->file},
             {"line", error.where->line},
             {"column", error.where->column},
             {"field", error.where->field}};
  return Dump({{"version", kVersion},
               {"error",
                {{"code", Word(ErrorCodeName(error.code))},
                 {"exit", ExitCodeOf(error.code)},
                 {"message", error.message},
                 {"hint", error.hint},
                 {"where", where}}}});
}

}  // namespace launch
