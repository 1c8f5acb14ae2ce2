// Files between this machine and the directory that a job works in, as tar archives through a
// command beside a rank.
#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/client.h"
#include "cli/signal_thread.h"
#include "common/launch.h"

namespace launch {

// "12:out/model.pt": a path of a job, relative to the directory that its rank works in, or
// absolute. Absent: a path of this machine ("out", "./a:b"), for what stands before the colon has
// no slash and names a job (a number, or an element "17_3").
struct JobPath {
  std::string job;
  std::string path;  // "." where nothing stands behind the colon
  friend bool operator==(const JobPath&, const JobPath&) = default;
};
std::optional<JobPath> ParseJobPath(const std::string& text);

// Ctrl-C ends the program with 130 and takes what was not copied whole with it: while one lives,
// nothing has its final name before all of it is there. Made before the first other thread, as
// SignalThread says.
class CopyGuard {
 public:
  CopyGuard();

  // A directory to remove if the program is ended; afterwards Forget's caller removes it.
  void Add(const std::string& path);
  void Forget(const std::string& path);

 private:
  [[noreturn]] void Leave(int signal);

  std::mutex mutex_;
  std::set<std::string> aside_;  // guarded by mutex_
  SignalThread signals_;         // the last: it calls as long as it lives
};

struct JobPlace {
  JobId job;
  Rank rank = 0;
};

// Copies from beside the rank or, where it does not run any more, from the copy of workdir that it
// ran in. As with `cp -r`: into `to` where that is a directory, else as a file or directory of that
// name.
Result<void> CopyFromJob(Client& client, CopyGuard& guard, const JobPlace& place,
                         const std::string& path, const std::string& to);
// Copies to beside the rank, which must run. Several paths only into a directory.
Result<void> CopyToJob(Client& client, JobId job, Rank rank, const std::vector<std::string>& paths,
                       const std::string& to);

}  // namespace launch
