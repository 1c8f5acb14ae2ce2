// One controller per state directory, proved by the kernel for as long as the process lives.
#pragma once

#include <string>

#include "common/error.h"
#include "common/unique_fd.h"

namespace launch::controller {

class StateLock {
 public:
  // Takes the lock file of `dir`. kConflict names the process that has it; kNotFound: no directory.
  static Result<StateLock> Take(const std::string& dir);

 private:
  explicit StateLock(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace launch::controller
