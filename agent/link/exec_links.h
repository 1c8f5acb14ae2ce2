// Users' commands beside ranks: each has a connection of its own to the controller, so that no
// byte of it delays a heartbeat or a log.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
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

  ExecLinks();
  ~ExecLinks();  // ends them
  ExecLinks(const ExecLinks&) = delete;
  ExecLinks& operator=(const ExecLinks&) = delete;

  // Returns at once. Beyond kMost the user is told so.
  void Open(ExecWish wish);
  // The link to the controller is cut: every command ends.
  void CutAll();
  // First processes of the commands that run. Thread-safe.
  std::vector<int> Leaders() const;

 private:
  struct One;
  static void Serve(const ExecWish& wish, One& one);
  void JoinFinished();

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<One>> running_;  // guarded by mutex_
};

}  // namespace launch::agent
