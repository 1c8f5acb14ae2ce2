// How one host is written: in a hostlist, on a line of a hostfile, in hosts.yaml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/up/hosts.h"
#include "common/error.h"

namespace launch::up {

Result<int> ReadPort(std::string_view text);

// Letters, digits and ".-_": what a node name, an ssh host and a path can all be.
Result<void> CheckHostName(const std::string& name);

// A name, an IPv4 address, or an IPv6 address, which may be in brackets.
Result<std::string> ReadAddress(const std::string& text);

// Checks the name of a user on the other machine, as OpenSSH takes it: also LAB\ana and ana@lab.
Result<void> CheckUser(const std::string& user);

// Splits a hostlist at the commas outside brackets.
std::vector<std::string> HostParts(std::string_view text);

// Appends "ana@gpu[01-02]:2222,[fd00::9]" to `hosts`. A host of which only an IPv6 address is known
// is called like it, with '-' for ':'.
Result<void> AppendHosts(std::string_view text, std::vector<Host>& hosts);

}  // namespace launch::up
