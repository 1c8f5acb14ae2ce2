// What a machine says of itself before anything is installed on it, and whether it can be a node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/up/remote.h"
#include "common/error.h"

namespace launch::up {

// Who starts the agent again after a reboot.
enum class Keeper {
  kSystem,  // a systemd unit; we are root
  kUser,    // a systemd unit of the user, who lingers
  kNobody,  // a plain process in the background
};
std::string_view ToString(Keeper keeper);

struct HostFacts {
  std::string arch;   // "x86_64", "aarch64"
  std::string glibc;  // "2.36"; empty = another C library
  std::string user;
  int uid = -1;
  std::string programs;  // directory for ours: /opt/launch, ~/.local/share/launch/HOST
  std::string state;     // /var/lib/launch, ~/.local/state/launch/HOST
  std::string place;     // of `state`, the same by all names of the machine; empty = unknown
  std::string home;      // of the user, where other hosts may share it; empty = they do not
  bool made = false;     // both directories are there
  std::uint64_t free_bytes = 0;  // where the programs go
  bool writable = false;
  bool executable = false;  // false: the file system is mounted noexec
  Keeper keeper = Keeper::kNobody;
  std::int64_t clock = 0;  // seconds since 1970
  std::string installed;   // release that `current` points to; empty = none
  std::string controller;  // SHA-256 of the CA of the controller that lives here; empty = none
  std::string controller_certificate;  // of its first operator, PEM; empty = none
  std::string authority;               // SHA-256 of the CA that the agent joined; empty = none
  std::string certificate;             // of the agent, PEM; empty = none
  std::string agent_settings;          // SHA-256 of agent.yaml in `state`; empty = there is none
  std::string controller_settings;     // of controller.yaml
};

// The output of probe.sh. Unknown lines are passed over: a login shell may print what it likes.
HostFacts ReadFacts(std::string_view output);

struct HostNeeds {
  std::uint64_t bytes = 0;   // of the programs
  std::int64_t clock = 0;    // ours, when the probe ran
  bool has_programs = true;  // for facts.arch
};
// Why this machine cannot be a node, with what to do about it.
Result<void> CheckHost(const HostFacts& facts, const HostNeeds& needs);

}  // namespace launch::up
