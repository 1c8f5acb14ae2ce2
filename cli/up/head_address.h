// The address at which the head of a cluster is reached.
#pragma once

#include <string>

#include "common/error.h"

namespace launch::up {

enum class Families { kV4, kOnlyV6 };  // kV4: and perhaps IPv6 too

// The address families of the name. kUnavailable, with the remedy, where this machine finds no
// address for it.
Result<Families> MustResolve(const std::string& address);

// "gpu01:7470", "[fd00::1]:7470".
std::string WithPort(const std::string& address, int port);

}  // namespace launch::up
