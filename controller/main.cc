// launch-controller: makes a cluster (`init`) and runs it (`run`).
#include <poll.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <optional>
#include <vector>

#include "common/account.h"
#include "common/descriptor_limit.h"
#include "common/quoted.h"
#include "common/unique_fd.h"
#include "common/version.h"
#include "controller/controller.h"
#include "controller/services/doorkeeper.h"
#include "controller/services/listener.h"
#include "controller/store/record_codec.h"
#include "controller/store/sqlite_store.h"
#include "controller/store/store_tools.h"
#include "proto/protobuf_log.h"

namespace launch::controller {
namespace {

constexpr std::size_t kConfigMax = 256 << 10;

struct Options {
  std::string state;
  std::string cluster;
  std::string user;
  std::string listen;
  std::string config;
  std::string file;  // of a backup
};

int Failed(const Error& error) {
  std::cerr << "launch-controller: " << FormatError(error) << "\n";
  return ExitCodeOf(error.code);
}

Result<void> Init(const Options& options) {
  PosixFileSystem files;
  SystemClock clock;
  const StatePaths paths(std::filesystem::absolute(options.state).lexically_normal());
  LAUNCH_ASSIGN_OR_RETURN(
      const InitDone done,
      InitCredentials(
          files, paths,
          {options.cluster, options.user.empty() ? OwnAccount() : options.user, clock.WallNow()}));
  LAUNCH_RETURN_IF_ERROR(MakeSqliteStore(paths.dir));
  LAUNCH_ASSIGN_OR_RETURN(const auto store, OpenSqliteStore(paths.dir));
  const std::string user = options.user.empty() ? OwnAccount() : options.user;
  LAUNCH_RETURN_IF_ERROR(InitStore(*store, EncodeRecord,
                                   FirstRecords(options.cluster, user, done.operator_serial),
                                   clock.WallNow()));
  std::cout << "cluster " << options.cluster << " made in " << paths.dir << "\n"
            << "  " << user << " is its first operator; credentials: " << paths.operator_dir << "\n"
            << "  keep a copy of " << paths.secrets_key << " apart from backups of the store\n"
            << "start it:  launch-controller run --state " << paths.dir << "\n";
  return {};
}

void LogToStderr(const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("launch-controller");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

Result<ControllerConfig> ReadConfig(FileSystem& files, const Options& options) {
  ControllerConfig config;
  if (!options.config.empty()) {
    const std::string path = std::filesystem::absolute(options.config);
    LAUNCH_ASSIGN_OR_RETURN(const std::string text, files.Read(path, kConfigMax));
    LAUNCH_ASSIGN_OR_RETURN(config, ParseControllerConfig(text, options.config));
  }
  if (!options.listen.empty()) config.listen = options.listen;
  return config;
}

std::string Says(const StoreFacts& facts) {
  return "revision " + std::to_string(facts.revision) + ", " + std::to_string(facts.rows) +
         " rows, " + std::to_string(facts.events) + " events, schema " +
         std::to_string(facts.schema) + ", store " + facts.store_id;
}

Result<void> Check(const Options& options) {
  const std::string file = options.file.empty() ? StatePaths(options.state).store : options.file;
  // Whatever has the name of a store is one, perhaps of another state directory.
  const bool store = std::filesystem::path(file).filename() ==
                     std::filesystem::path(StatePaths(options.state).store).filename();
  LAUNCH_ASSIGN_OR_RETURN(const StoreFacts facts, store ? CheckStore(file) : CheckBackup(file));
  std::cout << file << " is sound: " << Says(facts) << "\n";
  return {};
}

Result<void> Backup(const Options& options) {
  LAUNCH_ASSIGN_OR_RETURN(const StoreFacts facts, BackupStore(options.state, options.file));
  std::cout << options.file << " holds " << Says(facts) << "\n"
            << "  the keys are not in it: keep copies of ca.key, ca.pem and secrets.key of "
            << options.state << " apart from it\n";
  return {};
}

template <class Name>
std::string NamesOf(const std::vector<Name>& names) {
  std::string text;
  for (const Name& name : names) text += (text.empty() ? "" : ", ") + name.value;
  return text;
}

// What of the access that was taken away since the backup a restore has kept.
void SayCarriedOver(const Restored& restored) {
  if (!restored.carried) {
    std::cout << "  what was revoked since the backup is not known: revoke it again, before the "
              << "controller is reached by others (launch token revoke --user NAME, --node NAME)\n";
    return;
  }
  const CarriedOver& carried = *restored.carried;
  if (carried == CarriedOver{}) {
    std::cout << "  nothing was revoked since the backup\n";
    return;
  }
  std::cout << "  carried over from the one that was there:\n";
  if (!carried.shut_out.empty())
    std::cout << "    users that were revoked: " << NamesOf(carried.shut_out) << "\n";
  if (!carried.no_operator.empty())
    std::cout << "    no operators any more: " << NamesOf(carried.no_operator) << "\n";
  if (carried.certificates > 0)
    std::cout << "    certificates that were revoked or replaced: " << carried.certificates << "\n";
  if (!carried.nodes.empty())
    std::cout << "    nodes with a newer certificate: " << NamesOf(carried.nodes) << "\n";
  if (carried.tokens_used + carried.tokens_revoked > 0) {
    std::cout << "    join tokens: " << carried.tokens_used << " used, " << carried.tokens_revoked
              << " revoked\n";
  }
}

Result<void> Restore(const Options& options) {
  LAUNCH_ASSIGN_OR_RETURN(const Restored restored, RestoreStore(options.file, options.state));
  std::cout << "the store of " << options.state << " is " << Says(restored.facts) << "\n";
  if (!restored.old_store.empty()) {
    std::cout << "  the one that was there: " << restored.old_store << "\n";
  }
  if (!restored.unreadable.empty()) {
    std::cout << "  its numbers of jobs could not be read, and may be given a second time: "
              << restored.unreadable << "\n";
  }
  SayCarriedOver(restored);
  std::cout
      << "  the next start is a new incarnation: jobs and attempts that began after the backup "
      << "are unknown to it; what runs of them is left alone and its GPUs are held\n";
  return {};
}

// Keys and secrets are in this memory: no core files, no debugger of the same account.
void HideMemory() {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  return;  // its leak check reads this process as a debugger would
#endif
#elif defined(__SANITIZE_ADDRESS__)
  return;
#endif
  (void)::prctl(PR_SET_DUMPABLE, 0);
}

// SIGTERM and SIGINT arrive by descriptor: blocked here, before any thread exists.
Result<UniqueFd> SignalDescriptor() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC));
  if (!fd) return FailErrno("signalfd", errno);
  return fd;
}

