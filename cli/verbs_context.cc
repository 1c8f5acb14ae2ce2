// context: the clusters that this user knows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "cli/app.h"
#include "cli/contexts.h"
#include "cli/render_json.h"
#include "cli/up/cluster_file.h"
#include "cli/up/slurm.h"
#include "cli/up/this_machine.h"

namespace launch {
namespace {

// What an `up` was begun for and never answered stands there too: it can be ended.
Result<int> ListContexts(const App& app) {
  const Contexts contexts(Contexts::DefaultDir());
  const auto current = contexts.Current();
  const std::vector<std::string> names = contexts.Names();
  if (app.WantsName()) {
    for (const std::string& name : names) app.Out(name + "\n");
    return 0;
  }
  std::vector<ContextRow> rows;
  for (const std::string& name : names) {
    const auto holder = contexts.Holder(name);
    const auto address = AddressOfCredentials(contexts.Dir(name));
    rows.push_back({.name = name,
                    .known = true,
                    .current = current == name,
                    .cluster = holder ? std::optional(holder->cluster) : std::nullopt,
                    .address = address ? std::optional(*address) : std::nullopt,
                    .user = holder ? std::optional(holder->name) : std::nullopt});
  }
  for (const std::string& name : up::ClustersWithHosts(contexts))
    if (std::ranges::find(names, name) == names.end()) rows.push_back({.name = name});
  if (app.WantsJson() || app.WantsYaml()) {
    app.OutDocument(ContextsJson(rows));
    return 0;
  }
  Table table;
  table.columns = {{app.WantsCells() ? "CURRENT" : " ", false, false},
                   {"NAME", false, false},
                   {"CLUSTER", false, false},
                   {"ADDRESS", false, false},
                   {"USER", false, false}};
  for (const ContextRow& row : rows) {
    table.rows.push_back({row.current ? "*" : " ", row.name, row.cluster.value_or("-"),
                          row.known ? row.address.value_or("-") : "its controller never answered",
                          row.user.value_or("-")});
  }
  if (table.rows.empty() && !app.WantsCells())
    app.Note("no cluster is known here; `launch login` and `launch up` add one");
  else
    LAUNCH_RETURN_IF_ERROR(app.OutTable(table));
  return 0;
}

// Nodes of an allocation read their credentials from the directory that would move.
Result<void> MustHaveNoAllocations(const Contexts& contexts, const std::string& name) {
  LAUNCH_ASSIGN_OR_RETURN(const auto known, up::ReadClusterFile(contexts, name));
  const auto here = up::ThisMachine();
  for (const std::string& id : known ? known->slurm_jobs : std::vector<std::string>()) {
    LAUNCH_ASSIGN_OR_RETURN(const up::AllocationState state, up::StateOfAllocation(*here, id));
    if (!state.state.empty())
      return Fail(ErrorCode::kFailedPrecondition,
                  "Slurm's allocation " + id + " reads its credentials under that name",
                  "run this again when it is over");
  }
  return {};
}

Result<int> RenameContext(const App& app, const std::string& from, const std::string& to) {
  Contexts contexts(Contexts::DefaultDir());
  LAUNCH_RETURN_IF_ERROR(contexts.MustKnow(from));
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd turn, up::LockCluster(contexts, from));
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd other, up::LockCluster(contexts, to));
  LAUNCH_RETURN_IF_ERROR(MustHaveNoAllocations(contexts, from));
  LAUNCH_RETURN_IF_ERROR(contexts.Rename(from, to));
  app.Note(from + " is called " + to + " here from now on");
  return 0;
}

}  // namespace

void AddContextVerbs(CLI::App& parser, App& app) {
  CLI::App* context = parser.add_subcommand(
      "context", "List the clusters this machine knows; choose, rename or forget one");
  app.listing.insert(context);
  context->callback([&app] {
    if (!app.run) app.run = [&app] { return ListContexts(app); };
  });
  auto name = std::make_shared<std::string>();
  CLI::App* use = context->add_subcommand("use", "Make a cluster the current one");
  use->add_option("name", *name, "A name listed by `launch context`")->required();
  use->callback([&app, name] {
    app.run = [&app, name]() -> Result<int> {
      Contexts contexts(Contexts::DefaultDir());
      LAUNCH_RETURN_IF_ERROR(contexts.Use(*name));
      app.Note(*name + " is the current cluster");
      return 0;
    };
  });
  auto names = std::make_shared<std::pair<std::string, std::string>>();
  CLI::App* rename = context->add_subcommand("rename", "Rename a cluster on this machine");
  rename->add_option("old", names->first, "A name listed by `launch context`")->required();
  rename->add_option("new", names->second, "New name: letters, digits and -_.")->required();
  rename->callback([&app, names] {
    app.run = [&app, names] { return RenameContext(app, names->first, names->second); };
  });
  auto gone = std::make_shared<std::string>();
  CLI::App* forget =
      context->add_subcommand("forget", "Remove a cluster's credentials from this machine");
  forget->add_option("name", *gone, "A name listed by `launch context`")->required();
  forget->callback([&app, gone] {
    app.run = [&app, gone]() -> Result<int> {
      Contexts contexts(Contexts::DefaultDir());
      LAUNCH_RETURN_IF_ERROR(contexts.MustKnow(*gone));
      LAUNCH_RETURN_IF_ERROR(contexts.Forget(*gone));
      app.Note(*gone + " is forgotten here; the cluster itself goes on");
      return 0;
    };
  });
}

}  // namespace launch
