// The key by which a host shows that it is the one that is meant, held against known_hosts.
#pragma once

#include <string>

#include "cli/up/hosts.h"
#include "cli/up/ssh_session.h"
#include "common/error.h"

struct ssh_session_struct;

namespace launch::up {

// "ana@gpu01:2222", as messages name it.
std::string NameOf(const Host& host);
// The ssh command that a person types to see the same.
std::string ByHand(const Host& host, const SshOptions& options);

// Asks about a key that is not known, and writes it down. kPermissionDenied where nobody accepts
// it, or another one is known. `known_hosts`: the file of the known ones; empty: ssh's usual one.
Result<void> CheckKey(ssh_session_struct* session, const Host& host, const SshOptions& options,
                      const std::string& known_hosts);

}  // namespace launch::up
