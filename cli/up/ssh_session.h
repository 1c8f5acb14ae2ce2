// One ssh connection by libssh, as the user's own OpenSSH would make it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/up/hosts.h"
#include "cli/up/remote.h"

namespace launch::up {

struct SshOptions {
  std::string config;  // an OpenSSH config in place of the user's own; empty = that one
  // Asked for a key that no known_hosts file has: host and fingerprint. False refuses the host.
  // May be called from several threads.
  std::function<bool(const std::string& host, const std::string& fingerprint)> accept_key;
  int timeout_s = 10;
  bool accept_new = false;       // for the keys of jump hosts, which ssh itself checks
  std::string known_hosts_lock;  // a file; two `launch up` at once write known_hosts in turn
};

// The name or address that ssh connects to for this host: its own, or the HostName that the
// configuration has for its name.
Result<std::string> AddressOf(const Host& host, const SshOptions& options);

// Connects, checks the host's key and authenticates with the keys of agent and files; never asks
// for a password. A changed key is always refused. kUnavailable: nobody answers there;
// kPermissionDenied: a key is refused. Every error has a remedy. Used by one thread. Nothing in it
// waits longer than the deadlines say, also where a server stops answering in the middle.
Result<std::unique_ptr<Remote>> Connect(const Host& host, const SshOptions& options);

}  // namespace launch::up
