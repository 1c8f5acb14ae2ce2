// logs: the output of a job's ranks, merged, by rank or by node, live or afterwards.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/app.h"
#include "cli/begin_time.h"
#include "cli/job_names.h"
#include "cli/log_stream.h"
#include "common/hostlist.h"
#include "common/text.h"
#include "common/text_processes.h"
#include "common/units.h"

namespace launch {
namespace {

struct LogOptions {
  std::string job;
  bool follow = false;
  std::string ranks;
  std::string nodes;
  std::optional<std::uint32_t> attempt;
  std::optional<std::uint32_t> last;
  bool raw = false;
  bool no_prefix = false;
  bool errors = false;
  std::string since;
};

// "0,8-15" to ranks.
Result<std::vector<Rank>> ParseRanks(const std::string& text) {
  const auto bad = [&] {
    return Fail(ErrorCode::kInvalidArgument, "`" + text + "` is not a list of ranks",
                "--rank 0,8-15");
  };
  std::vector<Rank> ranks;
  for (const std::string_view word : Split(text, ',')) {
    const std::size_t dash = word.find('-');
    const auto low = ParseInt(word.substr(0, dash));
    const auto high = dash == std::string::npos ? low : ParseInt(word.substr(dash + 1));
    if (!low || !high || *low < 0 || *high < *low || *high > 1'000'000 || *high - *low > 100'000)
      return bad();
    for (auto rank = *low; rank <= *high; ++rank) ranks.push_back(static_cast<Rank>(rank));
  }
  if (ranks.empty()) return bad();
  return ranks;
}

// "10m" ago, or a time: "2026-12-01T20:00".
Result<WallTime> ParseSince(const std::string& text) {
  const WallTime now = SystemClock().WallNow();
  if (text.find('T') != std::string::npos) return ParseBegin(text, now);
  LAUNCH_ASSIGN_OR_RETURN(const Millis ago, ParseDuration(text));
  return now - ago;
}

// Ranks and nodes that the attempt does not have are refused: an empty answer would be taken for
// silence of the program. What has not started yet may still get them.
Result<void> CheckThere(Client& client, const LogsCall& call) {
  if (call.ranks.empty() && call.nodes.empty()) return {};
  LAUNCH_ASSIGN_OR_RETURN(const JobView view, client.Job(call.job));
  const AttemptView* attempt = view.attempts.empty() ? nullptr : &view.attempts.back();
  for (const AttemptView& one : view.attempts)
    if (call.attempt && one.attempt == *call.attempt) attempt = &one;
  if (attempt == nullptr || attempt->ranks.empty()) return {};
  const std::string job = "job " + std::to_string(call.job.value);
  const auto& ranks = attempt->ranks;
  for (const Rank rank : call.ranks) {
    if (std::any_of(ranks.begin(), ranks.end(), [&](const RankView& r) { return r.rank == rank; }))
      continue;
    if (const auto text = view.plan ? TextThatStarts(*view.plan, rank) : std::nullopt)
      return Fail(
          ErrorCode::kInvalidArgument,
          "process " + std::to_string(rank) + " of " + job +
              " is started by the launcher in its run, which is one text on each node: "
              "what it writes is in the log of rank " +
              std::to_string(*text),
          "launch logs " + std::to_string(call.job.value) + " --rank " + std::to_string(*text));
    return Fail(ErrorCode::kInvalidArgument,
                job + " has no rank " + std::to_string(rank) + ": it has " +
                    std::to_string(ranks.size()) + ", from 0",
                "launch status " + std::to_string(call.job.value) + " lists them");
  }
  for (const NodeId& node : call.nodes) {
    const auto& nodes = attempt->nodes;
    if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) continue;
    std::vector<std::string> names;
    for (const NodeId& one : nodes) names.push_back(one.value);
    return Fail(ErrorCode::kInvalidArgument, job + " does not run on " + node.value,
                "its nodes are " + FoldHostlist(names));
  }
  return {};
}

Result<int> RunLogs(const App& app, const LogOptions& options) {
  if (options.raw && app.WantsJson())
    return Fail(ErrorCode::kInvalidArgument, "--raw prints bytes, which JSON cannot hold",
                "leave one of the two out");
  if (options.raw && options.errors)
    return Fail(ErrorCode::kInvalidArgument, "--raw prints all bytes, and --errors selects lines",
                "leave one of the two out");
  LogsCall call;
  if (options.attempt) call.attempt = Attempt{*options.attempt};
  if (!options.ranks.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(call.ranks, ParseRanks(options.ranks));
  }
  if (!options.nodes.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> names, ExpandHostlist(options.nodes));
    for (std::string& name : names) call.nodes.push_back(NodeId{std::move(name)});
  }
  call.last_lines = options.last;
  call.follow = options.follow;
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(call.job, JobNamed(client, options.job));
  LAUNCH_RETURN_IF_ERROR(CheckThere(client, call));
  LogStyle style{options.raw, !options.no_prefix, options.errors, WallTime{}, app.WantsJson()};
  if (!options.since.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(style.since, ParseSince(options.since));
  }
  LAUNCH_RETURN_IF_ERROR(StreamLogs(app, client, call, style));
  return 0;
}

}  // namespace

void AddLogVerbs(CLI::App& parser, App& app) {
  auto options = std::make_shared<LogOptions>();
  CLI::App* logs = parser.add_subcommand("logs", "Print the output of a job's ranks");
  logs->add_option("job", options->job, "Job id")->required();
  logs->add_flag("-f,--follow", options->follow, "Follow until the job is done, across retries");
  logs->add_option("--rank,-r", options->ranks, "Only these ranks: 0,8-15");
  logs->add_option("--node", options->nodes, "Only ranks on these nodes: gpu[01-02]");
  logs->add_option("--attempt", options->attempt, "Attempt to show (default: the latest)");
  logs->add_option("--last,--tail,-n", options->last, "Only the last N lines of each rank");
  logs->add_flag("--errors", options->errors, "Only tracebacks and lines that report errors");
  logs->add_option("--since", options->since, "Only output since then: 10m, or 2026-12-01T20:00");
  logs->add_flag("--raw", options->raw,
                 "Print bytes exactly as the ranks wrote them, without a prefix");
  logs->add_flag("--no-prefix", options->no_prefix, "Print lines without the [rank] prefix");
  logs->callback([&app, options] { app.run = [&app, options] { return RunLogs(app, *options); }; });
}

}  // namespace launch
