#include "cli/up/ssh_config.h"

#include <algorithm>
#include <utility>

#include "cli/daemon.h"
#include "common/quoted.h"
#include "common/text.h"
#include "common/units.h"

namespace launch::up {
namespace {

constexpr Millis kAnswers(10'000);
constexpr int kNotFound = 127;  // of the shell

std::string FirstWord(std::string_view text) { return std::string(text.substr(0, text.find(' '))); }

std::vector<std::string> HopsOf(std::string_view text) {
  std::vector<std::string> hops;
  for (const std::string_view hop : Split(text, ','))
    if (!hop.empty()) hops.emplace_back(hop);
  return hops;
}

void Take(std::string_view keyword, std::string_view value, SshSettings& into) {
  if (keyword == "hostname") into.host_name = value;
  if (keyword == "user") into.user = value;
  if (keyword == "port") into.port = static_cast<int>(ParseInt(value).value_or(0));
  if (keyword == "identityfile") into.identities.emplace_back(value);
  if (keyword == "identityagent" && value != "SSH_AUTH_SOCK") into.agent = value;
  // Of several files libssh takes one: the first, which is the one that is written.
  if (keyword == "userknownhostsfile") into.known_hosts = FirstWord(value);
  if (keyword == "globalknownhostsfile") into.system_known_hosts = FirstWord(value);
  if (keyword == "proxycommand" && value != "none") into.proxy_command = value;
  if (keyword == "proxyjump" && value != "none") into.hops = HopsOf(value);
}

}  // namespace

SshSettings ReadSshSettings(std::string_view output) {
  SshSettings settings;
  for (const std::string_view one : Split(output, '\n')) {
    const std::string_view line = Trim(one);
    const std::size_t space = std::min(line.find(' '), line.size());
    Take(Lower(line.substr(0, space)), Trim(line.substr(space)), settings);
  }
  return settings;
}

Result<std::optional<SshSettings>> AskSsh(const Host& host, const std::string& config) {
  std::string command = "exec ssh -G";
  if (!config.empty()) command += " -F " + ShellQuote(config);
  if (!host.user.empty()) command += " -l " + ShellQuote(host.user);  // Match goes by them
  if (host.port != 0) command += " -p " + std::to_string(host.port);
  command += " -- " + ShellQuote(host.Address());
  LAUNCH_ASSIGN_OR_RETURN(const Finished done, RunToEnd({"/bin/sh", "-c", command}, "", kAnswers));
  if (done.code == kNotFound) return std::optional<SshSettings>();
  if (done.code == 0) return std::optional<SshSettings>(ReadSshSettings(done.output));
  return Fail(ErrorCode::kInvalidArgument,
              "ssh -G " + host.Address() + ": " + std::string(Trim(done.errors)),
              "correct " + (config.empty() ? "your ssh configuration" : config));
}

}  // namespace launch::up
