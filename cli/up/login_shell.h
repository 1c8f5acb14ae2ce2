// A command for /bin/sh, written so that any login shell passes it on: sshd gives what it is asked
// to run to the shell of the account, which may be bash, tcsh or fish.
#pragma once

#include <string>
#include <string_view>

#include "cli/up/remote.h"

namespace launch::up {

// One line without what those shells read differently inside of single quotes. With `as_root`
// through sudo, which never asks. It prints a mark before and after what the command prints: a
// start file or a wrapper of the account may print what it likes around it.
std::string ForAnyLoginShell(std::string_view command, bool as_root);

// What the command itself printed, and its own exit code. Without its marks it never ran: then the
// code is not 0, nothing is output, and what was printed instead is in `errors`.
RemoteAnswer AnswerWithin(RemoteAnswer all);

}  // namespace launch::up
