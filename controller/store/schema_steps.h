// The way of a store's tables from older releases to this one: numbered steps, each from the
// version before it, all in one transaction and after a copy of the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "controller/store/sqlite_handle.h"

namespace launch::controller {

struct SchemaStep {
  std::int64_t to = 0;  // from the version before
  const char* sql = "";
};

// The steps of this release. Empty: its tables are those of the first release.
std::span<const SchemaStep> SchemaSteps();

// Carries out the `steps` beyond the version of `file`, which is ours and open for writing; a copy
// of it stays beside it as FILE.schemaN. Nothing is changed where no step is left or one fails; a
// newer version is left to CheckSchema.
Result<void> UpgradeSchema(sqlite3* db, const std::string& file, std::span<const SchemaStep> steps);

}  // namespace launch::controller
