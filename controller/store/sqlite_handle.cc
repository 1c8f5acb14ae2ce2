#include "controller/store/sqlite_handle.h"

#include <cerrno>
#include <utility>

namespace launch::controller::sqlite {

Result<Database> OpenDatabase(const std::string& path, Access access) {
  const int mode = access == Access::kWrite ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &raw, mode | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE,
      nullptr);
  Database db(raw);
  if (code != SQLITE_OK) {
    if (raw == nullptr) return Fail(ErrorCode::kIo, "open " + path + ": no memory");
    return Unexpected(LastError(raw, "open " + path));
  }
  // Only an operator's own tools compete for the file, and not for long.
  sqlite3_busy_timeout(db.get(), 5'000);
  return db;
}

namespace {

// Of the last write into that file. sqlite3_system_errno is not set by a failed COMMIT, and may be
// that of an earlier error.
int WriteErrno(sqlite3* db, Into into) {
  sqlite3_file* file = nullptr;
  const int which = into == Into::kLog ? SQLITE_FCNTL_JOURNAL_POINTER : SQLITE_FCNTL_FILE_POINTER;
  int error = 0;
  const bool known = sqlite3_file_control(db, "main", which, &file) == SQLITE_OK &&
                     file != nullptr && file->pMethods != nullptr;
  if (known) file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
  return error;
}

}  // namespace

bool IsOutOfRoom(int code, int system_error) {
  const bool grows_no_more = system_error == EDQUOT || system_error == EFBIG;
  if (code == SQLITE_IOERR_WRITE) return grows_no_more;
  // The write of a byte that makes the shared memory longer failed (os_unix.c, unixShmMap), in a
  // COMMIT nobody says why. Nothing in it has to last: a disk that is broken fails at the log too.
  return code == SQLITE_IOERR_SHMSIZE && system_error != EIO;
}

Error LastError(sqlite3* db, std::string_view what, Into into) {
  int code = sqlite3_extended_errcode(db);
  const char* file = sqlite3_db_filename(db, nullptr);
  Error error;
  error.message = std::string(what) + ": " + sqlite3_errmsg(db);
  if (file != nullptr && *file != '\0') error.message += " (" + std::string(file) + ")";
  const int system_error =
      code == SQLITE_IOERR_WRITE ? WriteErrno(db, into) : sqlite3_system_errno(db);
  if (IsOutOfRoom(code, system_error)) code = SQLITE_FULL;
  switch (code & 0xFF) {
    case SQLITE_FULL:
      error.code = ErrorCode::kResourceExhausted;
      error.hint =
          "the file system of the state directory is full, or a quota or a limit on the size of "
          "files is used up; free some space";
      break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      error.code = ErrorCode::kConflict;
      error.hint = "another program has the store open; end it";
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // our statements are right, so the schema is not ours
    case SQLITE_FORMAT:
    case SQLITE_MISMATCH:
    case SQLITE_CONSTRAINT:
      error.code = ErrorCode::kDataLoss;
      error.hint = "the store is damaged; put back a backup of the state directory";
      break;
    default:
      error.code = ErrorCode::kIo;
      break;
  }
  return error;
}

Result<void> Checkpoint(sqlite3* db, int mode) {
  int left = 0;
  if (sqlite3_wal_checkpoint_v2(db, nullptr, mode, &left, nullptr) == SQLITE_OK) return {};
  return Unexpected(LastError(db, "checkpoint", Into::kDatabase));
}

Result<void> TryCheckpoint(sqlite3* db) {
  auto done = Checkpoint(db, SQLITE_CHECKPOINT_PASSIVE);
  const bool later = !done && (done.error().code == ErrorCode::kConflict ||
                               done.error().code == ErrorCode::kResourceExhausted);
  return later ? Result<void>() : done;
}

Result<void> Execute(sqlite3* db, const std::string& sql) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return Unexpected(LastError(db, sql.substr(0, sql.find('('))));
  }
  return {};
}

Result<std::int64_t> QueryInt(sqlite3* db, const std::string& sql) {
  LAUNCH_ASSIGN_OR_RETURN(Statement statement, Statement::Prepare(db, sql));
  LAUNCH_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return Fail(ErrorCode::kDataLoss, sql + ": no answer");
  return static_cast<std::int64_t>(statement.IntAt(0));
}

Result<std::string> QueryText(sqlite3* db, const std::string& sql) {
  LAUNCH_ASSIGN_OR_RETURN(Statement statement, Statement::Prepare(db, sql));
  LAUNCH_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return Fail(ErrorCode::kDataLoss, sql + ": no answer");
  return statement.BlobAt(0);
}

Result<Statement> Statement::Prepare(sqlite3* db, const std::string& sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(db, sql.c_str(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  Statement statement;
  statement.statement_.reset(raw);
  if (code != SQLITE_OK) return Unexpected(LastError(db, sql));
  return statement;
}

Statement& Statement::Int(int parameter, std::uint64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter, static_cast<sqlite3_int64>(value));
  return *this;
}

Statement& Statement::Blob(int parameter, std::string_view bytes) {
  // A null pointer would bind NULL, which is not the empty text.
  sqlite3_bind_blob64(statement_.get(), parameter, bytes.empty() ? "" : bytes.data(), bytes.size(),
                      SQLITE_STATIC);
  return *this;
}

Result<bool> Statement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  Error error = LastError(sqlite3_db_handle(statement_.get()), sqlite3_sql(statement_.get()));
  Reset();
  return Unexpected(std::move(error));
}

Result<void> Statement::Run() {
  while (true) {
    LAUNCH_ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) break;
  }
  Reset();
  return {};
}

std::uint64_t Statement::IntAt(int column) const {
  return static_cast<std::uint64_t>(sqlite3_column_int64(statement_.get(), column));
}

std::string Statement::BlobAt(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (bytes == nullptr || size <= 0) return {};
  return std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

}  // namespace launch::controller::sqlite
