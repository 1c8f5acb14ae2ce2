// Verdicts off the loop: threads that read the logs of a failed attempt from its nodes and judge.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "common/annotated_mutex.h"
#include "controller/core/effect.h"
#include "controller/core/event.h"
#include "controller/log_relay.h"
#include "diagnosis/compiled_signatures.h"

namespace launch::controller {

// Takes a piece of a log, or nothing while more is waited for; false ends the reading.
using LogFeed = std::function<bool(std::string_view piece)>;

// Feeds what the node keeps of one rank's log, in order. False: it was not all that there is when
// `at_most` was over.
using LogReader = std::function<bool(const LogsCall& call, Millis at_most, const LogFeed& feed)>;

// A LogReader over the relay, as an operator would read.
bool ReadLog(LogRelay& relay, const LogsCall& call, Millis at_most, const LogFeed& feed);

// The judging itself. A log that cannot be read is an empty one: the exit report still says
// something. The verdict is one that the store takes, whatever the logs hold, and repeats no
// secret of the job (`wanted` has them opened): users see it who may not read the logs.
event::Diagnosed Diagnose(const effect::DiagnosisWanted& wanted, const LogReader& read,
                          const CompiledSignatures& signatures);

class DiagnosisWorker {
 public:
  // `answer` is called on one of the worker's threads, once for each Want.
  DiagnosisWorker(LogReader read, std::function<void(event::Diagnosed)> answer);
  ~DiagnosisWorker();
  DiagnosisWorker(const DiagnosisWorker&) = delete;
  DiagnosisWorker& operator=(const DiagnosisWorker&) = delete;

  void Want(effect::DiagnosisWanted wanted) LAUNCH_EXCLUDES(mutex_);
  void Stop() LAUNCH_EXCLUDES(mutex_);  // what waits is dropped

 private:
  void Run() LAUNCH_EXCLUDES(mutex_);

  const LogReader read_;
  std::atomic<bool> abandon_ = false;  // what is being read is not worth its end any more
  const std::function<void(event::Diagnosed)> answer_;
  const CompiledSignatures signatures_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ LAUNCH_GUARDED_BY(mutex_) = false;
  struct Waiting {
    effect::DiagnosisWanted wanted;
    std::chrono::steady_clock::time_point since;
  };
  effect::DiagnosisWanted TakeNext() LAUNCH_REQUIRES(mutex_);
  std::deque<Waiting> wanted_ LAUNCH_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace launch::controller
