// The truth about the Python of a container image, asked inside of it.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/account/local_account.h"
#include "agent/probes/child_process.h"
#include "common/clock.h"
#include "common/inventory.h"

namespace launch::agent {

// The command of a rank's container around a program of Python's.
struct ImageQuestion {
  std::string runtime;            // apptainer | singularity | enroot | docker | podman
  std::string program;            // path of the runtime's own program
  std::string image;              // as the job names it
  std::string file;               // where it lies on this node, as far as the runtime has files
  std::vector<std::string> argv;  // the last word, which is empty, is replaced by the program
  std::map<std::string, std::string> env;
};

// The words that run a program of Python's, which is to stand in place of the empty last one.
std::vector<std::string> PythonInImage();

// Answers are kept for a day as long as image, account and driver are the same. Thread-safe.
// `clock` must outlive it.
class ImageProber {
 public:
  explicit ImageProber(Clock& clock, MakeProbeScope scope = {})
      : clock_(clock), scope_(std::move(scope)) {}

  // Absent: the image is not on this node yet (fetching it may take an hour, which is left to the
  // start), it has no Python, another image of the account is being asked, or there was no answer
  // within half a minute, now or some minutes ago.
  std::optional<RuntimeFacts> Ask(const ImageQuestion& question,
                                  const std::optional<LocalAccount>& account);
  void SetDriver(std::string version);  // another driver makes known answers void

 private:
  using Known = std::tuple<std::string, std::string, std::string>;  // content, account, driver

  Clock& clock_;
  const MakeProbeScope scope_;  // where a container's client runs
  std::mutex mutex_;
  std::set<std::string> asking_;  // accounts for whom a container runs. Guarded by mutex_.
  std::string driver_;            // guarded by mutex_
  // Absent facts: it was silent. Guarded by mutex_.
  std::map<Known, std::pair<std::optional<RuntimeFacts>, BootTime>> known_;
};

}  // namespace launch::agent
