// Reads a store's database and believes nothing of it unchecked; changes nothing.
#pragma once

#include <string>
#include <vector>

#include "controller/store/row_check.h"
#include "controller/store/sqlite_handle.h"
#include "controller/store/store.h"

namespace launch::controller {

inline constexpr std::int64_t kApplicationId = 0x4C4E4348;  // "LNCH"
// Versions of the tables. A change adds one here and a step in schema_steps.cc that makes the new
// from the old; a newer one than ours is refused by name.
inline constexpr std::int64_t kSchema = 1;

// Damage of `file`, with the way out.
Unexpected Damaged(const std::string& file, const std::string& what);

// Checks that the file is one of ours, of a version that we know.
Result<void> CheckSchema(sqlite3* db, const std::string& file);
Result<StoreMeta> ReadMeta(sqlite3* db, const std::string& file);
// Every row, each verified by its sum and all of them by the digest of `meta`.
Result<std::vector<StoredRow>> ReadRows(sqlite3* db, const std::string& file,
                                        const StoreMeta& meta);
// Ends of the event log; each event is verified when it is read.
Result<void> CheckEventEnds(sqlite3* db, const std::string& file, const StoreMeta& meta);
// At most `max` events after `after_seq`, each verified.
Result<std::vector<StoredEvent>> ReadEvents(sqlite3* db, const std::string& file,
                                            std::uint64_t after_seq, std::size_t max);

}  // namespace launch::controller
