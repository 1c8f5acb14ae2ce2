// The agent's connections to the controller: dials, keeps dialling, and hands messages to the core.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/link/identity_files.h"
#include "agent/link/log_source.h"
#include "agent/runner/rank_runner.h"
#include "common/clock.h"
#include "common/file_system.h"
#include "common/node_messages.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace launch::agent {

class AttachStream;
class BulkLink;
class Renewal;

struct LinkSettings {
  std::vector<std::string> controllers;  // "host:port", tried in this order
  std::string state_dir;                 // identity is read anew for each attempt
};

// Send and Close may be called from any thread and never block. Told events (LinkUp, LinkDown,
// FromController) arrive through the sink from gRPC's threads. Streams are numbered from 1 and only
// grow. Log bytes travel on a second connection that lives as long as the control stream.
class ControllerLink {
 public:
  // `files` and `logs` must outlive it.
  ControllerLink(LinkSettings settings, FileSystem& files, LogSource& logs, ToldSink sink);
  ~ControllerLink();  // cuts what is open; ranks are not touched
  ControllerLink(const ControllerLink&) = delete;
  ControllerLink& operator=(const ControllerLink&) = delete;

  void Send(std::uint64_t stream, const FromNode& message);
  void Close(std::uint64_t stream, const std::string& why);

  // The controller of the open stream, and its session; absent before Welcome.
  struct Peer {
    std::string address;
    std::uint64_t session = 0;
  };
  std::optional<Peer> CurrentPeer();

 private:
  void Run();
  // One connection until it ends; true when it stood (the next wait starts small again).
  bool RunOnce(const std::string& address);
  void SayWhatIsOver(const IdentityFiles& identity);
  void RenewWhenDue(Renewal& renewal, const std::shared_ptr<grpc::Channel>& channel,
                    AttachStream& stream);
  std::unique_ptr<BulkLink> OpenBulk(const std::string& address, const IdentityFiles& identity,
                                     std::uint64_t session);
  void Wait(Millis time);
  std::shared_ptr<AttachStream> Current(std::uint64_t stream);

  const LinkSettings settings_;
  FileSystem& files_;
  LogSource& logs_;
  const ToldSink sink_;
  std::mutex mutex_;
  std::condition_variable stop_condition_;
  bool stopping_ = false;                  // guarded by mutex_
  std::uint64_t streams_ = 0;              // guarded by mutex_
  std::shared_ptr<AttachStream> current_;  // guarded by mutex_; of number streams_
  std::string current_address_;            // guarded by mutex_
  std::string last_problem_;               // dialling thread only: said once, not each time
  std::string last_over_;                  // likewise
  bool without_bulk_ = false;              // likewise
  std::thread thread_;
};

// Before the Nth attempt in a row: 0.5 s doubling to 15 s, +-20 % so that a thousand agents do not
// come back in one instant. `draw` is uniform in [0, 1).
Millis ReconnectDelay(int failures, double draw);

}  // namespace launch::agent
