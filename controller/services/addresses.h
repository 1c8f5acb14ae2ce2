// Addresses under which this host's listening port can be reached.
#pragma once

#include <string>
#include <vector>

namespace launch::controller {

// Whether `host` stands for every address of this host.
bool IsWildcard(const std::string& host);

// "10.0.0.1:7000", "[::1]:7000".
std::string HostPortText(const std::string& host, int port);

// "host:port" for callers on this host: loopback when listening on all addresses.
std::string LocalAddress(const std::string& host, int port);

// Addresses for callers elsewhere, best first: the one listened on or, for a wildcard, each address
// of this host that is not loopback, then its name.
std::vector<std::string> DialableAddresses(const std::string& host, int port);

}  // namespace launch::controller
