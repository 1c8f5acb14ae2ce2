// Users' commands beside ranks: each has a connection of its own to the controller, so that no
// byte of it delays a heartbeat or a log.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/link/identity_files.h"
#include "agent/runner/copy_reader.h"
#include "agent/runner/exec_process.h"

namespace launch::agent {

struct ExecWish {
  std::string controller;  // "host:port" of the control stream
  std::uint64_t session = 0;
  IdentityFiles identity;
  std::string refused;  // why it cannot be; empty: it runs
  ExecPlace place;
  std::optional<CopyPlace> copy;  // what an attempt left is read instead
};

// Each command has two threads: one moves what it says, one moves what it is told. Both pass on one
// piece before they take the next, so whoever is slow holds up the other end and no memory is
// needed. A command ends with its stream, and a stream with its command.
class ExecLinks {
 public:
  static constexpr std::size_t kMost = 32;  // at a time
  using StartThread = std::function<std::thread(std::function<void()> work)>;

  explicit ExecLinks(StartThread start = [](std::function<void()> work) {
    return std::thread(std::move(work));
  });
  ~ExecLinks();  // ends them
  ExecLinks(const ExecLinks&) = delete;
  ExecLinks& operator=(const ExecLinks&) = delete;

  // Returns at once. The user is told of what is beyond kMost, or beyond the limit of processes.
  void Open(ExecWish wish);
  // The link to the controller is cut: every command ends.
  void CutAll();
  // First processes of the commands that run. Thread-safe.
  std::vector<int> Leaders() const;

 private:
  struct One;
  static void Serve(const ExecWish& wish, One& one);
  void JoinFinished();
  void RunRefuser();

  const StartThread start_;
  mutable std::mutex mutex_;
  std::condition_variable refused_more_;
  std::vector<std::unique_ptr<One>> running_;  // guarded by mutex_
  std::deque<ExecWish> refused_;  // no thread could be started for them; guarded by mutex_
  One* refusing_ = nullptr;       // guarded by mutex_
  bool closing_ = false;          // guarded by mutex_
  std::thread refuser_;           // answers those, one after the other
};

}  // namespace launch::agent
