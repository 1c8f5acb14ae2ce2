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

// A name, or an address of IPv4 or IPv6, that one also in brackets.
Result<std::string> ReadAddress(const std::string& text);

// Of a name on the other machine, as OpenSSH takes it: also LAB\ana and ana@lab.
Result<void> CheckUser(const std::string& user);

// Splits a hostlist at the commas outside brackets.
std::vector<std::string> HostParts(std::string_view text);

// "ana@gpu[01-02]:2222,[fd00::9]" behind `hosts`. A host of which only an IPv6 address is known is
// called like it, with '-' for ':'.
Result<void> AppendHosts(std::string_view text, std::vector<Host>& hosts);

}  // namespace launch::up
