// node fence, quarantine: what an operator does about nodes and GPUs that cannot prove themselves.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/app.h"
#include "cli/render_json.h"
#include "common/units.h"

namespace launch {
namespace {

struct FenceOptions {
  std::string node;
  bool power_is_off = false;
};

// Asked in full words: a fenced node that still runs means two attempts of one job at once.
Result<void> Confirm(const FenceOptions& options) {
  if (options.power_is_off) return {};
  const std::string hint = "make sure that it has no power, then repeat with --power-is-off";
  if (::isatty(STDIN_FILENO) == 0)
    return Fail(ErrorCode::kInvalidArgument, "fencing " + options.node + " needs a confirmation",
                hint);
  std::cerr << "Is the power of " << options.node << " off? Its ranks count as dead from now on, "
            << "and their jobs may start elsewhere. Type the node's name: ";
  std::string typed;
  std::getline(std::cin, typed);
  if (typed == options.node) return {};
  return Fail(ErrorCode::kInvalidArgument, options.node + " was not fenced", hint);
}

Result<int> RunFence(const App& app, const FenceOptions& options) {
  LAUNCH_RETURN_IF_ERROR(Confirm(options));
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_RETURN_IF_ERROR(client.FenceNode(NodeId{options.node}));
  app.Note(options.node + " is fenced: what it held is released; it is taken back when its agent " +
           "says hello");
  return 0;
}

Result<int> RunQuarantine(const App& app, const QuarantineCall& call) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<QuarantinedGpu> rows, client.Quarantine(call));
  if (app.WantsJson() || app.WantsYaml()) {
    app.OutDocument(QuarantineJson(rows));
    return 0;
  }
  if (app.WantsName()) {
    for (const QuarantinedGpu& row : rows) app.Out(row.gpu.value + "\n");
    return 0;
  }
  if (call.action != "list") {
    for (const QuarantinedGpu& row : rows) {
      const bool of_process = row.gpu.value == "-";
      app.Note((of_process && row.key ? ToString(*row.key) : row.gpu.value) + " on " +
               row.node.value +
               (call.action != "release" ? " is tested again; it is held for: "
                : of_process             ? " is ended: "
                                         : " is released; it was held for: ") +
               row.why);
    }
    if (call.action == "retest" && !rows.empty())
      app.Note("`launch quarantine list` shows what came of it, within a minute");
    return 0;
  }
  if (rows.empty() && !app.WantsCells()) {
    app.Note("nothing is quarantined");
    return 0;
  }
  Table table;
  table.columns = {{"GPU", false, false},
                   {"NODE", false, false},
                   {"ATTEMPT", false, false},
                   {"SINCE", false, false},
                   {"WHY", false, true}};
  const WallTime now = app.ScreenNow().now;
  for (const QuarantinedGpu& row : rows) {
    table.rows.push_back({row.gpu.value, row.node.value, row.key ? ToString(*row.key) : "-",
                          FormatDuration(now - row.since), row.why});
  }
  LAUNCH_RETURN_IF_ERROR(app.OutTable(table));
  return 0;
}

}  // namespace

void AddRepairVerbs(CLI::App& parser, App& app) {
  auto fence = std::make_shared<FenceOptions>();
  CLI::App* verb = parser.get_subcommand("node")->add_subcommand(
      "fence",
      "Declare a silent node dead (its power is off), so that its jobs may start elsewhere");
  verb->add_option("node", fence->node, "gpu07")->required();
  verb->add_flag("--power-is-off", fence->power_is_off,
                 "Confirm that the power is off, instead of at the prompt");
  verb->callback([&app, fence] { app.run = [&app, fence] { return RunFence(app, *fence); }; });

  CLI::App* quarantine =
      parser
          .add_subcommand("quarantine",
                          "GPUs not proved free, and attempts that belong to no known job")
          ->require_subcommand(1);
  const auto add = [&](const char* action, const char* help, bool needs_name) {
    auto call = std::make_shared<QuarantineCall>();
    call->action = action;
    CLI::App* one = quarantine->add_subcommand(action, help);
    CLI::Option* name =
        one->add_option("what", call->what, "UUID of a GPU, a node, or JOB.ATTEMPT");
    if (needs_name) name->required();
    if (call->action == "list") app.listing.insert(one);
    one->callback([&app, call] { app.run = [&app, call] { return RunQuarantine(app, *call); }; });
  };
  add("list", "List them: since when and why", false);
  add("retest", "Run the test again now", true);
  add("release", "Offer the GPU again, or end the attempt that belongs to no known job", true);
}

}  // namespace launch
