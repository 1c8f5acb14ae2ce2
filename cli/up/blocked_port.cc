#include "cli/up/blocked_port.h"

#include <algorithm>
#include <sstream>

#include "common/quoted.h"
#include "common/units.h"

namespace launch::up {
namespace {

constexpr Millis kTry(15'000);
constexpr Millis kRead(15'000);

// "open" when somebody listens; else what bash says: "try: connect: No route to host". 2: there is
// nothing to ask with. Without the user's own start files, which may print what they like.
constexpr const char* kTryPort =
    "command -v bash >/dev/null && command -v timeout >/dev/null || exit 2\n"
    "LC_ALL=C timeout 5 bash --norc --noprofile -c 'exec 3<>\"/dev/tcp/$1/$2\"' try \"$1\" \"$2\" "
    "2>&1\n"
    "case $? in 0) echo open ;; 124) echo 'connect: no answer within 5 s' ;; esac\n";
constexpr std::string_view kConnect = "connect: ";
constexpr std::string_view kUnknownName = "Name or service not known";

struct Endpoint {
  std::string host;  // without the brackets of IPv6
  std::string port;
};

Endpoint EndpointOf(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host, colon == std::string::npos ? "" : address.substr(colon + 1)};
}

// What a connection met: of other words nothing is made.
std::string WhyClosed(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line == "open") return {};
    if (line.find(kUnknownName) != std::string::npos) return std::string(kUnknownName);
    if (const std::size_t at = line.find(kConnect); at != std::string::npos)
      return line.substr(at + kConnect.size());
  }
  return {};
}

// Why nobody over there can connect to the address; empty = one can, or it cannot be told.
std::string TryPort(Remote& remote, const std::string& address) {
  const Endpoint to = EndpointOf(address);
  const auto tried = remote.Run(
      "sh -c " + ShellQuote(kTryPort) + " sh " + ShellQuote(to.host) + " " + ShellQuote(to.port),
      "", kTry);
  return tried ? WhyClosed(tried->output) : std::string();
}

std::string AgentLog(Remote& remote, const HostFacts& facts) {
  std::string command = "tail -n 100 " + ShellQuote(facts.state + "/launch-agent.log");
  if (facts.keeper == Keeper::kSystem)
    command = "journalctl -q --no-pager -o cat -n 100 -u launch-agent";
  if (facts.keeper == Keeper::kUser)
    command = "journalctl -q --no-pager -o cat -n 100 --user -u launch-agent";
  const auto read = remote.Run(command + " 2>/dev/null", "", kRead);
  return read ? read->output : std::string();
}

std::string Remedy(const std::string& why, const std::string& host, const std::string& address) {
  const Endpoint to = EndpointOf(address);
  if (why == kUnknownName)
    return "write address: of the head in the hosts file, one that " + host +
           " reaches, or correct its DNS; then run this again";
  if (why == "Connection refused")
    return "nothing listens there, or a firewall answers in its place: `launch nodes` tells "
           "whether "
           "the controller answers here; else let " +
           host + " in on TCP port " + to.port + " of " + to.host + ", and run this again";
  return "let " + host + " in on TCP port " + to.port + " of " + to.host +
         " (firewall, security group, route), and run this again; another port: controller_port in "
         "the hosts file";
}

}  // namespace

std::string LastReason(std::string_view log) {
  constexpr std::string_view kKey = " why=\"";
  // Of the agent that runs now, and of its link alone.
  if (const std::size_t start = log.rfind(" agent.start "); start != std::string_view::npos)
    log.remove_prefix(start);
  std::string reason;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    const std::size_t at = line.find(kKey);
    if (at == std::string_view::npos || line.find(" link.") > at) continue;
    const std::size_t begin = at + kKey.size();
    std::size_t end = begin;
    while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
    reason = line.substr(begin, std::min(end, line.size()) - begin);
  }
  return reason;
}

Error WhyNotHeard(Remote& remote, const HostFacts& facts, const std::string& host,
                  const std::string& address, Millis waited) {
  const std::string why = TryPort(remote, address);
  const std::string said = LastReason(AgentLog(remote, facts));
  Error error{ErrorCode::kUnavailable,
              "its agent runs and has not reported for " + FormatDurationShort(waited),
              {},
              std::nullopt};
  if (!why.empty()) {
    error.message +=
        ": from it no connection comes about to the controller at " + address + " (" + why + ")";
    error.hint = Remedy(why, host, address);
  } else {
    error.hint = "more of its words: " + facts.state +
                 "/launch-agent.log, or journalctl -u "
                 "launch-agent";
  }
  if (!said.empty()) error.message += "; it says: " + said;
  return error;
}

Error WhyNotJoined(Error error, Remote& remote, const std::string& host,
                   const std::string& address) {
  const std::string why = TryPort(remote, address);
  if (why.empty()) return error;
  error.message.resize(std::min(error.message.find('\n'), error.message.size()));  // its own hint
  error.message +=
      "; from it no connection comes about to the controller at " + address + " (" + why + ")";
  error.hint = Remedy(why, host, address);
  return error;
}

}  // namespace launch::up
