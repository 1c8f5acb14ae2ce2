// Asks interpreters for the truth on behalf of many staging threads, and remembers the answers.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/probes/python_probe.h"
#include "common/clock.h"
#include "common/launch.h"

namespace launch::agent {

// Thread-safe. The same question is asked once at a time, others meanwhile: an interpreter that
// does not answer is nobody else's trouble. The 256 answers that were asked for last are kept, at
// most 32 of them of one account: many interpreters are nobody else's trouble either. `clock` must
// outlive it.
class RuntimeProber {
 public:
  RuntimeProber(std::map<std::string, std::string> base_env, Clock& clock,
                MakeProbeScope scope = {})
      : base_env_(std::move(base_env)), clock_(clock), scope_(std::move(scope)) {}

  // With those variables of `env` that decide what an interpreter finds: of paths, Python, torch
  // and CUDA, not of ranks. As the account, or as this process where it is empty. Takes no longer
  // than a start waits for one node (controller/core/draft.h, kStagingMargin); `cancel` ends it.
  RuntimeFacts Ask(const std::string& interpreter, const std::vector<EnvVar>& env,
                   const std::string& account, const std::atomic<bool>& cancel);
  // The same without the import of torch, in as little time as it takes to start: whether it runs.
  RuntimeFacts Read(const std::string& interpreter, const std::vector<EnvVar>& env,
                    const std::string& account, const std::atomic<bool>& cancel);
  void SetDriver(std::string version);  // another driver makes known answers void

 private:
  struct Asked {
    std::string account;
    std::string interpreter;
    std::map<std::string, std::string> environment;
    friend bool operator==(const Asked&, const Asked&) = default;
  };
  struct Turn {
    Turn(PythonProbe::Options options, Clock& clock) : probe(std::move(options), clock) {}
    std::timed_mutex asking;  // held while the interpreter is asked
    PythonProbe probe;
  };
  struct Known {
    Asked asked;
    std::shared_ptr<Turn> turn;  // shared with who asks meanwhile
  };
  std::shared_ptr<Turn> TurnOf(const Asked& asked);
  using Question = RuntimeFacts (PythonProbe::*)(const PythonQuestion&, const std::atomic<bool>*);
  RuntimeFacts InTurn(Question ask, const std::string& interpreter, const std::vector<EnvVar>& env,
                      const std::string& account, const std::atomic<bool>& cancel);

  const std::map<std::string, std::string> base_env_;
  Clock& clock_;
  const MakeProbeScope scope_;
  std::mutex mutex_;  // never held for long
  std::string driver_;
  std::list<Known> known_;  // asked last first
};

}  // namespace launch::agent
