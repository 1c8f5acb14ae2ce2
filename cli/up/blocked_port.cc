#include "cli/up/blocked_port.h"

#include <algorithm>

#include "common/quoted.h"
#include "common/text.h"
#include "common/units.h"

namespace launch::up {
namespace {

constexpr Millis kTry(15'000);
constexpr Millis kRead(15'000);

// Prints nothing when somebody listens, else why not, as bash has it: "connect: No route to host".
// 2: there is no bash to ask.
constexpr const char* kTryPort =
    "command -v bash >/dev/null && command -v timeout >/dev/null || exit 2\n"
    "LC_ALL=C timeout 5 bash -c 'exec 3<>\"/dev/tcp/$1/$2\"' try \"$1\" \"$2\" 2>&1\n"
    "[ $? != 124 ] || echo 'no answer within 5 s'\n";

struct Endpoint {
  std::string host;  // without the brackets of IPv6
  std::string port;
};

Endpoint Split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host, colon == std::string::npos ? "" : address.substr(colon + 1)};
}

// Why nobody over there can connect to the address; empty = one can, or it cannot be told.
std::string TryPort(Remote& remote, const std::string& address) {
  const Endpoint to = Split(address);
  const auto tried = remote.Run(
      "sh -c " + ShellQuote(kTryPort) + " sh " + ShellQuote(to.host) + " " + ShellQuote(to.port),
      "", kTry);
  if (!tried || tried->code == 2) return {};
  std::string why(Trim(tried->output));
  // bash adds where it was: "try: connect: No route to host" and a line that repeats it.
  why = why.substr(0, why.find('\n'));
  if (const std::size_t at = why.find("connect: "); at != std::string::npos)
    why = why.substr(at + 9);
  return why;
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
  const Endpoint to = Split(address);
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
  const std::size_t at = log.rfind(kKey);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = at + kKey.size();
  std::size_t end = begin;
  while (end < log.size() && log[end] != '"' && log[end] != '\n') end += log[end] == '\\' ? 2 : 1;
  return std::string(log.substr(begin, std::min(end, log.size()) - begin));
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
