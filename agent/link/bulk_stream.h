// The second connection: log bytes on their own, so that a flood never delays a heartbeat.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "agent/link/identity_files.h"
#include "agent/link/log_source.h"

namespace launch::agent {

// Serves until it is destroyed, on a thread of its own; dials again when the connection breaks.
class BulkLink {
 public:
  // `logs` must outlive it and is used by its thread only.
  BulkLink(std::string address, IdentityFiles identity, std::uint64_t session, LogSource& logs);
  ~BulkLink();
  BulkLink(const BulkLink&) = delete;
  BulkLink& operator=(const BulkLink&) = delete;

 private:
  void Run();
  void ServeOnce();

  const std::string address_;
  const IdentityFiles identity_;
  const std::uint64_t session_;
  LogSource& logs_;
  std::mutex mutex_;
  std::condition_variable stop_condition_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace launch::agent
