// The programs that `launch up` installs, as files of this machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/annotated_mutex.h"
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

// What is in `dirs`, each program read and hashed once however many machines ask. Safe to call from
// several threads.
class Releases {
 public:
  explicit Releases(std::vector<std::string> dirs) : dirs_(std::move(dirs)) {}

  // launch-agent, launch-shim and, where it was built, launch-nccl-test, with launch and
  // launch-controller for the head, from the first directory whose launch-agent is built for
  // `arch`. kNotFound when there is none.
  Result<Release> For(const std::string& arch, bool head);

 private:
  const std::vector<std::string> dirs_;
  Mutex mutex_;
  std::map<std::pair<std::string, bool>, Release> found_ LAUNCH_GUARDED_BY(mutex_);
};

// The program's bytes. kFailedPrecondition when the file has changed since it was hashed.
Result<std::string> ReadProgram(const Program& program);

}  // namespace launch::up
