// The programs that `launch up` installs, as files of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"

namespace launch::up {

struct Program {
  std::string name;    // "launch-agent"
  std::string path;    // here
  std::string digest;  // SHA-256, hex
  std::uint64_t bytes = 0;
};

struct Release {
  std::string id;  // of the content of all of them
  std::vector<Program> programs;
  std::uint64_t bytes = 0;
};

// launch-agent and launch-shim, with launch and launch-controller for the head, from the first of
// `dirs` whose launch-agent is built for `arch`. kNotFound when there is none.
Result<Release> FindRelease(const std::vector<std::string>& dirs, const std::string& arch,
                            bool head);

}  // namespace launch::up
