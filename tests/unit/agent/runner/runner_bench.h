// A PosixRunner on a directory of its own, with the witness program as rank.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/runner/cgroup.h"
#include "agent/runner/posix_runner.h"
#include "common/clock.h"
#include "common/file_system.h"

namespace launch::agent {

// Everything the runner told, in order; waiting has a deadline, so that a test fails and not hangs.
class ToldLog {
 public:
  void Push(Told told);
  template <class T>
  std::optional<T> Await(const std::function<bool(const T&)>& wanted);
  template <class T>
  int Count();
  template <class T>
  std::optional<T> Last();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Told> all_;
};

class RunnerBench {
 public:
  RunnerBench();
  // On the directory and cgroups of another bench, which owns them.
  RunnerBench(std::string dir, std::string cgroup_name);
  ~RunnerBench();
  RunnerBench(const RunnerBench&) = delete;
  RunnerBench& operator=(const RunnerBench&) = delete;

  RunnerState Open();               // makes a runner and recovers
  void Kill() { runner_.reset(); }  // the agent is gone; what runs goes on
  PosixRunner& runner() { return *runner_; }
  RunnerOptions& options() { return options_; }
  ToldLog& told() { return told_; }
  const std::string& dir() const { return dir_; }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  std::string RankPath(const Key& key, Rank rank) const;
  static std::string WitnessPath();

  // `ranks` ranks of `witness <arguments>`.
  AllocationSpec Spec(const Key& key, int ranks, std::vector<std::string> arguments) const;
  void Remember(const AllocationSpec& spec);  // to the codec, as if written before
  std::optional<told::AcceptDone> Accept(const AllocationSpec& spec);
  std::optional<told::StartDone> Start(const Key& key);
  std::optional<told::StartDone> Run(const AllocationSpec& spec);
  std::optional<ExitReport> AwaitEnd(const Key& key, Rank rank);
  std::optional<told::StopDone> Stop(const Key& key, Millis grace);
  std::string ReadFile(const std::string& path) const;
  void Touch(const std::string& name) const;
  std::vector<std::string> Ledger() const;
  // The witnesses have set their signal handlers; a stop before would find them as plain programs.
  bool AwaitWitnesses(int count) const;
  int CountLedger(const std::string& word) const;
  bool ProcessLives(int pid) const;
  // Polls a condition that nothing announces, up to ten seconds.
  static bool Eventually(const std::function<bool()>& condition);

 private:
  void SetOptions();

  std::string dir_;
  bool owner_ = true;
  RunnerOptions options_;
  PosixFileSystem files_;
  SystemClock clock_;
  ToldLog told_;
  std::map<std::string, AllocationSpec> specs_;  // what the codec "wrote"
  std::mutex specs_mutex_;
  std::vector<Key> accepted_;
  std::unique_ptr<PosixRunner> runner_;
};

template <class T>
std::optional<T> ToldLog::Await(const std::function<bool(const T&)>& wanted) {
  std::unique_lock lock(mutex_);
  std::optional<T> result;
  (void)changed_.wait_for(lock, std::chrono::seconds(20), [&] {
    for (const Told& told : all_) {
      const T* found = std::get_if<T>(&told);
      if (found != nullptr && wanted(*found)) {
        result = *found;
        return true;
      }
    }
    return false;
  });
  return result;
}

template <class T>
int ToldLog::Count() {
  const std::lock_guard lock(mutex_);
  int count = 0;
  for (const Told& told : all_) count += std::holds_alternative<T>(told) ? 1 : 0;
  return count;
}

template <class T>
std::optional<T> ToldLog::Last() {
  const std::lock_guard lock(mutex_);
  std::optional<T> last;
  for (const Told& told : all_) {
    if (const T* one = std::get_if<T>(&told)) last = *one;
  }
  return last;
}

}  // namespace launch::agent
