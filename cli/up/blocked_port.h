// Why a host that ssh reaches does not reach the controller: tried from there, and in the words of
// the agent that tries.
#pragma once

#include <string>
#include <string_view>

#include "cli/up/host_facts.h"
#include "cli/up/remote.h"
#include "common/clock.h"
#include "common/error.h"

namespace launch::up {

// The error for an agent that runs and did not report within `waited`. `address` is HOST:PORT of
// the controller.
Error WhyNotHeard(Remote& remote, const HostFacts& facts, const std::string& host,
                  const std::string& address, Millis waited);

// The error of a join, with what a connection from there to the controller met, if it meets one.
Error WhyNotJoined(Error error, Remote& remote, const std::string& host,
                   const std::string& address);

// Why the link of the agent that wrote this log, the last one that did, is down; empty = it says
// nothing.
std::string LastReason(std::string_view log);

}  // namespace launch::up
