#include "controller/store/schema_steps.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/file_system.h"
#include "common/unique_fd.h"
#include "controller/store/store_reader.h"

namespace launch::controller {
namespace {

using sqlite::Execute;
using sqlite::QueryInt;

std::string SqlText(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

// What an older release reads, should the new one have to be taken back.
Result<void> Copy(sqlite3* db, const std::string& to) {
  const std::string draft = to + ".new";
  ::unlink(draft.c_str());
  LAUNCH_RETURN_IF_ERROR(Execute(db, "VACUUM INTO " + SqlText(draft)));
  const UniqueFd copy(::open(draft.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!copy || ::fchmod(copy.get(), 0600) != 0 || ::fsync(copy.get()) != 0 ||
      ::rename(draft.c_str(), to.c_str()) != 0) {
    return FailErrno("keep a copy as " + to, errno);
  }
  LAUNCH_RETURN_IF_ERROR(PosixFileSystem().SyncDir(to.substr(0, to.rfind('/'))));
  return {};
}

}  // namespace

std::span<const SchemaStep> SchemaSteps() { return {}; }

Result<void> UpgradeSchema(sqlite3* db, const std::string& file,
                           std::span<const SchemaStep> steps) {
  LAUNCH_ASSIGN_OR_RETURN(const std::int64_t application, QueryInt(db, "PRAGMA application_id"));
  LAUNCH_ASSIGN_OR_RETURN(const std::int64_t schema, QueryInt(db, "PRAGMA user_version"));
  if (application != kApplicationId) return {};
  std::string sql;
  std::int64_t reached = schema;
  for (const SchemaStep& step : steps) {
    if (step.to <= schema) continue;
    if (step.to != reached + 1) {
      return Fail(ErrorCode::kInternal, "no step leads from schema " + std::to_string(reached) +
                                            " of " + file + " to " + std::to_string(step.to));
    }
    sql += std::string(step.sql) + ";";
    reached = step.to;
  }
  if (reached == schema) return {};
  LAUNCH_RETURN_IF_ERROR(Copy(db, file + ".schema" + std::to_string(schema)));
  auto done = Execute(
      db, "BEGIN IMMEDIATE;" + sql + "PRAGMA user_version=" + std::to_string(reached) + ";COMMIT");
  if (done) return {};
  (void)Execute(db, "ROLLBACK");
  Error error = done.error();
  error.message = "the tables of " + file + " cannot be brought from schema " +
                  std::to_string(schema) + " to " + std::to_string(reached) + ": " + error.message;
  error.hint = "nothing was changed; the release that wrote it still reads it";
  return Unexpected(std::move(error));
}

}  // namespace launch::controller
