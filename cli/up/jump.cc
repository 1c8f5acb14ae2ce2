#include "cli/up/jump.h"

#include "common/quoted.h"

namespace launch::up {
namespace {

// libssh expands %h and %p in all of a command.
std::string WithoutPercent(std::string_view text) {
  std::string doubled;
  for (const char c : text) doubled += c == '%' ? std::string("%%") : std::string(1, c);
  return doubled;
}

}  // namespace

std::string JumpCommand(const std::vector<std::string>& hops, const JumpSsh& ssh) {
  std::string last = hops.back();
  std::string command =
      "exec ssh -o BatchMode=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3";
  // Also where the configuration would take any key.
  command += std::string(" -o StrictHostKeyChecking=") + (ssh.accept_new ? "accept-new" : "yes");
  if (!ssh.key.empty()) command += " -i " + ShellQuote(WithoutPercent(ssh.key));
  if (!ssh.config.empty()) command += " -F " + ShellQuote(WithoutPercent(ssh.config));
  for (std::size_t i = 0; i + 1 < hops.size(); ++i)
    command += (i == 0 ? " -J " : ",") + WithoutPercent(hops[i]);
  if (const std::size_t colon = last.rfind(':');
      colon != std::string::npos && last.find(']', colon) == std::string::npos) {
    command += " -p " + last.substr(colon + 1);
    last.resize(colon);
  }
  // `ssh -G` puts addresses into brackets, which ssh itself takes behind -J only.
  std::erase_if(last, [](char c) { return c == '[' || c == ']'; });
  command += " -W '[%h]:%p' -- " + WithoutPercent(last);
  if (!ssh.errors.empty()) command += " 2>" + ShellQuote(WithoutPercent(ssh.errors));
  return "exec /bin/sh -c " + ShellQuote(command);  // the user's own shell may be another
}

}  // namespace launch::up
