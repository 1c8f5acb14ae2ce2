#include "cli/history_table.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/render_text.h"
#include "cli/table.h"
#include "common/units.h"

namespace launch {
namespace {

double RunSeconds(const JobView& job) {
  if (ToMs(job.started) == 0 || job.ended <= job.started) return 0;
  return static_cast<double>(ToMs(job.ended) - ToMs(job.started)) / 1000;
}

std::string Rounded(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Exit(const JobView& job) {
  return job.exit_code ? std::to_string(*job.exit_code) : "-";
}

// Of the attempt that ended it; null: it ended well, or was cancelled.
const Verdict* VerdictOf(const JobView& job) {
  if (job.attempts.empty() || !job.attempts.back().verdict) return nullptr;
  return &*job.attempts.back().verdict;
}

std::string Outcome(const JobView& job) {
  const Verdict* verdict = VerdictOf(job);
  if (verdict == nullptr) return job.outcome.empty() ? "-" : job.outcome;
  return verdict->label + " (" + std::string(ToString(verdict->confidence)) + ")" +
         (job.outcome.empty() ? "" : ": " + job.outcome);
}

}  // namespace

std::optional<double> TrainedShare(const JobView& job) {
  const double seconds = RunSeconds(job);
  if (seconds <= 0 || !job.step || !job.seconds_per_step) return std::nullopt;
  return std::clamp(static_cast<double>(*job.step) * *job.seconds_per_step / seconds, 0.0, 1.0);
}

double GpuHours(const JobView& job) { return job.gpus * RunSeconds(job) / 3600; }

bool HasName(const JobView& job, std::string_view name) {
  if (job.name == name) return true;
  return job.array && job.name == std::string(name) + "_" + std::to_string(job.array_index);
}

Table HistoryTable(const std::vector<JobView>& jobs) {
  Table table;
  table.columns = {{"ID", true, false},    {"NAME", false, true},   {"USER", false, true},
                   {"ST", false, false},   {"EXIT", true, false},   {"GPUS", true, false},
                   {"NODES", true, false}, {"STEP", false, false},  {"S/STEP", true, false},
                   {"TIME", true, false},  {"GPU-H", true, false},  {"TRAINED", true, false},
                   {"TRY", true, false},   {"OUTCOME", false, true}};
  for (const JobView& job : jobs) {
    const auto share = TrainedShare(job);
    const auto seconds = static_cast<std::int64_t>(RunSeconds(job) * 1000);
    table.rows.push_back(
        {std::to_string(job.id.value),
         job.kind == "job" ? job.name : job.name + " (" + job.kind + ")", job.user,
         std::string(StateCode(job.state)), Exit(job), std::to_string(job.gpus),
         std::to_string(job.nodes), StepText(job),
         job.seconds_per_step ? Rounded(*job.seconds_per_step, "%.3g") : "-",
         FormatDuration(Millis(seconds)), Rounded(GpuHours(job), "%.2f"),
         share ? Rounded(*share * 100, "%.0f%%") : "-",
         std::to_string(job.attempts.empty() ? 0 : job.attempts.back().attempt.value),
         Outcome(job)});
  }
  return table;
}

std::string HistoryJson(const std::vector<JobView>& jobs) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const JobView& job : jobs) {
    const auto share = TrainedShare(job);
    Json one = {{"id", job.id.value},
                {"name", job.name},
                {"kind", job.kind},
                {"user", job.user},
                {"state", std::string(ToString(job.state))},
                {"exit_code", nullptr},
                {"gpus", job.gpus},
                {"nodes", job.nodes},
                {"step", nullptr},
                {"steps", nullptr},
                {"seconds_per_step", nullptr},
                {"seconds", RunSeconds(job)},
                {"gpu_hours", GpuHours(job)},
                {"trained_share", nullptr},
                {"outcome", job.outcome}};
    one["verdict"] = nullptr;
    if (const Verdict* verdict = VerdictOf(job))
      one["verdict"] = {{"label", verdict->label},
                        {"confidence", std::string(ToString(verdict->confidence))},
                        {"action", verdict->action}};
    if (job.exit_code) one["exit_code"] = *job.exit_code;
    if (job.step) one["step"] = *job.step;
    if (job.steps) one["steps"] = *job.steps;
    if (job.seconds_per_step) one["seconds_per_step"] = *job.seconds_per_step;
    if (share) one["trained_share"] = *share;
    list.push_back(std::move(one));
  }
  return Json({{"version", 1}, {"jobs", list}})
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace launch
