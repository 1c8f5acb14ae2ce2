// Asks interpreters for the truth on behalf of many staging threads, and remembers the answers.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/probes/python_probe.h"
#include "common/clock.h"
#include "common/launch.h"

namespace launch::agent {

// Thread-safe. One question at a time of each account, which has 16 environments remembered: an
// interpreter that does not answer, or many of them, are nobody else's trouble. `clock` must
// outlive it.
class RuntimeProber {
 public:
  RuntimeProber(std::map<std::string, std::string> base_env, Clock& clock)
      : base_env_(std::move(base_env)), clock_(clock) {}

  // With those variables of `env` that decide what an interpreter finds: of paths, Python, torch
  // and CUDA, not of ranks. As the account, or as this process where it is empty.
  RuntimeFacts Ask(const std::string& interpreter, const std::vector<EnvVar>& env,
                   const std::string& account);
  void SetDriver(std::string version);  // another driver makes known answers void

 private:
  using Environment = std::map<std::string, std::string>;
  struct OfAccount {
    std::mutex asking;  // held while an interpreter is asked
    std::map<Environment, PythonProbe> probes;
  };

  const Environment base_env_;
  Clock& clock_;
  std::mutex mutex_;  // never held for long
  std::string driver_;
  std::map<std::string, std::shared_ptr<OfAccount>> accounts_;
};

}  // namespace launch::agent
