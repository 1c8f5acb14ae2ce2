// Copies of working directories on the controller's disk, in pieces named by their SHA-256.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/annotated_mutex.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/ids.h"

namespace launch::controller {

struct OwnedSnapshot {
  UserName user;
  std::string root;  // digest
  friend auto operator<=>(const OwnedSnapshot&, const OwnedSnapshot&) = default;
};

// <dir>/USER/ab/abcd...: one file a piece. Each user has pieces of their own: a digest that
// somebody knows or guesses says nothing about what others have, and gives nothing of it.
// Thread-safe: files appear whole, and only Sweep removes them.
class ChunkStore {
 public:
  // `most`: bytes of the pieces of one user, each as whole blocks of 4 KiB.
  explicit ChunkStore(std::string dir,
                      std::uint64_t most = std::numeric_limits<std::uint64_t>::max())
      : dir_(std::move(dir)), most_(most) {}

  // Which of the chunks (digest, size) are not here; those that are count as used now. When none is
  // missing, all are durable.
  Result<std::vector<std::string>> Missing(
      const UserName& user, const std::vector<std::pair<std::string, std::uint32_t>>& wanted);

  // Stores a chunk. kResourceExhausted when the user would have more than is allowed, or the disk
  // would be left with less than is kept for the job store.
  Result<void> Put(const UserName& user, std::string_view bytes);

  // kNotFound; kDataLoss when the bytes are not those of the name (then the piece is removed); or
  // why it cannot be read now.
  Result<std::string> Get(const UserName& user, const std::string& digest) const;

  // Removes what none of the snapshots needs and nobody used for a day; how many. Of a user of whom
  // a snapshot cannot be read now, nothing is removed: it may need anything.
  Result<std::uint64_t> Sweep(const std::set<OwnedSnapshot>& snapshots, WallTime now);

 private:
  // The paths of the pieces that a snapshot needs. A piece that is gone or damaged ends the list:
  // its job fails when it is staged, whatever else is kept.
  Result<void> AddNeeded(const OwnedSnapshot& snapshot, std::set<std::string>& needed) const;
  std::string PathOf(const UserName& user, const std::string& digest) const;

  Result<void> Write(const std::string& path, std::string_view bytes) const;
  // All pieces are on the disk afterwards; asks the file system only when some were written since.
  Result<void> MakeDurable();
  Result<void> Charge(const UserName& user, std::uint64_t more, std::uint64_t less);

  const std::string dir_;
  const std::uint64_t most_;

  Mutex syncing_;  // before mutex_; whoever waits for it finds the work done
  Mutex mutex_;
  // Bytes of each user; counted by each sweep and, for a user of whom they are not known, when
  // asked for.
  std::map<UserName, std::uint64_t> used_ LAUNCH_GUARDED_BY(mutex_);
  std::uint64_t writing_ LAUNCH_GUARDED_BY(mutex_) = 0;  // pieces, now
  std::uint64_t written_ LAUNCH_GUARDED_BY(mutex_) = 0;  // since the start
  // How many of `written_` are synced; absent: what an earlier process wrote may not be on the disk
  // either.
  std::optional<std::uint64_t> synced_ LAUNCH_GUARDED_BY(mutex_);
};

}  // namespace launch::controller
