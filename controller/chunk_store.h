// Copies of working directories on the controller's disk, in pieces named by their SHA-256.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  explicit ChunkStore(std::string dir) : dir_(std::move(dir)) {}

  // Of (digest, size), those that are not here; those that are count as used now. When nothing is
  // missing, all of it is durable.
  Result<std::vector<std::string>> Missing(
      const UserName& user, const std::vector<std::pair<std::string, std::uint32_t>>& wanted) const;

  // kResourceExhausted when the disk would be left with less than is kept for the job store.
  Result<void> Put(const UserName& user, std::string_view bytes) const;

  // kNotFound; kDataLoss when the bytes are not those of the name (then the piece is removed); or
  // why it cannot be read now.
  Result<std::string> Get(const UserName& user, const std::string& digest) const;

  // Removes what none of the snapshots needs and nobody used for a day; how many. Of a user of whom
  // a snapshot cannot be read now, nothing is removed: it may need anything.
  Result<std::uint64_t> Sweep(const std::set<OwnedSnapshot>& snapshots, WallTime now) const;

 private:
  // The paths of the pieces that a snapshot needs. A piece that is gone or damaged ends the list:
  // its job fails when it is staged, whatever else is kept.
  Result<void> AddNeeded(const OwnedSnapshot& snapshot, std::set<std::string>& needed) const;
  std::string PathOf(const UserName& user, const std::string& digest) const;

  const std::string dir_;
};

}  // namespace launch::controller
