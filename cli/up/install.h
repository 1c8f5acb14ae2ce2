// A release on a host: only what is not there yet is sent, and what nobody needs any more goes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cli/up/host_facts.h"
#include "cli/up/release.h"
#include "cli/up/remote.h"
#include "common/annotated_mutex.h"
#include "common/error.h"

namespace launch::up {

// Who sends what into a home that several hosts share: the first of them sends a program, the
// others wait for it and take it from there. Safe to call from several threads.
class SharedHomes {
 public:
  // Held while a program is looked for and sent.
  struct Turn {
    std::shared_ptr<std::mutex> mutex;  // outlives its lock
    std::unique_lock<std::mutex> lock;
  };
  // Waits for nobody where the host has its programs for itself.
  Turn Await(const HostFacts& facts, const Program& program);

 private:
  Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<std::mutex>> turns_
      LAUNCH_GUARDED_BY(mutex_);
};

// `sent` hears of the bytes of all programs so far, and of all that must be sent.
using SentOf = std::function<void(std::uint64_t sent, std::uint64_t total)>;

struct Installed {
  bool changed = false;    // there was something to do
  std::uint64_t sent = 0;  // bytes; the rest of the release was on the host, in another release
};
// Sends what is missing of the release, checked by SHA-256, and switches `current` to it.
Result<Installed> Install(Remote& remote, const HostFacts& facts, const Release& release,
                          SharedHomes& homes, const SentOf& sent);

// Removes releases other than this one and the one that was current before, never one that a
// process runs from; how many.
Result<int> RemoveOldReleases(Remote& remote, const HostFacts& facts, const Release& release);

}  // namespace launch::up
