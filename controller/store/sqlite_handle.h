// SQLite's connection and statement with owners, Results and one mapping of its errors.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/error.h"

namespace launch::controller::sqlite {

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

enum class Access { kRead, kWrite };

// Opens an existing file; never creates one, follows no link.
Result<Database> OpenDatabase(const std::string& path, Access access);

// Whether an error of SQLite is a full disk in other words: it knows only that of a write
// (SQLITE_FULL), and calls a quota or a limit of the size of files that is used up, or no room for
// its shared memory, an I/O error.
bool IsOutOfRoom(int code, int system_error);

enum class Into { kLog, kDatabase };  // what it wrote: statements the log, checkpoints the database
// The connection's last error: full disk is kResourceExhausted, damage kDataLoss, another process'
// lock kConflict, all else kIo. The message names `what` and the file.
Error LastError(sqlite3* db, std::string_view what, Into into = Into::kLog);

// The log, or what of it nobody reads, goes into the database and is synced there.
Result<void> Checkpoint(sqlite3* db, int mode);
// Moves as much of the log into the database as is possible now. A busy database or a full disk is
// no error: the log stays as it is, and the next call tries again.
Result<void> TryCheckpoint(sqlite3* db);

// Executes one or more statements that return no rows.
Result<void> Execute(sqlite3* db, const std::string& sql);
// First column of the first row.
Result<std::int64_t> QueryInt(sqlite3* db, const std::string& sql);
Result<std::string> QueryText(sqlite3* db, const std::string& sql);

// Prepared once, run often. Bound bytes must live until the step.
class Statement {
 public:
  static Result<Statement> Prepare(sqlite3* db, const std::string& sql);

  Statement& Int(int parameter, std::uint64_t value);
  Statement& Blob(int parameter, std::string_view bytes);
  Result<bool> Step();  // true = a row is there
  Result<void> Run();   // to the end, then reset

  std::uint64_t IntAt(int column) const;
  std::string BlobAt(int column) const;
  void Reset();

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace launch::controller::sqlite
