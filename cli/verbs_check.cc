// check: what is known against a job or of nodes, line by line, with what to do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/app.h"
#include "cli/job_arguments.h"
#include "cli/job_names.h"
#include "cli/network_check.h"
#include "cli/node_check.h"
#include "cli/offline_plan.h"
#include "cli/render_json.h"
#include "cli/start_check.h"
#include "common/hostlist.h"
#include "common/inventory_yaml.h"
#include "common/text.h"

namespace launch {
namespace {

struct CheckOptions {
  JobArguments job;
  std::vector<std::string> targets;  // one job file, or names of nodes
  std::string inventory;
  bool fix = false;
  bool network = false;
  bool known = false;
};

// "17", or an element of an array: "17_3".
bool NamesJob(const std::string& target) {
  const auto digits = [](std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, IsDigit);
  };
  const std::string_view all = target;
  const std::size_t line = all.find('_');
  return digits(all.substr(0, line)) &&
         (line == std::string_view::npos || digits(all.substr(line + 1)));
}

bool NamesFile(const std::string& target) {
  const bool path = target == "-" || target.find('/') != std::string::npos ||
                    target.ends_with(".yaml") || target.ends_with(".yml") ||
                    target.ends_with(".json");
  std::error_code ignored;
  return path || std::filesystem::is_regular_file(target, ignored);
}

int Show(const App& app, const CheckOptions& options, const PreflightReport& report) {
  if (options.fix) {
    app.OutBytes(FixScript(report));
  } else if (app.WantsJson() || app.WantsYaml()) {
    app.OutDocument(CheckJson(report));
  } else {
    app.Out(CheckText(report, app.ScreenNow()));
  }
  return CodeOfFindings(report.findings);
}

void NoteWaits(const App& app, const PlanAnswer& answer) {
  if (!answer.waits) return;
  app.Note("it would wait: " + answer.waits->code +
           (answer.waits->evidence.empty() ? "" : ": " + answer.waits->evidence));
}

// A file beside a node of the same name: which of the two was taken, and how to name the other.
void NoteBoth(const App& app, const std::string& file, const std::vector<NodeInventory>& nodes) {
  if (!std::ranges::any_of(nodes, [&](const auto& node) { return node.node.value == file; }))
    return;
  app.Note("`" + file +
           "` is a file here and a node: this is of the job in the file; for the "
           "node, run it in another directory");
}

// What its newest start looked at, or what it was not started for.
Result<int> CheckOfStart(const App& app, const CheckOptions& options) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(const JobId id, JobNamed(client, options.targets[0]));
  LAUNCH_ASSIGN_OR_RETURN(const JobView job, client.Job(id));
  LAUNCH_ASSIGN_OR_RETURN(PreflightReport report, ReportOfStart(client, job));
  const std::string name = "job " + std::to_string(id.value);
  if (job.attempts.empty()) {
    app.Note(name + " never started: this is what stands against it");
  } else if (report.checks.empty()) {
    app.Note("nothing is kept of what was looked at before " + name + " started");
  } else {
    app.Note("before attempt " + std::to_string(job.attempts.back().attempt.value) + " of " + name);
  }
  return Show(app, options, report);
}

Result<int> CheckJob(const App& app, const CheckOptions& options) {
  LAUNCH_ASSIGN_OR_RETURN(PreparedJob prepared, PrepareJob(app, options.job));
  if (!options.inventory.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeInventory> nodes,
                            ReadInventoryFile(options.inventory));
    NoteBoth(app, options.job.file, nodes);
    LAUNCH_ASSIGN_OR_RETURN(const PlanAnswer answer,
                            PlanOffline(prepared.job.spec, prepared.facts.context, nodes));
    NoteWaits(app, answer);
    return Show(app, options, ReportOf(answer));
  }
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kPassing));
  LAUNCH_ASSIGN_OR_RETURN(const PlanAnswer answer,
                          client.Plan({prepared.job.spec, prepared.facts.context}));
  PreflightReport report = ReportOf(answer);
  if (const auto views = client.Nodes()) {
    std::vector<NodeInventory> nodes;
    for (const NodeView& view : *views) nodes.push_back(view.inventory);
    NoteBoth(app, options.job.file, nodes);
  }
  NoteWaits(app, answer);
  if (answer.waits) {
    app.Note(
        "so its nodes were not asked: paths, commands and torch are judged by what they told "
        "before");
  } else if (!options.known && CodeOfFindings(report.findings) == 0) {
    LAUNCH_ASSIGN_OR_RETURN(report,
                            CheckAtStart(app, client, std::move(prepared), std::move(report)));
  }
  return Show(app, options, report);
}

