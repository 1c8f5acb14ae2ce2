// launch-agent: reports this machine and runs ranks on it.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "agent/end_attempts.h"
#include "agent/join.h"
#include "agent/probes/nvml_child.h"
#include "agent/run_agent.h"
#include "common/agent_config.h"
#include "common/descriptor_limit.h"
#include "common/quoted.h"
#include "common/version.h"
#include "proto/protobuf_log.h"

namespace launch::agent {
namespace {

constexpr std::size_t kMaxTokenBytes = 64 * 1024;

int Complain(const Error& error) {
  std::fprintf(stderr, "launch-agent: %s\n", FormatError(error).c_str());
  return ExitCodeOf(error.code);
}

// agent.yaml and the flags of the same names, which win.
struct ConfigFlags {
  std::string file;
  std::vector<std::pair<std::string, std::string>> settings;  // in the order of AgentSettings

  void AddTo(CLI::App& verb) {
    verb.add_option("--config", file, "agent.yaml")->type_name("FILE");
    for (const AgentSetting& setting : AgentSettings()) {
      std::string flag = "--" + setting.name;
      for (char& c : flag) c = c == '_' ? '-' : c;
      if (setting.name == "state_dir") flag += ",--state";
      verb.add_option_function<std::string>(
              flag,
              [this, name = setting.name](const std::string& text) {
                settings.emplace_back(name, text);
              },
              setting.help)
          ->type_name(setting.value);
    }
  }
  Result<AgentConfig> Read() const {
    AgentConfig config;
    if (!file.empty()) {
      LAUNCH_ASSIGN_OR_RETURN(config, ReadAgentConfig(file));
    }
    LAUNCH_ASSIGN_OR_RETURN(config, WithFlags(std::move(config), settings));
    // Ranks and shims have other working directories, and /proc names what a process holds open by
    // its real path.
    for (std::string* path : {&config.state_dir, &config.lock_dir}) {
      std::error_code error;
      const auto whole = std::filesystem::absolute(*path).lexically_normal();
      const auto real = std::filesystem::weakly_canonical(whole, error);
      *path = (error ? whole : real).string();
    }
    return config;
  }
};

int Run(const ConfigFlags& flags) {
  const auto config = flags.Read();
  if (!config) return Complain(config.error());
  RaiseDescriptorLimit();  // not for the ranks, whose limits the shim sets
  return Complain(RunAgent(*config));
}

int Join(const ConfigFlags& flags, bool rejoin) {
  const auto config = flags.Read();
  if (!config) return Complain(config.error());
  std::string token(kMaxTokenBytes, '\0');
  token.resize(std::fread(token.data(), 1, token.size(), stdin));
  PosixFileSystem files;
  const auto joined = JoinCluster(
      files,
      {.state_dir = config->state_dir, .token = token, .node = config->node, .rejoin = rejoin});
  if (!joined) return Complain(joined.error());
  std::printf("joined cluster %s as node %s; start the agent: launch-agent run --state-dir %s\n",
              joined->cluster.c_str(), joined->node.value.c_str(), config->state_dir.c_str());
  return 0;
}

int End(const ConfigFlags& flags) {
  const auto config = flags.Read();
  if (!config) return Complain(config.error());
  const auto ended = EndAttempts(*config);
  if (!ended) return Complain(ended.error());
  int code = 0;
  for (const EndedAttempt& attempt : *ended) {
    const std::string name = "attempt " + ToString(attempt.key);
    if (attempt.left.empty()) {
      std::printf("ended %s\n", name.c_str());
    } else {
      code = Complain(Error{ErrorCode::kFailedPrecondition,
                            name + " was killed, but is not gone: " + attempt.left,
                            {},
                            {}});
    }
  }
  return code;
}

int Main(int argc, char** argv) {
  // Secrets pass through this process: no core dumps, no ptrace by others of the same user.
  ::prctl(PR_SET_DUMPABLE, 0);
  CLI::App app{"Reports this machine to its cluster and runs ranks on it."};
  app.set_version_flag("--version", "launch-agent " + std::string(Version()));
  app.require_subcommand(1);
  std::string level = "info";
  app.add_option("--log-level", level)
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));

  ConfigFlags run_flags;
  CLI::App* run = app.add_subcommand("run", "Run the agent of this node");
  run_flags.AddTo(*run);

  ConfigFlags join_flags;
  bool rejoin = false;
  CLI::App* join = app.add_subcommand(
      "join", "Join a cluster; the line of `launch token create` is read from standard input");
  join_flags.AddTo(*join);
  join->add_flag("--rejoin", rejoin,
                 "Replace the certificate of a node whose name the cluster knows");

  ConfigFlags end_flags;
  CLI::App* end = app.add_subcommand(
      "end", "Kill what jobs left running here, and prove it; no agent may be running");
  end_flags.AddTo(*end);

  std::string library;
  CLI::App* child = app.add_subcommand(kNvmlChildVerb, "internal");
  child->group("");
  child->add_option("--library", library);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : ExitCodeOf(ErrorCode::kInvalidArgument);
  }
  if (*child) return RunNvmlChild(library);
  spdlog::set_default_logger(spdlog::stderr_color_mt("agent"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  spdlog::set_level(spdlog::level::from_str(level));
  spdlog::flush_on(spdlog::level::info);
  SetProtobufLog([](const std::string& line) { spdlog::warn("protobuf says={}", Quoted(line)); });
  if (*end) return End(end_flags);
  return *run ? Run(run_flags) : Join(join_flags, rejoin);
}

}  // namespace
}  // namespace launch::agent

int main(int argc, char** argv) { return launch::agent::Main(argc, argv); }
