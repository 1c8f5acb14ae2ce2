// server: the store of a controller on this host, by the program that owns it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>

#include "cli/app.h"
#include "cli/daemon.h"

namespace launch {
namespace {

struct ServerOptions {
  std::string verb;
  std::string state;
  std::string file;
};

Result<int> RunServer(const ServerOptions& options) {
  LAUNCH_ASSIGN_OR_RETURN(const std::string program, ProgramBeside("launch-controller"));
  std::vector<std::string> words = {program, options.verb};
  if (!options.state.empty()) words.insert(words.end(), {"--state", options.state});
  if (!options.file.empty()) words.insert(words.end(), {"--", options.file});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return FailErrno("start " + program, errno);
}

}  // namespace

void AddServerVerbs(CLI::App& parser, App& app) {
  CLI::App* server =
      parser
          .add_subcommand("server", "Check, back up or restore the controller's store, on its host")
          ->require_subcommand(1);
  const auto add = [&](const char* verb, const char* help) {
    auto options = std::make_shared<ServerOptions>();
    options->verb = verb;
    CLI::App* one = server->add_subcommand(verb, help);
    one->add_option("--state", options->state, "State directory of the controller");
    one->add_option("file", options->file, "Backup file");
    one->callback([&app, options] { app.run = [options] { return RunServer(*options); }; });
  };
  add("check", "Verify every row and event of a store or of a backup");
  add("backup", "Copy the store, even while the controller runs");
  add("restore", "Replace the store of a stopped controller by a backup");
}

}  // namespace launch
