// A command for /bin/sh, written so that any login shell passes it on: sshd gives what it is asked
// to run to the shell of the account, which may be bash, tcsh or fish.
#pragma once

#include <string>
#include <string_view>

namespace launch::up {

// One line without what those shells read differently inside of single quotes. With `as_root`
// through sudo, which never asks.
std::string ForAnyLoginShell(std::string_view command, bool as_root);

}  // namespace launch::up
