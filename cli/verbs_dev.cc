// dev up, status, down: the embedded cluster of this machine.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "cli/dev_cluster.h"

namespace launch {
namespace {

std::string Absolute(const std::string& path) {
  return path.empty() ? "" : std::filesystem::absolute(path).lexically_normal().string();
}

Result<int> ShowDev(const App& app, const DevStatus& status) {
  if (app.WantsJson() || app.WantsYaml()) {
    const auto pid = [](const DevProcess& process) {
      return process.pid == 0 ? nlohmann::ordered_json(nullptr)
                              : nlohmann::ordered_json(process.pid);
    };
    nlohmann::ordered_json agents = nlohmann::ordered_json::array();
    for (const DevProcess& agent : status.agents)
      agents.push_back({{"node", agent.name}, {"pid", pid(agent)}});
    const nlohmann::ordered_json document = {
        {"version", 1},
        {"state_dir", status.state_dir},
        {"controller", {{"pid", pid(status.controller)}, {"address", status.address}}},
        {"credentials", DevCluster(status.state_dir).AsCluster().credentials},
        {"agents", agents}};
    app.OutDocument(document.dump(2));
    return 0;
  }
  Table table;
  table.columns = {{"PROGRAM", false, false},
                   {"NODE", false, true},
                   {"PID", true, false},
                   {"ADDRESS", false, false}};
  const auto row = [&](const char* program, const std::string& node, const DevProcess& process,
                       const std::string& address) {
    table.rows.push_back(
        {program, node, process.pid == 0 ? "gone" : std::to_string(process.pid), address});
  };
  row("launch-controller", "-", status.controller, status.address);
  for (const DevProcess& agent : status.agents) row("launch-agent", agent.name, agent, "-");
  LAUNCH_RETURN_IF_ERROR(app.OutTable(table));
  app.Note("state: " + status.state_dir);
  return 0;
}

}  // namespace

void AddDevVerbs(CLI::App& parser, App& app) {
  CLI::App* dev =
      parser.add_subcommand("dev", "The embedded cluster of this machine")->require_subcommand(1);
  auto options = std::make_shared<DevOptions>();
  CLI::App* up = dev->add_subcommand("up", "Start it, or those of its programs that do not run");
  up->add_option("--nodes,-N", options->nodes, "Number of agents on this machine");
  up->add_option("--inventory", options->inventory,
                 "Simulate the nodes in this inventory file instead");
  up->add_option("--nvml-library", options->nvml_library, "NVML library to load");
  up->add_option("--sample-period", options->sample_period, "Time between samples of the GPUs: 1s");
  up->add_option("--proc-root", options->proc_root, "Directory to read instead of /proc");
  up->add_option("--interpreter", options->interpreters, "Python interpreter to inspect for torch")
      ->take_all();
  up->callback([&app, options] {
    app.run = [&app, options]() -> Result<int> {
      DevOptions wanted = *options;
      wanted.inventory = Absolute(wanted.inventory);
      wanted.nvml_library = Absolute(wanted.nvml_library);
      wanted.proc_root = Absolute(wanted.proc_root);
      for (std::string& path : wanted.interpreters) path = Absolute(path);
      DevCluster cluster(DevCluster::DefaultDir());
      LAUNCH_RETURN_IF_ERROR(cluster.Up(wanted, [&](const std::string& line) { app.Note(line); }));
      return ShowDev(app, cluster.Status());
    };
  });

  CLI::App* status = dev->add_subcommand("status", "Show which of its programs run");
  app.listing.insert(status);
  status->callback([&app] {
    app.run = [&app] { return ShowDev(app, DevCluster(DevCluster::DefaultDir()).Status()); };
  });

  auto force = std::make_shared<bool>(false);
  CLI::App* down = dev->add_subcommand("down", "Stop it; refuses while jobs are not done");
  down->add_flag("--force", *force, "Cancel the jobs first");
  down->callback([&app, force] {
    app.run = [&app, force]() -> Result<int> {
      DevCluster cluster(DevCluster::DefaultDir());
      LAUNCH_RETURN_IF_ERROR(
          cluster.Down(*force ? DevCluster::OnJobs::kCancel : DevCluster::OnJobs::kRefuse,
                       [&](const std::string& line) { app.Note(line); }));
      return 0;
    };
  });
}

}  // namespace launch
