#include "cli/app.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/contexts.h"
#include "cli/dev_cluster.h"
#include "cli/environment_variable.h"
#include "cli/log_printer.h"
#include "cli/output_form.h"
#include "cli/passing_cluster.h"
#include "cli/yaml_of_json.h"
#include "common/clock.h"
#include "common/units.h"

namespace launch {

bool App::StdoutIsTerminal() const { return isatty(STDOUT_FILENO) != 0; }

Screen App::ScreenNow() const {
  Screen screen;
  screen.wide = output == "wide" || WantsCells();
  screen.expand = expand;
  screen.now = SystemClock().WallNow();
  if (StdoutIsTerminal()) {
    winsize size{};
    screen.width =
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    screen.colour = !no_color && EnvironmentVariable("NO_COLOR").empty() &&
                    EnvironmentVariable("TERM") != "dumb";
  } else if (const auto width = ParseInt(EnvironmentVariable("COLUMNS")); width && *width > 20) {
    screen.width = static_cast<int>(std::min<std::int64_t>(*width, 1000));
  }
  return screen;
}

void App::Out(const std::string& text) const { OutBytes(CleanText(text, true)); }

// Said at once: a verb that follows may go on for days. What it does goes on without its output.
void App::OutBytes(std::string_view bytes) const {
  if (output_error != 0) return;
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size();
  if (whole && std::fflush(stdout) == 0) return;
  output_error = errno;
  if (OutputFailed())
    std::fprintf(stderr, "launch: cannot write the output: %s\n", std::strerror(output_error));
}

bool App::OutputFailed() const { return output_error != 0 && output_error != EPIPE; }

int App::CodeAfterOutput(int code) const {
  return code == 0 && OutputFailed() ? ExitCodeOf(ErrorCode::kIo) : code;
}

void App::Note(const std::string& text) const {
  if (quiet) return;
  std::fprintf(stderr, "%s\n", CleanText(text, false).c_str());
}

void App::OutDocument(const std::string& json_text) const {
  OutBytes(WantsYaml() ? YamlOfJson(json_text) : json_text + "\n");
}

Result<void> App::OutTable(const Table& table) const {
  LAUNCH_ASSIGN_OR_RETURN(const Table chosen, SelectColumns(table, columns));
  if (output == "csv") {
    OutBytes(FormatCsv(chosen));
  } else {
    Out(FormatTable(chosen, ScreenNow().width));
  }
  return {};
}

Result<Client> App::Connect(Embedded embedded) const {
  Cluster cluster;
  if (!context.empty()) {
    const Contexts contexts(Contexts::DefaultDir());
    LAUNCH_RETURN_IF_ERROR(contexts.MustKnow(context));
    LAUNCH_ASSIGN_OR_RETURN(cluster, ClusterOfCredentials(contexts.Dir(context)));
    return Client::Open(cluster);
  }
  cluster.address = controller.empty() ? EnvironmentVariable("LAUNCH_CONTROLLER") : controller;
  cluster.credentials =
      credentials.empty() ? EnvironmentVariable("LAUNCH_CREDENTIALS") : credentials;
  if (!cluster.address.empty()) {
    if (cluster.credentials.empty())
      return Fail(ErrorCode::kInvalidArgument, "--controller needs --credentials",
                  "name the directory that `launch login` wrote, or set LAUNCH_CREDENTIALS");
    return Client::Open(cluster);
  }
  if (!cluster.credentials.empty()) {  // `launch login` wrote the address beside the certificate
    LAUNCH_ASSIGN_OR_RETURN(cluster, ClusterOfCredentials(cluster.credentials));
    return Client::Open(cluster);
  }
  const Contexts contexts(Contexts::DefaultDir());
  if (const auto current = contexts.Current();
      current && EnvironmentVariable("LAUNCH_STATE_DIR").empty()) {
    LAUNCH_ASSIGN_OR_RETURN(cluster, ClusterOfCredentials(contexts.Dir(*current)));
    return Client::Open(cluster);
  }
  DevCluster dev(DevCluster::DefaultDir());
  const DevStatus status = dev.Status();
  bool whole = status.controller.pid != 0 && !status.agents.empty();
  for (const DevProcess& agent : status.agents) whole = whole && agent.pid != 0;
  if (embedded == Embedded::kMayStart && !whole) {
    Note((status.address.empty() ? "no cluster is configured: starting one on this machine in "
                                 : "the cluster of this machine has stopped or lacks a part: "
                                   "starting it again in ") +
         status.state_dir + " (`launch dev down` ends it)");
    LAUNCH_RETURN_IF_ERROR(dev.Up(DevOptions(), [&](const std::string& line) {
      if (verbose) Note(line);
    }));
  } else if (embedded == Embedded::kPassing && status.controller.pid == 0) {
    if (!passing) {
      Note(
          "no cluster runs: one of this machine is asked that ends with this command "
          "(`launch dev up` starts one that stays)");
      LAUNCH_ASSIGN_OR_RETURN(passing, PassingCluster::Start([&](const std::string& line) {
                                if (verbose) Note(line);
                              }));
    }
    return Client::Open(passing->AsCluster());
  } else if (status.address.empty()) {
    return Fail(ErrorCode::kUnavailable, "no cluster is configured and none runs on this machine",
                "`launch dev up` starts one; --controller and --credentials name another");
  }
  return Client::Open(dev.AsCluster());
}

Result<JobId> ParseJobId(const std::string& text) {
  const auto number = ParseInt(text);
  if (!number || *number < 1)
    return Fail(ErrorCode::kInvalidArgument, "`" + text + "` is not a job id",
                "`launch queue -a` lists them");
  return JobId{static_cast<std::uint64_t>(*number)};
}

}  // namespace launch
