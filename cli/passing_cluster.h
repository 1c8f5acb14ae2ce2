// A cluster of this machine for one command, which leaves nothing behind.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/dev_cluster.h"
#include "cli/signal_hold.h"

namespace launch {

// The embedded cluster in a temporary directory. What ends the program by a signal waits until it
// is gone.
class PassingCluster {
 public:
  static Result<std::unique_ptr<PassingCluster>> Start(
      const std::function<void(const std::string&)>& say);
  PassingCluster(const PassingCluster&) = delete;
  PassingCluster& operator=(const PassingCluster&) = delete;
  ~PassingCluster();  // ends its processes and removes the directory

  Cluster AsCluster() const { return cluster_.AsCluster(); }

 private:
  explicit PassingCluster(std::string dir) : dir_(std::move(dir)), cluster_(dir_) {}
  const std::shared_ptr<SignalHold> hold_ = SignalHold::Begin();
  const std::string dir_;
  DevCluster cluster_;
};

}  // namespace launch
