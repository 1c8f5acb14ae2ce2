// Asks interpreters for the truth on behalf of many staging threads, and remembers the answers.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "agent/probes/python_probe.h"
#include "common/clock.h"
#include "common/launch.h"

namespace launch::agent {

// Thread-safe; one question at a time. `clock` must outlive it.
class RuntimeProber {
 public:
  RuntimeProber(std::map<std::string, std::string> base_env, Clock& clock)
      : base_env_(std::move(base_env)), clock_(clock) {}

  // With those variables of `env` that decide what an interpreter finds: paths, not ranks. As the
  // account, or as this process where it is empty.
  RuntimeFacts Ask(const std::string& interpreter, const std::vector<EnvVar>& env,
                   const std::string& account);
  void SetDriver(std::string version);  // another driver makes known answers void

 private:
  const std::map<std::string, std::string> base_env_;
  Clock& clock_;
  std::mutex driver_mutex_;
  std::string driver_;  // guarded by driver_mutex_
  std::mutex mutex_;    // held while an interpreter is asked
  std::map<std::map<std::string, std::string>, PythonProbe> probes_;  // guarded by mutex_
};

}  // namespace launch::agent
