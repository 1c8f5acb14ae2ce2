// Variables of the caller's environment.
#pragma once

#include <cstdlib>
#include <string>

namespace launch {

// The variable's value in this process; empty when it is not set.
inline std::string EnvironmentVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace launch
