// The store of one controller: SQLite in the state directory, with checks that SQLite does not
// make.
#pragma once

#include <memory>
#include <string>

#include "common/error.h"
#include "controller/store/store.h"

namespace launch::controller {

// Files in `dir` (mode 0700): store.db with its log, lock, store.witness.
//
// MakeSqliteStore creates the directory if need be and an empty store, durably. kAlreadyExists when
// one is there.
Result<void> MakeSqliteStore(const std::string& dir);

struct StoreKeeps {
  std::uint64_t events = 1'000'000;  // newest; older ones go, a thousand at most with a commit
  std::uint64_t reserve_bytes = 16ULL << 20;  // of the disk, for when it is full
};

// Opens the store of `dir` as its only writer; nothing may be committed before Load has verified
// it. kConflict names the process that has it; kNotFound: no store; kFailedPrecondition: made by a
// newer version; kDataLoss: damaged or foreign. Load fails with kDataLoss also when the store has
// gone back in time. All name the file and the way out; nothing is ever repaired in place.
Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& dir, StoreKeeps keeps = {});

}  // namespace launch::controller
