// One host while `launch up`, `upgrade` or `down` work on it, and how they work on many side by
// side.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/up/bring_up.h"
#include "cli/up/install.h"
#include "cli/up/release.h"
#include "cli/up/remote.h"

namespace launch::up {

// One host: its connection, its facts and what was done on it.
struct Site {
  HostResult result;
  std::unique_ptr<Remote> remote;
  Release release;
  bool installed = false;  // the release, in this run
  std::chrono::steady_clock::time_point opened;
};

std::vector<Site> SitesOf(const HostSet& set);
std::vector<HostResult> ResultsOf(std::vector<Site>& sites);
// The place of the head among the hosts; the first where none is named.
std::size_t HeadOf(const HostSet& set);

void Say(const UpOptions& options, Site& site, std::string step);
void Enter(const UpOptions& options, const Site& site, Stage stage, std::uint64_t sent = 0,
           std::uint64_t total = 0);
void Failed(const UpOptions& options, Site& site, Error error);

// Connects to the host, unless it is this machine.
Result<void> Open(Site& site, const UpOptions& options);
// What all hosts of one `up` share.
struct Supply {
  explicit Supply(std::vector<std::string> dirs) : releases(std::move(dirs)) {}
  Releases releases;
  SharedHomes homes;
};

// Connects again where the connection lay idle for so long that sshd may have ended it.
Result<void> OpenAgain(Site& site, const UpOptions& options);

// Lets all hosts that are one machine fail, but for the one whose node it is already.
void RefuseTwins(std::vector<Site>& sites, const UpOptions& options);

// Connects, asks what is there and chooses the release. The error says why the host cannot be a
// node.
Result<void> Reach(Site& site, const UpOptions& options, Supply& supply, bool head);
Result<void> InstallOn(Site& site, const UpOptions& options, Supply& supply);
// Says that settings are not those of the machine's file, if so: what was, or would be, written.
void SayNewSettings(const UpOptions& options, Site& site, const char* name,
                    const std::string& wanted, const std::string& there);
// Removes old releases; to call when everything on the host runs from the new one.
Result<void> Tidy(Site& site, const UpOptions& options);

// Runs `work` for each site, `parallel` at a time; an error stays with its site.
template <class Work>
void ForEach(std::vector<Site>& sites, const UpOptions& options, int parallel, Work work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < sites.size(); i = next++) {
      if (sites[i].result.error) continue;
      if (Result<void> done = work(sites[i]); !done) Failed(options, sites[i], done.error());
    }
  };
  std::vector<std::thread> threads;
  const std::size_t count = std::min(sites.size(), static_cast<std::size_t>(std::max(1, parallel)));
  threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back(run);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace launch::up
