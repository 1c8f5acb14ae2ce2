#include "cli/probe_run.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/debug_run.h"
#include "common/pki.h"
#include "common/units.h"
#include "planner/trainer/probe_plan.h"

namespace launch {
namespace {

constexpr std::int64_t kBlindMicro = 8;
constexpr Millis kLogLimit{60'000};
constexpr std::size_t kTailBytes = 1500;

double NumberOf(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? std::max(0.0, found->get<double>()) : 0;
}

// The whole output of a job, rank after rank.
Result<std::string> OutputOf(Client& client, JobId job) {
  LogsCall call;
  call.job = job;
  std::map<std::pair<Rank, std::string>, std::string> streams;
  LAUNCH_RETURN_IF_ERROR(client.Logs(call, kLogLimit, [&](const LogPiece& piece) {
    if (const auto* chunk = std::get_if<LogChunk>(&piece))
      streams[{chunk->rank, chunk->stream}] += chunk->data;
    return true;
  }));
  std::string text;
  for (const auto& [stream, data] : streams) text += data + "\n";
  return text;
}

std::string Tail(const std::string& text) {
  if (text.size() <= kTailBytes) return text;
  const std::size_t line = text.find('\n', text.size() - kTailBytes);
  return text.substr(line == std::string::npos ? text.size() - kTailBytes : line + 1);
}

std::string Describe(const ProbePoint& point) {
  return FormatNumber(point.peak_bytes / static_cast<double>(kGiB), "%.3g GiB") +
         (point.gpu ? " of GPU memory" : " of host memory") + ", " +
         FormatNumber(point.step_seconds, "%.3g s a step");
}

}  // namespace

std::vector<std::int64_t> ProbeMicros(const Plan& plan) {
  std::int64_t large = plan.batch.micro.value_or(2);
  const bool fits = plan.memory.peak_gib && plan.memory.fits == "yes";
  if (!fits) large = std::min(large, kBlindMicro);
  return {1, std::max<std::int64_t>(large, 2)};
}

std::optional<ProbePoint> ReadProbe(std::string_view log) {
  std::optional<ProbePoint> most;
  for (std::size_t at = log.find(kProbeMark); at != std::string_view::npos;
       at = log.find(kProbeMark, at + 1)) {
    const std::size_t begin = at + kProbeMark.size();
    const std::string_view line = log.substr(begin, log.find('\n', begin) - begin);
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || NumberOf(json, "peak_bytes") <= 0) continue;
    if (!most) most.emplace();
    most->gpu = json.contains("gpu") && json["gpu"] == true;
    most->load_bytes = std::max(most->load_bytes, NumberOf(json, "load_bytes"));
    most->peak_bytes = std::max(most->peak_bytes, NumberOf(json, "peak_bytes"));
    most->static_bytes = std::max(most->static_bytes, NumberOf(json, "static_bytes"));
    most->step_seconds = std::max(most->step_seconds, NumberOf(json, "step_seconds"));
    most->loader_seconds = std::max(most->loader_seconds, NumberOf(json, "loader_seconds"));
  }
  return most;
}

std::optional<ProbePoint> KeepDebugRun(Client& client, const JobView& done) {
  const Result<std::string> output = OutputOf(client, done.id);
  auto point = output ? ReadProbe(*output) : std::nullopt;
  if (!point || !done.plan) return std::nullopt;
  point->micro = std::max<std::int64_t>(1, done.plan->batch.micro.value_or(1));
  point->accumulate = std::max<std::int64_t>(1, done.plan->batch.accumulate.value_or(1));
  if (!client.NoteProbe(done.id, *point)) return std::nullopt;
  return point;
}

Result<void> RunProbes(const App& app, Client& client, const SubmitCall& job, const Plan& plan) {
  bool measured = false;
  for (const std::int64_t micro : ProbeMicros(plan)) {
    SubmitCall call = job;
    call.idempotency_key = RandomHex(16);
    call.spec = AsDebugRun(AsProbe(job.spec, micro, plan));
    KeepCheckpointsApart(call.spec, call.idempotency_key);
    LAUNCH_ASSIGN_OR_RETURN(const SubmitAnswer answer, client.Submit(call));
    const std::string id = std::to_string(FirstJob(answer).value);
    const std::string name = "probe of micro-batch " + std::to_string(micro) + " (job " + id + ")";
    app.Note(name + ": " + std::to_string(kProbeSteps) + " steps");
    LAUNCH_ASSIGN_OR_RETURN(const JobView view, AwaitJob(client, FirstJob(answer), std::nullopt,
                                                         [](const JobView&) {}));
    LAUNCH_ASSIGN_OR_RETURN(const std::string output, OutputOf(client, FirstJob(answer)));
    std::optional<ProbePoint> point = ReadProbe(output);
    if (!point && !measured) {
      return Fail(ErrorCode::kFailedPrecondition,
                  name + " measured nothing: " + std::string(ToString(view.state)) +
                      (view.outcome.empty() ? "" : ", " + view.outcome) + "\n" + Tail(output),
                  "a probe sees optimizers of torch that make two steps; `launch logs " + id +
                      "` has the whole output");
    }
    if (!point) {
      app.Note(name + ": " + std::string(ToString(view.state)) +
               (view.outcome.empty() ? "" : ", " + view.outcome) +
               "; measured by the smaller alone");
      continue;
    }
    point->micro = micro;
    point->accumulate = kProbeAccumulate;
    LAUNCH_RETURN_IF_ERROR(client.NoteProbe(FirstJob(answer), *point));
    app.Note(name + ": " + Describe(*point));
    measured = true;
  }
  return {};
}

}  // namespace launch