Result<void> Run(const Options& options) {
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd signals, SignalDescriptor());
  RaiseDescriptorLimit();  // two for a connection; each agent has two, each user one
  PosixFileSystem files;
  const StatePaths paths(std::filesystem::absolute(options.state).lexically_normal());
  LAUNCH_ASSIGN_OR_RETURN(const ControllerConfig config, ReadConfig(files, options));
  LogToStderr(config.log_level);
  auto clock = std::make_shared<SystemClock>();
  LAUNCH_ASSIGN_OR_RETURN(
      const Credentials credentials,
      LoadCredentials(files, paths, clock->WallNow(), config.certificate_lives));
  LAUNCH_ASSIGN_OR_RETURN(auto store, OpenSqliteStore(paths.dir, {config.keep_events}));

  const UniqueFd failed(::eventfd(0, EFD_CLOEXEC));
  if (!failed) return FailErrno("eventfd", errno);
  std::optional<Error> failure;
  LAUNCH_ASSIGN_OR_RETURN(const auto controller,
                          Controller::Start({credentials,
                                             std::move(store),
                                             {EncodeRecord, DecodeRecord},
                                             clock,
                                             config,
                                             paths.dir,
                                             [&](const Error& error) {
                                               failure = error;
                                               const std::uint64_t one = 1;
                                               (void)!::write(failed.get(), &one, sizeof one);
                                             },
                                             LimitsWithin(Listener::MostConnections())}));
  // For people and scripts only: on a full disk the cluster is served without them.
  for (const auto& [path, text] : {std::pair(paths.pid, std::to_string(::getpid())),
                                   std::pair(paths.address, controller->address())}) {
    if (auto written = files.WriteDurable(path, text + "\n"); !written) {
      spdlog::warn("controller.file_not_written path={} why={}", path,
                   Quoted(written.error().message));
    }
  }

  std::array<pollfd, 2> wait = {pollfd{signals.get(), POLLIN, 0}, pollfd{failed.get(), POLLIN, 0}};
  while (::poll(wait.data(), wait.size(), -1) < 0 && errno == EINTR) {
  }
  (void)::unlink(paths.address.c_str());
  spdlog::info("controller.stopping");
  controller->Stop();
  (void)::unlink(paths.pid.c_str());
  spdlog::info("controller.stopped");
  if (failure) return Unexpected(*failure);
  return {};
}

}  // namespace
}  // namespace launch::controller

int main(int argc, char** argv) {
  using namespace launch::controller;
  ::umask(077);
  HideMemory();
  launch::SetProtobufLog(
      [](const std::string& line) { spdlog::warn("protobuf says={}", launch::Quoted(line)); });
  CLI::App app("The controller of a launch cluster", "launch-controller");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(launch::Version()));
  Options options;
  auto* init = app.add_subcommand(
      "init", "Create the certificate authority, the store and the first operator");
  init->add_option("--state", options.state, "State directory, created if missing")->required();
  init->add_option("--name", options.cluster, "Name of the cluster")->default_val("launch");
  init->add_option("--user", options.user,
                   "Name of the first operator; default: this account's name");
  auto* run = app.add_subcommand("run", "Serve until SIGTERM");
  run->add_option("--state", options.state, "State directory that `init` created")->required();
  run->add_option("--listen", options.listen,
                  "Address to listen on, HOST:PORT; port 0 takes a free one");
  run->add_option("--config", options.config, "Settings file, like configs/controller.yaml");
  auto* check = app.add_subcommand("check", "Verify every row and event of a store or a backup");
  auto* state =
      check->add_option("--state", options.state, "State directory whose store.db to verify");
  check->add_option("file", options.file, "Backup to verify instead")->excludes(state);
  auto* backup = app.add_subcommand("backup", "Copy the store, even while the controller runs");
  backup->add_option("--state", options.state, "State directory")->required();
  backup->add_option("file", options.file, "File to create")->required();
  auto* restore = app.add_subcommand("restore", "Replace the store by a backup");
  restore
      ->add_option("--state", options.state, "State directory; no controller may be running on it")
      ->required();
  restore->add_option("file", options.file, "Backup file")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (init->parsed()) {
    const auto done = Init(options);
    return done ? 0 : Failed(done.error());
  }
  if (check->parsed() && options.state.empty() && options.file.empty()) {
    return Failed({launch::ErrorCode::kInvalidArgument, "check needs a store",
                   "--state DIR, or the file of a backup", std::nullopt});
  }
  const auto done = check->parsed()     ? Check(options)
                    : backup->parsed()  ? Backup(options)
                    : restore->parsed() ? Restore(options)
                                        : Run(options);
  return done ? 0 : Failed(done.error());
}
