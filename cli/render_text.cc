#include "cli/render_text.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>

#include "cli/log_printer.h"
#include "cli/node_text.h"
#include "cli/render_forecast.h"
#include "cli/table.h"
#include "common/bounded_number.h"
#include "common/hostlist.h"
#include "common/launcher_process.h"
#include "common/plural.h"
#include "common/text.h"
#include "common/units.h"

namespace launch {
namespace {

// "0,1": as `nodes` counts them.
std::string GpuList(const RankAssignment& rank) {
  std::string gpus;
  for (const int gpu : rank.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(gpu);
  return gpus;
}

using GpuNumbers = std::map<Rank, std::string>;

GpuNumbers GpusOfRanks(const Plan& plan) {
  GpuNumbers gpus;
  for (const RankAssignment& rank : plan.assignments)
    if (!rank.gpus.empty()) gpus[rank.rank] = GpuList(rank);
  return gpus;
}

constexpr const char* kRed = "31";
constexpr const char* kYellow = "33";
constexpr const char* kGreen = "32";
constexpr const char* kBold = "1";

std::string Paint(const std::string& text, const char* code, const Screen& screen) {
  return screen.colour ? std::string("\033[") + code + "m" + text + "\033[0m" : text;
}

// Further lines of a text, which may be a node's or a program's, stand below its first one.
std::string Indented(const std::string& text, std::size_t columns) {
  std::string out;
  for (const char c : CleanText(text, false)) {
    out += c;
    if (c == '\n') out.append(columns, ' ');
  }
  return out;
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string LabelsText(const std::map<std::string, std::string>& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    text += (text.empty() ? "" : ",") + name + (value.empty() ? "" : "=" + value);
  return text;
}

std::string HostsText(const std::vector<NodeId>& nodes, const Screen& screen) {
  std::vector<std::string> names;
  names.reserve(nodes.size());
  for (const NodeId& node : nodes) names.push_back(node.value);
  return screen.expand ? Joined(names, ",") : FoldHostlist(std::move(names));
}

std::string Eta(const JobView& job) {
  if (!job.eta_s || IsTerminal(job.state)) return "-";
  return FormatDurationShort(MillisOf(*job.eta_s));
}

std::string Elapsed(const JobView& job, WallTime now) {
  if (ToMs(job.started) == 0) return FormatDuration(Millis(0));
  return FormatDuration((ToMs(job.ended) != 0 ? job.ended : now) - job.started);
}

// Slurm's last column: where it runs, or why it does not.
std::string NodelistOrReason(const JobView& job, const Screen& screen) {
  const bool waits = job.state == JobState::kPending || job.state == JobState::kRequeued;
  if (waits) {
    if (job.reason.code.empty()) return "(None)";
    return "(" + job.reason.code + (job.reason.evidence.empty() ? "" : ": " + job.reason.evidence) +
           ")";
  }
  if (job.nodelist.empty() && !job.outcome.empty()) return "(" + job.outcome + ")";
  return OrDash(HostsText(job.nodelist, screen));
}

std::string LocalTime(WallTime time) {
  if (ToMs(time) == 0) return "-";
  const std::time_t seconds = static_cast<std::time_t>(ToMs(time) / 1000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

const char* ColourOf(JobState state) {
  if (state == JobState::kSucceeded || state == JobState::kRunning) return kGreen;
  if (IsTerminal(state) && state != JobState::kCancelled) return kRed;
  return kYellow;
}

std::string TypeOf(const NodeInventory& inventory) {
  std::vector<std::string> types;
  for (const GpuDevice& gpu : inventory.gpus) {
    std::string type = gpu.type.empty() ? gpu.model : gpu.type;
    if (gpu.device_class == DeviceClass::kMps && gpu.type.empty()) type = "MPS";
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  std::string text;
  for (const std::string& type : types) text += (text.empty() ? "" : ",") + type;
  return OrDash(text);
}

std::string SmallestMemory(const NodeInventory& inventory) {
  std::uint64_t least = 0;
  for (const GpuDevice& gpu : inventory.gpus)
    least = least == 0 ? gpu.memory_bytes : std::min(least, gpu.memory_bytes);
  return least == 0 ? "-" : FormatBytes(least);
}

std::string LowestCc(const NodeInventory& inventory) {
  std::optional<ComputeCapability> least;
  for (const GpuDevice& gpu : inventory.gpus)
    if (gpu.cc && (!least || *gpu.cc < *least)) least = gpu.cc;
  return least ? ToString(*least) : "-";
}

std::string TorchOf(const NodeInventory& inventory) {
  for (const RuntimeFacts& runtime : inventory.interpreters) {
    if (!runtime.torch) continue;
    const bool blind = !runtime.torch->cuda && !runtime.torch->hip && !inventory.gpus.empty() &&
                       inventory.gpus[0].device_class == DeviceClass::kCuda;
    return blind ? "CPU-ONLY" : runtime.torch->version;
  }
  return "-";
}

std::string JobList(const std::vector<JobId>& jobs) {
  std::string text;
  for (const JobId& job : jobs) text += (text.empty() ? "" : ",") + std::to_string(job.value);
  return OrDash(text);
}

void Line(std::string& text, const std::string& label, const std::string& value) {
  if (value.empty()) return;
  text += label + std::string(label.size() < 12 ? 12 - label.size() : 1, ' ') + value + "\n";
}

std::string BatchText(const BatchSplit& batch, int world) {
  if (!batch.global && !batch.micro) return {};
  const auto number = [](const std::optional<std::int64_t>& n) {
    return n ? std::to_string(*n) : std::string("?");
  };
  std::string text = number(batch.global) + " = " + number(batch.micro) + " micro x " +
                     number(batch.accumulate) + " accumulated x " + WithPlural(world, "rank");
  // What a line that was written for one GPU means by its numbers.
  const bool each = batch.micro && batch.accumulate && *batch.accumulate > 1 && world > 1;
  if (each) text += " (" + std::to_string(*batch.micro * *batch.accumulate) + " on each)";
  return text;
}

// The planner's reason begins with the name, which programs read without it.
std::string DeviceText(const Plan& plan) {
  std::string why = plan.device_reason;
  if (const std::string name = plan.device_name + ": "; why.starts_with(name))
    why.erase(0, name.size());
  return std::string(ToString(plan.device)) +
         (plan.device_name.empty() ? "" : ", " + plan.device_name) +
         (why.empty() ? "" : " (" + why + ")");
}

std::string ProcessesText(const Plan& plan) {
  const int nodes =
      plan.processes.per_node > 0 ? plan.processes.total / plan.processes.per_node : 0;
  return std::to_string(plan.processes.total) +
         (plan.processes.total == 1 ? " process" : " processes") + " = " + std::to_string(nodes) +
         (nodes == 1 ? " node" : " nodes") + " x " + std::to_string(plan.processes.per_node);
}

// A list of addresses stands on several lines; shown, each variable has one.
std::string OneLine(const std::string& value) {
  std::string text;
  for (const char c : value) text += c == '\n' ? std::string("\\n") : std::string(1, c);
  return text;
}

}  // namespace

std::string StepText(const JobView& job) {
  if (!job.step) return "-";
  return std::to_string(*job.step) + (job.steps ? "/" + std::to_string(*job.steps) : "");
}

Table JobsTable(const std::vector<JobView>& jobs, const Screen& screen) {
  Table table;
  table.columns = {{"ID", true, false},        {"NAME", false, true},  {"USER", false, true},
                   {"ST", false, false},       {"GPUS", true, false},  {"NODES", true, false},
                   {"STRATEGY", false, false}, {"STEP", false, false}, {"ETA", false, false},
                   {"TIME", true, false}};
  if (screen.wide) {
    table.columns.push_back({"SUBMITTED", false, false});
    table.columns.push_back({"S/STEP", true, false});
    table.columns.push_back({"TRY", true, false});
  }
  table.columns.push_back({"NODELIST(REASON)", false, true});
  for (const JobView& job : jobs) {
    std::vector<std::string> row = {std::to_string(job.id.value),
                                    job.name,
                                    job.user,
                                    std::string(StateCode(job.state)),
                                    std::to_string(job.gpus),
                                    std::to_string(job.nodes),
                                    OrDash(job.strategy),
                                    StepText(job),
                                    Eta(job),
                                    Elapsed(job, screen.now)};
    if (screen.wide) {
      row.push_back(LocalTime(job.submitted));
      char text[32] = "-";
      if (job.seconds_per_step) std::snprintf(text, sizeof text, "%.3g", *job.seconds_per_step);
      row.emplace_back(text);
      row.push_back(std::to_string(job.attempts.empty() ? 0 : job.attempts.back().attempt.value));
    }
    row.push_back(NodelistOrReason(job, screen));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table NodesTable(const std::vector<NodeView>& nodes, const Screen& screen) {
  Table table;
  table.columns = {
      {"NODE", false, false},   {"STATE", false, false}, {"GPUS(FREE/ALL)", false, false},
      {"TYPE", false, true},    {"MEM", false, false},   {"CC", false, false},
      {"DRIVER", false, false}, {"CUDA", false, false},  {"TORCH", false, true},
      {"ARCH", false, false},   {"HEALTH", false, false}};
  if (screen.wide) {
    table.columns.push_back({"CORES", true, false});
    table.columns.push_back({"RAM", false, false});
    table.columns.push_back({"CONTAINMENT", false, false});
    table.columns.push_back({"ACCOUNT", false, false});
    table.columns.push_back({"ADDRESS", false, true});
    table.columns.push_back({"LABELS", false, true});
  }
  table.columns.push_back({"JOBS", false, true});
  table.columns.push_back({"REASON", false, true});
  for (const NodeView& node : nodes) {
    const NodeInventory& inventory = node.inventory;
    std::vector<std::string> row = {
        inventory.node.value,
        ShownState(node) + (inventory.simulated ? " (simulated)" : ""),
        std::to_string(node.free_gpus.size()) + "/" + std::to_string(inventory.gpus.size()),
        TypeOf(inventory),
        SmallestMemory(inventory),
        LowestCc(inventory),
        OrDash(inventory.driver.value_or("")),
        inventory.driver_cuda ? ToString(*inventory.driver_cuda) : "-",
        TorchOf(inventory),
        std::string(ToString(inventory.arch)),
        std::string(ToString(node.health.health))};
    if (screen.wide) {
      row.push_back(std::to_string(inventory.cores));
      row.push_back(FormatBytes(inventory.memory_bytes));
      row.emplace_back(ToString(inventory.containment));
      row.push_back(node.account ? node.account->value : "owner's");
      row.push_back(inventory.addresses.empty() ? "-" : inventory.addresses[0].address);
      row.push_back(OrDash(LabelsText(inventory.labels)));
    }
    row.push_back(JobList(node.jobs));
    row.push_back(node.reason.empty() ? node.health.reason : node.reason);
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string PlanSummary(const Plan& plan) {
  std::string text = std::string(ToString(plan.strategy)) + " on " +
                     std::string(ToString(plan.device)) + ", " +
                     std::string(ToString(plan.precision)) + ", " + ProcessesText(plan);
  if (const std::string batch = BatchText(plan.batch, plan.world_size); !batch.empty())
    text += ", batch " + batch;
  if (plan.memory.peak_gib)
    text += ", memory " + FormatNumber(*plan.memory.peak_gib, "%.1f GiB") + " of " +
            FormatNumber(plan.memory.limit_gib, "%.1f GiB");
  return text;
}

std::string FindingsText(const std::vector<Finding>& findings, const Screen& screen) {
  std::string text;
  for (const Finding& finding : findings) {
    const char* colour = finding.severity == Severity::kError     ? kRed
                         : finding.severity == Severity::kWarning ? kYellow
                                                                  : kBold;
    text += Paint(std::string(ToString(finding.severity)), colour, screen) + " " + finding.code;
    if (finding.node) text += " on " + finding.node->value;
    text += ": " + CleanText(finding.says, false) + "\n";
    if (!finding.evidence.empty()) text += "  seen: " + Indented(finding.evidence, 8) + "\n";
    if (!finding.remedy.empty()) text += "  remedy: " + Indented(finding.remedy, 10) + "\n";
  }
  return text;
}

std::string EventText(const EventView& event, const Screen&) {
  std::string text = LocalTime(event.at) + "  " + event.kind;
  text += std::string(event.kind.size() < 20 ? 20 - event.kind.size() : 1, ' ') + event.subject;
  // The lines behind its sentence are for `launch check JOB`.
  const bool lists = event.kind == "attempt.checked";
  return text + "  " + event.text.substr(0, lists ? event.text.find('\n') : event.text.size()) +
         "\n";
}

std::string PlanText(const PlanAnswer& answer, const Screen& screen) {
  std::string text;
  if (answer.plan) {
    const Plan& plan = *answer.plan;
    Line(text, "strategy",
         std::string(ToString(plan.strategy)) + (plan.why.empty() ? "" : " (" + plan.why + ")"));
    if (plan.offload != Offload::kNone) Line(text, "offload", std::string(ToString(plan.offload)));
    if (!plan.checkpointing.empty()) Line(text, "recompute", plan.checkpointing);
    Line(text, "device", DeviceText(plan));
    Line(text, "precision",
         std::string(ToString(plan.precision)) +
             (plan.precision_reason.empty() ? "" : " (" + plan.precision_reason + ")"));
    Line(text, "processes", ProcessesText(plan));
    Line(text, "batch", BatchText(plan.batch, plan.world_size));
    for (const std::string& sentence : plan.read) Line(text, "read", sentence);
    Line(text, "command", plan.command);
    Line(text, "workdir", plan.workdir);
    Line(text, "memory", MemoryLine(plan));
    Line(text, "loader",
         std::to_string(plan.loader.num_workers) +
             (plan.loader.num_workers == 1 ? " worker" : " workers") +
             (plan.loader.pin_memory ? ", pinned memory" : ""));
    if (plan.steps) Line(text, "steps", std::to_string(*plan.steps));
    Line(text, "duration", DurationLine(plan));
    text += ForecastText(plan, screen.width);
    Table ranks;
    ranks.columns = {{"RANK", true, false},
                     {"NODE", false, false},
                     {"LOCAL", true, false},
                     {"GPUS", false, false}};
    for (const RankAssignment& one : plan.assignments) {
      ranks.rows.push_back({std::to_string(one.rank), one.node.value,
                            std::to_string(one.local_rank), OrDash(GpuList(one))});
    }
    text += "\n" + FormatTable(ranks, screen.width);
    if (!plan.assignments.empty()) {
      text += "\nenvironment of rank 0\n";
      for (const auto& [name, value] : plan.assignments[0].env)
        text += "  " + name + "=" + OneLine(value) + "\n";
      std::string late;
      for (const std::string& name : plan.late) late += (late.empty() ? "" : " ") + name;
      if (!late.empty()) text += "  known at the start: " + late + "\n";
    }
    if (!plan.rejected.empty()) text += "\nnot chosen\n";
    for (const Candidate& candidate : plan.rejected)
      text += "  " + candidate.strategy + ": " + candidate.reason + "\n";
    if (!plan.warnings.empty()) text += "\n" + FindingsText(plan.warnings, screen);
  }
  if (!answer.findings.empty()) text += "\n" + FindingsText(answer.findings, screen);
  if (answer.waits)
    text += "\nwould wait: " + answer.waits->code +
            (answer.waits->evidence.empty() ? "" : ": " + answer.waits->evidence) + "\n";
  return text;
}

namespace {

std::string RankTable(const std::vector<RankView>& ranks, const GpuNumbers& gpus,
                      const Screen& screen) {
  Table table;
  table.columns = {{"RANK", true, false},
                   {"NODE", false, false},
                   {"PID", true, false},
                   {"STATE", false, false},
                   {"EXIT", false, true}};
  if (!gpus.empty()) table.columns.insert(table.columns.begin() + 2, {"GPUS", false, false});
  for (const RankView& rank : ranks) {
    std::vector<std::string> row = {std::to_string(rank.rank), rank.node.value,
                                    rank.pid == 0 ? "-" : std::to_string(rank.pid), rank.state,
                                    rank.exit ? Describe(rank.exit->cause) : "-"};
    const auto own = gpus.find(rank.rank);
    if (!gpus.empty()) row.insert(row.begin() + 2, own == gpus.end() ? "-" : own->second);
    table.rows.push_back(std::move(row));
  }
  return FormatTable(table, screen.width);
}

// Where ranks were launchers, a row for each process that they started; else empty.
std::string ProcessTable(const std::vector<RankView>& ranks, const Screen& screen) {
  Table table;
  table.columns = {{"PROCESS", true, false}, {"LOCAL", true, false}, {"NODE", false, false},
                   {"PID", true, false},     {"EXIT", false, true},  {"ERROR", false, true}};
  for (const RankView& rank : ranks) {
    if (!rank.exit) continue;
    for (const LauncherProcess& process : ProcessesIn(rank.exit->kernel_lines)) {
      table.rows.push_back({std::to_string(process.rank), std::to_string(process.local_rank),
                            rank.node.value, process.pid == 0 ? "-" : std::to_string(process.pid),
                            process.end ? Describe(*process.end) : "unknown",
                            process.error.empty() ? "-" : process.error});
    }
  }
  return table.rows.empty() ? "" : "processes of the launcher\n" + FormatTable(table, screen.width);
}

}  // namespace

std::string JobText(const JobView& job, const Screen& screen) {
  std::string text;
  Line(text, "job", std::to_string(job.id.value) + "  " + Paint(job.name, kBold, screen));
  std::string state = Paint(std::string(ToString(job.state)), ColourOf(job.state), screen);
  if (!job.sub_reason.empty()) state += "(" + job.sub_reason + ")";
  Line(text, "state", state);
  if (!job.reason.code.empty())
    Line(text, "waits for",
         job.reason.code + (job.reason.evidence.empty() ? "" : ": " + job.reason.evidence));
  Line(text, "outcome", job.outcome);
  if (job.exit_code) Line(text, "exit code", std::to_string(*job.exit_code));
  if (!job.cancelled_by.empty() && !job.outcome.ends_with("by " + job.cancelled_by))
    Line(text, "cancelled", "by " + job.cancelled_by);
  Line(text, "user", job.user);
  if (job.spec) Line(text, "labels", LabelsText(job.spec->labels));
  Line(text, "nodes", HostsText(job.nodelist, screen));
  if (job.plan) Line(text, "plan", PlanSummary(*job.plan));
  Line(text, "step", StepText(job));
  if (job.seconds_per_step) {
    char speed[48];
    std::snprintf(speed, sizeof speed, "%.4g s/step", *job.seconds_per_step);
    Line(text, "speed", speed);
  }
  if (Eta(job) != "-") Line(text, "eta", Eta(job));
  Line(text, "submitted", LocalTime(job.submitted));
  if (ToMs(job.started) != 0) Line(text, "started", LocalTime(job.started));
  if (ToMs(job.ended) != 0) Line(text, "ended", LocalTime(job.ended));
  Line(text, "time", Elapsed(job, screen.now));
  // While it runs it holds what it uses; afterwards that is worth a line.
  if (job.state == JobState::kStopping || IsTerminal(job.state))
    for (const std::string& held : job.held) Line(text, "still held", held);
  for (const AttemptView& attempt : job.attempts) {
    text += "\nattempt " + std::to_string(attempt.attempt.value) + ": " +
            (attempt.outcome.empty() ? attempt.phase : attempt.outcome) +
            (attempt.cause.empty() ? "" : ", " + attempt.cause) + "\n";
    Line(text, "  nodes", HostsText(attempt.nodes, screen));
    Line(text, "  master", attempt.master);
    Line(text, "  resumed", attempt.resumed_from);
    Line(text, "  changed", attempt.change);
    if (attempt.first_failed_rank)
      Line(text, "  failed",
           "rank " + std::to_string(*attempt.first_failed_rank) +
               (attempt.first_failed_node ? " on " + attempt.first_failed_node->value : ""));
    if (attempt.verdict)
      Line(text, "  verdict",
           attempt.verdict->label + " (" + std::string(ToString(attempt.verdict->confidence)) +
               "): " + attempt.verdict->cause);
    if (attempt.verdict) Line(text, "  remedy", attempt.verdict->remedy);
    if (attempt.ranks.empty()) continue;
    // The plan is that of the newest attempt.
    const bool newest = attempt.attempt == job.attempts.back().attempt;
    text += RankTable(attempt.ranks, newest && job.plan ? GpusOfRanks(*job.plan) : GpuNumbers(),
                      screen) +
            ProcessTable(attempt.ranks, screen);
  }
  if (!job.findings.empty()) text += "\n" + FindingsText(job.findings, screen);
  return text;
}

}  // namespace launch
