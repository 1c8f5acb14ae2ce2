// The copy of a working directory on a node that does not see the directory itself.
//
//   <state_dir>/work/JOB-ROOT/         the copy; kept for a week after its job ended, or was read
//   <state_dir>/work/JOB-ROOT.used     when it was needed last
//   <state_dir>/chunks/USER/           pieces of copies, so that the next one costs only what
//                                      changed; of each user apart, as on the controller
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/account/local_account.h"
#include "common/error.h"
#include "common/launch.h"

namespace launch::agent {

using TakeChunk = std::function<Result<void>(const std::string& digest, std::string_view bytes)>;
// Fetches chunks that the owner of `job` sent.
using FetchChunks =
    std::function<Result<void>(JobId job, const std::vector<std::string>& digests,
                               const TakeChunk& take, const std::atomic<bool>& cancel)>;

struct CopyWish {
  std::string state_dir;
  Key key;
  std::string user;
  std::string root;                          // digest of the snapshot
  std::vector<JobId> live_jobs;              // whose copies stay, whatever their age
  std::optional<LocalAccount> account = {};  // whose the copy becomes; absent = stays ours
};

// Path of the copy, whether or not it exists.
std::string CopyPath(const std::string& state_dir, JobId job, const std::string& root);

// Returns the directory of the copy: as an earlier attempt of the job left it, or fetched and
// unpacked now. Blocks. Errors say what is missing on this node.
Result<std::string> MakeCopy(const CopyWish& wish, const FetchChunks& fetch,
                             const std::atomic<bool>& cancel);

// Every path at or below workdir in the spec's paths, arguments and variables becomes one of
// `copy`.
AllocationSpec InCopy(AllocationSpec spec, const std::string& copy);

// `text` with the path `from` replaced by `to` wherever it stands as a whole path.
std::string WithPathReplaced(const std::string& text, const std::string& from,
                             const std::string& to);

// Records that the copy was needed until now.
void NoteCopyUse(const std::string& directory);

}  // namespace launch::agent