Result<std::vector<NodeView>> NodesMeant(const App& app, const CheckOptions& options) {
  std::vector<NodeView> views;
  if (options.inventory.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kPassing));
    LAUNCH_ASSIGN_OR_RETURN(views, client.Nodes());
  } else {
    LAUNCH_ASSIGN_OR_RETURN(std::vector<NodeInventory> nodes, ReadInventoryFile(options.inventory));
    for (NodeInventory& node : nodes) views.emplace_back().inventory = std::move(node);
  }
  if (options.targets.empty()) return views;
  std::vector<std::string> names;
  for (const std::string& target : options.targets) {
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<std::string> expanded, ExpandHostlist(target));
    names.insert(names.end(), expanded.begin(), expanded.end());
  }
  std::vector<NodeView> meant;
  for (const std::string& name : names) {
    const auto found = std::find_if(views.begin(), views.end(), [&](const NodeView& view) {
      return view.inventory.node.value == name;
    });
    if (found == views.end()) {
      return Fail(ErrorCode::kNotFound, "there is no node " + name + ", and no such job file",
                  "launch nodes shows the names");
    }
    meant.push_back(*found);
  }
  return meant;
}

Result<int> CheckNodes(const App& app, const CheckOptions& options) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> views, NodesMeant(app, options));
  PreflightReport report;
  for (const NodeView& view : views) Append(report, ReportOfNode(view));
  Sort(report);
  return Show(app, options, report);
}

// Of the nodes named, of those that the job asks for, or of all that may take work.
Result<int> CheckNetwork(const App& app, const CheckOptions& options) {
  if (!options.inventory.empty())
    return Fail(ErrorCode::kInvalidArgument,
                "--network needs a running cluster, and --inventory only describes one",
                "leave one of the two out");
  App with = app;
  if (options.job.file.empty() && !app.rest) with.rest = std::vector<std::string>{"true"};
  LAUNCH_ASSIGN_OR_RETURN(PreparedJob prepared, PrepareJob(with, options.job));
  std::vector<NodeId> nodes;
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> views, NodesMeant(app, options));
  if (options.job.file.empty()) {
    for (const NodeView& view : views) {
      if (view.schedulable || !options.targets.empty()) nodes.push_back(view.inventory.node);
    }
  }
  const JobSpec& spec = prepared.job.spec;
  const bool wants_gpus =
      spec.device != DeviceChoice::kCpu &&
      (!spec.gpus_written ||
       std::ranges::any_of(spec.gpus, [](const GpuRequest& one) { return one.count > 0; }));
  std::vector<NodeView> tested;  // of a job file: any that may be chosen
  for (const NodeView& view : views) {
    const bool named = std::ranges::find(nodes, view.inventory.node) != nodes.end();
    const bool may_run = view.schedulable && wants_gpus && !view.inventory.gpus.empty();
    if (nodes.empty() ? may_run : named) tested.push_back(view);
  }
  if (options.job.file.empty() ? nodes.size() < 2 : prepared.job.spec.nodes.max < 2)
    return Fail(ErrorCode::kInvalidArgument, "a test of the network needs at least two nodes",
                "launch nodes shows which take work; launch check --network NODE NODE");
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMayStart));
  SubmitCall call;
  call.spec = AsNetworkTest(std::move(prepared.job.spec), nodes);
  call.context = prepared.facts.context;
  if (!nodes.empty()) call.context.workdir_inode = 0;
  call.secrets = prepared.facts.secrets;
  LAUNCH_ASSIGN_OR_RETURN(PreflightReport report, RunNetworkCheck(app, client, call, views));
  if (std::ranges::any_of(tested,
                          [](const NodeView& view) { return !view.inventory.gpus.empty(); })) {
    if (const auto busy = WithoutFreeGpu(tested)) {
      app.Note("NCCL is not tested: " + busy->value + " has no GPU free");
    } else {
      Append(report, RunNcclCheck(app, client, call));
    }
  }
  Sort(report);
  return Show(app, options, report);
}

Result<int> RunCheck(const App& app, CheckOptions& options) {
  const bool file = options.targets.size() == 1 && NamesFile(options.targets[0]);
  if (options.network) {
    if (file) options.job.file = std::exchange(options.targets, {})[0];
    return CheckNetwork(app, options);
  }
  const bool job = options.targets.size() == 1 && !file && NamesJob(options.targets[0]);
  if (job && options.inventory.empty()) return CheckOfStart(app, options);
  if (!file && !app.rest) return CheckNodes(app, options);
  if (file) options.job.file = options.targets[0];
  return CheckJob(app, options);
}

}  // namespace

void AddCheckVerb(CLI::App& parser, App& app) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* check =
      parser
          .add_subcommand("check",
                          "Find what would stop a job; without one, check nodes (default: all)")
          ->alias("preflight")
          ->alias("doctor");
  check->add_option(
      "target", options->targets,
      "A job file, nodes (gpu[01-04]), or a job id, to show what its latest start checked; "
      "or give a training command after --");
  options->job.AddFlags(*check);
  check->add_option("--inventory", options->inventory,
                    "Check against the nodes in this inventory file");
  check->add_flag("--fix", options->fix, "Print a script with the remedies instead");
  check->add_flag("--known", options->known,
                  "Use only what nodes have already reported; start nothing");
  check->add_flag("--network", options->network,
                  "Test the network between nodes: reachability, bandwidth and an all-reduce");
  check->callback(
      [&app, options] { app.run = [&app, options] { return RunCheck(app, *options); }; });
}

}  // namespace launch
