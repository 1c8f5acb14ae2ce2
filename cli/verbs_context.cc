// context: the clusters that this user knows.
#include <CLI/CLI.hpp>

#include "cli/app.h"
#include "cli/contexts.h"

namespace launch {
namespace {

Result<int> ListContexts(const App& app) {
  const Contexts contexts(Contexts::DefaultDir());
  const auto current = contexts.Current();
  for (const std::string& name : contexts.Names()) {
    const auto address = AddressOfCredentials(contexts.Dir(name));
    if (app.WantsName()) {
      app.Out(name + "\n");
    } else {
      app.Out((current == name ? "* " : "  ") + name + "  " + (address ? *address : "-") + "\n");
    }
  }
  return 0;
}

}  // namespace

void AddContextVerbs(CLI::App& parser, App& app) {
  CLI::App* context = parser.add_subcommand(
      "context", "Clusters known here; `use` chooses one, `forget` removes one");
  context->callback([&app] {
    if (!app.run) app.run = [&app] { return ListContexts(app); };
  });
  auto name = std::make_shared<std::string>();
  CLI::App* use = context->add_subcommand("use", "Make a cluster the current one");
  use->add_option("name", *name, "Of `launch context`")->required();
  use->callback([&app, name] {
    app.run = [&app, name]() -> Result<int> {
      Contexts contexts(Contexts::DefaultDir());
      LAUNCH_RETURN_IF_ERROR(contexts.Use(*name));
      app.Note(*name + " is the current cluster");
      return 0;
    };
  });
  auto gone = std::make_shared<std::string>();
  CLI::App* forget =
      context->add_subcommand("forget", "Remove a cluster's credentials from this machine");
  forget->add_option("name", *gone, "Of `launch context`")->required();
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
