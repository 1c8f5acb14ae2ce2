#include "controller/store/sqlite_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "common/annotated_mutex.h"
#include "common/failpoint.h"
#include "common/file_system.h"
#include "common/pki.h"
#include "common/planted.h"
#include "controller/store/disk_reserve.h"
#include "controller/store/local_disk.h"
#include "controller/store/revision_witness.h"
#include "controller/store/row_check.h"
#include "controller/store/schema_steps.h"
#include "controller/store/sqlite_handle.h"
#include "controller/store/state_lock.h"
#include "controller/store/store_reader.h"
#include "controller/store/wal_checkpointer.h"

namespace launch::controller {
namespace {

using sqlite::Access;
using sqlite::Database;
using sqlite::Execute;
using sqlite::Statement;

constexpr int kCheckpointPages = 4'096;  // 16 MiB of log
// Commits without a pause outrun the checkpointer: the log can only start over when all of it is
// copied. Then a commit waits for one checkpoint of its own.
constexpr int kLongLogPages = 3 * kCheckpointPages;

// Deleted secrets must not stay in free pages: secure_delete.
constexpr const char* kPragmas =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA mmap_size=0;"
    "PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON; PRAGMA trusted_schema=OFF;"
    "PRAGMA secure_delete=ON; PRAGMA wal_autocheckpoint=0;";

// Keys and texts are BLOBs: bytes in, bytes out, ordered by memcmp.
constexpr const char* kTables =
    "CREATE TABLE kv(key BLOB NOT NULL PRIMARY KEY, revision INTEGER NOT NULL, value BLOB NOT NULL,"
    " crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE event(seq INTEGER PRIMARY KEY, revision INTEGER NOT NULL, wall_ms INTEGER NOT "
    "NULL,"
    " kind BLOB NOT NULL, subject BLOB NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL) STRICT;"
    "CREATE TABLE meta(id INTEGER PRIMARY KEY CHECK(id = 1), body BLOB NOT NULL,"
    " crc INTEGER NOT NULL) STRICT;";

std::string FileOf(const std::string& dir) { return dir + "/store.db"; }

// Everything in the log goes into the database and is synced there, or this fails.
Result<void> CheckpointAll(sqlite3* db) {
  return sqlite::Checkpoint(db, SQLITE_CHECKPOINT_TRUNCATE);
}

class SqliteStore final : public Store {
 public:
  static Result<std::unique_ptr<Store>> Open(const std::string& dir, StoreKeeps keeps);
  ~SqliteStore() override;

  Result<Snapshot> Load() override;
  Result<std::vector<StoredRow>> Read(const std::string& prefix) override;
  Result<Committed> Commit(const Batch& batch) override;
  Result<std::vector<StoredEvent>> Events(std::uint64_t after_seq, std::size_t max) override;
  bool Low(BootTime now) override {
    reserve_.TryAgain(now);
    return reserve_.spent();
  }
  StoreLimits Limits() const override { return {}; }

 private:
  Result<void> OpenReader() LAUNCH_REQUIRES(reader_mutex_);
  struct Statements {
    Statement meta;
    Statement set_meta;
    Statement find;
    Statement put;
    Statement erase;
    Statement add_event;
    Statement drop_events;
  };

  SqliteStore(std::string dir, StoreKeeps keeps, DiskReserve reserve, StateLock lock,
              RevisionWitness witness, Database db, std::unique_ptr<WalCheckpointer> checkpointer,
              Statements statements)
      : dir_(std::move(dir)),
        keeps_(keeps),
        file_(FileOf(dir_)),
        reserve_(std::move(reserve)),
        lock_(std::move(lock)),
        witness_(std::move(witness)),
        db_(std::move(db)),
        checkpointer_(std::move(checkpointer)),
        statements_(std::move(statements)) {
    if (!reserve_.spent()) reserve_.Restore();
  }

  Result<void> CheckWitness(const StoreMeta& meta) const;
  Result<void> CheckBatch(const Batch& batch) const;
  Result<void> Write(const Batch& batch, StoreMeta& next);
  std::uint64_t FirstEventToKeep(const StoreMeta& meta) const;
  Result<void> WriteRow(const std::string& key, const std::string* value, StoreMeta& next);
  Unexpected Abandon(Error error);

  const std::string dir_;
  const StoreKeeps keeps_;
  const std::string file_;
  DiskReserve reserve_;
  StateLock lock_;
  RevisionWitness witness_;
  Database db_;
  std::unique_ptr<WalCheckpointer> checkpointer_;
  Statements statements_;
  std::optional<StoreMeta> meta_;  // set by Load
  std::optional<Error> failed_;    // after it nothing is known, so nothing is done
  bool left_in_log_ = false;       // a batch that failed and is whole there
  int log_pages_ = 0;

  Mutex reader_mutex_;
  Database reader_ LAUNCH_GUARDED_BY(reader_mutex_);  // opened when first needed
};

Result<std::unique_ptr<Store>> SqliteStore::Open(const std::string& dir, StoreKeeps keeps) {
  LAUNCH_ASSIGN_OR_RETURN(StateLock lock, StateLock::Take(dir));
  LAUNCH_RETURN_IF_ERROR(RefuseNetwork(dir));
  const std::string file = FileOf(dir);
  struct stat facts {};
  if (::lstat(file.c_str(), &facts) != 0) {
    if (errno != ENOENT) return FailErrno("stat " + file, errno);
    return Fail(ErrorCode::kNotFound, "no store in " + dir,
                "make one with `launch-controller init --state DIR`, or put back a backup");
  }
  LAUNCH_ASSIGN_OR_RETURN(Database db, sqlite::OpenDatabase(file, Access::kWrite));
  DiskReserve reserve(dir + "/store.reserve", keeps.reserve_bytes);
  if (const auto ready = Execute(db.get(), kPragmas); !ready) {
    // On a full disk SQLite cannot make the files of its log.
    if (!reserve.Spend()) return Unexpected(ready.error());
    LAUNCH_ASSIGN_OR_RETURN(db, sqlite::OpenDatabase(file, Access::kWrite));
    LAUNCH_RETURN_IF_ERROR(Execute(db.get(), kPragmas));
  }
  if (Planted(Bug::kUnsyncedStore)) {
    LAUNCH_RETURN_IF_ERROR(Execute(db.get(), "PRAGMA synchronous=NORMAL"));
  }
  LAUNCH_RETURN_IF_ERROR(UpgradeSchema(db.get(), file, SchemaSteps()));
  LAUNCH_RETURN_IF_ERROR(CheckSchema(db.get(), file));
  LAUNCH_ASSIGN_OR_RETURN(RevisionWitness witness, RevisionWitness::Open(dir + "/store.witness"));
  LAUNCH_ASSIGN_OR_RETURN(std::unique_ptr<WalCheckpointer> checkpointer,
                          WalCheckpointer::Start(file));
  Statements statements;
  const std::array<std::pair<Statement*, const char*>, 7> texts{{
      {&statements.meta, "SELECT body FROM meta WHERE id = 1"},
      {&statements.set_meta, "UPDATE meta SET body = ?1, crc = ?2 WHERE id = 1"},
      {&statements.find, "SELECT revision, value, crc FROM kv WHERE key = ?1"},
      {&statements.put,
       "INSERT INTO kv(key, revision, value, crc) VALUES(?1, ?2, ?3, ?4) ON CONFLICT(key)"
       " DO UPDATE SET revision = ?2, value = ?3, crc = ?4"},
      {&statements.erase, "DELETE FROM kv WHERE key = ?1"},
      {&statements.add_event,
       "INSERT INTO event(seq, revision, wall_ms, kind, subject, body, crc)"
       " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"},
      {&statements.drop_events, "DELETE FROM event WHERE seq < ?1"},
  }};
  for (const auto& [statement, text] : texts) {
    LAUNCH_ASSIGN_OR_RETURN(*statement, Statement::Prepare(db.get(), text));
  }
  auto* store = new SqliteStore(dir, keeps, std::move(reserve), std::move(lock), std::move(witness),
                                std::move(db), std::move(checkpointer), std::move(statements));
  std::unique_ptr<Store> owned(store);
  sqlite3_wal_hook(
      store->db_.get(),
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<SqliteStore*>(self)->log_pages_ = pages;
        return SQLITE_OK;
      },
      store);
  return owned;
}

SqliteStore::~SqliteStore() {
  checkpointer_.reset();
  // Only to leave one file behind: what was committed is durable in the log as well.
  if (!failed_) (void)CheckpointAll(db_.get());
}

Result<void> SqliteStore::CheckWitness(const StoreMeta& meta) const {
  const std::string path = dir_ + "/store.witness";
  const auto seen = witness_.Read();
  if (!seen) return {};
  if (seen->store_id != meta.store_id) {
    return Fail(ErrorCode::kDataLoss, file_ + " is another store than the one " + path + " saw",
                "put back the right store.db; if this one is meant, remove " + path);
  }
  if (seen->revision > meta.revision) {
    return Fail(ErrorCode::kDataLoss,
                file_ + " has gone back in time: it is at revision " +
                    std::to_string(meta.revision) + ", but was at " +
                    std::to_string(seen->revision),
                "put back the newest backup with its store.db-wal; to go on without the commits"
                " between, remove " +
                    path);
  }
  return {};
}

Result<Snapshot> SqliteStore::Load() {
  if (failed_) return Unexpected(*failed_);
  LAUNCH_ASSIGN_OR_RETURN(const StoreMeta meta, ReadMeta(db_.get(), file_));
  LAUNCH_RETURN_IF_ERROR(CheckWitness(meta));
  Snapshot snapshot{.revision = meta.revision, .last_event = meta.last_event, .rows = {}};
  const bool witnessed = witness_.Read().has_value();
  snapshot.unwitnessed = meta.revision > 0 && !witnessed;  // a new store has none either
  LAUNCH_ASSIGN_OR_RETURN(snapshot.rows, ReadRows(db_.get(), file_, meta));
  LAUNCH_RETURN_IF_ERROR(CheckEventEnds(db_.get(), file_, meta));
  // A commit whose sync failed may have been read back from the page cache: make it durable, or
  // fail.
  LAUNCH_RETURN_IF_ERROR(CheckpointAll(db_.get()));
  // Without one this start draws what follows from that: it is not drawn before it is committed.
  if (witnessed) witness_.Note({meta.store_id, meta.revision});
  meta_ = meta;
  return snapshot;
}

Result<void> SqliteStore::OpenReader() {
  if (reader_) return {};
  LAUNCH_ASSIGN_OR_RETURN(reader_, sqlite::OpenDatabase(file_, Access::kRead));
  return {};
}

Result<std::vector<StoredRow>> SqliteStore::Read(const std::string& prefix) {
  const MutexLock lock(reader_mutex_);
  LAUNCH_RETURN_IF_ERROR(OpenReader());
  LAUNCH_ASSIGN_OR_RETURN(Statement select,
                          Statement::Prepare(reader_.get(),
                                             "SELECT key, revision, value, crc FROM kv "
                                             "WHERE key >= ?1 AND key < ?2 ORDER BY key"));
  const std::string end = prefix + '\xff';  // no key holds this byte
  select.Blob(1, prefix).Blob(2, end);
  std::vector<StoredRow> rows;
  while (true) {
    LAUNCH_ASSIGN_OR_RETURN(const bool more, select.Step());
    if (!more) return rows;
    StoredRow row{.key = select.BlobAt(0), .value = select.BlobAt(2), .revision = select.IntAt(1)};
    if (select.IntAt(3) != RowSum(row.key, row.revision, row.value)) {
      return Damaged(file_, "row " + row.key + " is damaged");
    }
    rows.push_back(std::move(row));
  }
}

Result<void> SqliteStore::CheckBatch(const Batch& batch) const {
  if (!meta_) return Fail(ErrorCode::kFailedPrecondition, "commit before the store was loaded");
  if (batch.expected != meta_->revision) {
    return Fail(ErrorCode::kConflict, "the batch follows revision " +
                                          std::to_string(batch.expected) + ", the store is at " +
                                          std::to_string(meta_->revision));
  }
  const auto bad_key = [limits = Limits()](const std::string& key) {
    return key.empty() || key.size() > limits.bytes_per_key;
  };
  for (const auto& [key, value] : batch.puts) {
    if (bad_key(key) || value.size() > Limits().bytes_per_value) {
      return Fail(ErrorCode::kInvalidArgument, "row " + key.substr(0, 100) + " is too large");
    }
  }
  if (std::any_of(batch.deletes.begin(), batch.deletes.end(), bad_key)) {
    return Fail(ErrorCode::kInvalidArgument, "a key is empty or too long");
  }
  return {};
}

// Puts `value`, or deletes the row when there is none, and keeps `next` true.
Result<void> SqliteStore::WriteRow(const std::string& key, const std::string* value,
                                   StoreMeta& next) {
  LAUNCH_ASSIGN_OR_RETURN(const bool known, statements_.find.Blob(1, key).Step());
  if (known) {
    const Revision revision = statements_.find.IntAt(0);
    const std::string old = statements_.find.BlobAt(1);
    const bool sound = statements_.find.IntAt(2) == RowSum(key, revision, old);
    if (!sound) return Damaged(file_, "row " + key + " is damaged");
    next.digest.Remove(key, revision, old);
    --next.rows;
  }
  statements_.find.Reset();
  if (value == nullptr) return known ? statements_.erase.Blob(1, key).Run() : Result<void>();
  next.digest.Add(key, next.revision, *value);
  ++next.rows;
  return statements_.put.Blob(1, key)
      .Int(2, next.revision)
      .Blob(3, *value)
      .Int(4, RowSum(key, next.revision, *value))
      .Run();
}

// A store that kept more until now gets rid of it over many commits, none of which is long.
std::uint64_t SqliteStore::FirstEventToKeep(const StoreMeta& meta) const {
  constexpr std::uint64_t kMostAtOnce = 1'000;
  if (meta.last_event < meta.first_event + keeps_.events) return meta.first_event;
  return std::min(meta.last_event - keeps_.events + 1, meta.first_event + kMostAtOnce);
}

Result<void> SqliteStore::Write(const Batch& batch, StoreMeta& next) {
  LAUNCH_RETURN_IF_ERROR(Execute(db_.get(), "BEGIN IMMEDIATE"));
  LAUNCH_ASSIGN_OR_RETURN(const bool there, statements_.meta.Step());
  const bool ours = there && statements_.meta.BlobAt(0) == EncodeMeta(*meta_);
  statements_.meta.Reset();
  if (!ours) return Fail(ErrorCode::kConflict, file_ + " was written by another process");

  for (const auto& [key, value] : batch.puts) LAUNCH_RETURN_IF_ERROR(WriteRow(key, &value, next));
  for (const std::string& key : batch.deletes) {
    LAUNCH_RETURN_IF_ERROR(WriteRow(key, nullptr, next));
  }
  for (const Batch::NewEvent& event : batch.events) {
    const StoredEvent stored{.seq = ++next.last_event,
                             .revision = next.revision,
                             .at = batch.at,
                             .kind = event.kind,
                             .subject = event.subject,
                             .body = event.body};
    LAUNCH_RETURN_IF_ERROR(statements_.add_event.Int(1, stored.seq)
                               .Int(2, stored.revision)
                               .Int(3, static_cast<std::uint64_t>(ToMs(stored.at)))
                               .Blob(4, stored.kind)
                               .Blob(5, stored.subject)
                               .Blob(6, stored.body)
                               .Int(7, EventSum(stored))
                               .Run());
  }
  if (const std::uint64_t first = FirstEventToKeep(next); first > next.first_event) {
    LAUNCH_RETURN_IF_ERROR(statements_.drop_events.Int(1, first).Run());
    next.first_event = first;
  }
  const std::string body = EncodeMeta(next);
  LAUNCH_RETURN_IF_ERROR(statements_.set_meta.Blob(1, body).Int(2, Crc32c(body)).Run());
  LAUNCH_FAILPOINT("store.commit.before");
  auto done = Execute(db_.get(), "COMMIT");
  // The log is written and synced before its index in the shared memory grows.
  left_in_log_ = !done && sqlite3_extended_errcode(db_.get()) == SQLITE_IOERR_SHMSIZE;
  LAUNCH_RETURN_IF_ERROR(done);
  LAUNCH_FAILPOINT("store.commit.after");
  return {};
}

// A full disk is rolled back and can be tried again. After anything else the process must end:
// after a failed sync nobody knows what is on the disk. A batch that is whole in the log would be
// back after a crash: the log is emptied, which needs no shared memory, and its index fits again.
Unexpected SqliteStore::Abandon(Error error) {
  bool clean = true;
  if (sqlite3_get_autocommit(db_.get()) == 0) {
    clean = Execute(db_.get(), "ROLLBACK").has_value();
  }
  if (clean && std::exchange(left_in_log_, false)) clean = CheckpointAll(db_.get()).has_value();
  if (!clean) error.code = ErrorCode::kIo;
  if (error.code != ErrorCode::kResourceExhausted) failed_ = error;
  return Unexpected(std::move(error));
}

Result<Committed> SqliteStore::Commit(const Batch& batch) {
  if (failed_) return Unexpected(*failed_);
  LAUNCH_RETURN_IF_ERROR(CheckBatch(batch));
  if (batch.empty()) return Committed{.revision = meta_->revision, .first_event = 0};
  if (checkpointer_->failed()) {
    return Abandon({ErrorCode::kIo, "checkpoint of " + file_ + " failed",
                    "see the kernel's log for"
                    " errors of the disk",
                    std::nullopt});
  }
  StoreMeta next = *meta_;
  ++next.revision;
  auto written = Write(batch, next);
  if (!written && written.error().code == ErrorCode::kResourceExhausted && reserve_.Spend()) {
    const Error full = Abandon(std::move(written).error()).value();
    if (failed_) return Unexpected(full);
    next = *meta_;
    ++next.revision;
    written = Write(batch, next);
  }
  if (!written) return Abandon(std::move(written).error());
  Committed committed{.revision = next.revision, .first_event = 0};
  if (!batch.events.empty()) committed.first_event = meta_->last_event + 1;
  meta_ = std::move(next);
  witness_.Note({meta_->store_id, meta_->revision});
  if (log_pages_ > kLongLogPages) {
    // This commit is durable in the log; an error of the disk forbids the next one.
    if (auto copied = sqlite::TryCheckpoint(db_.get()); !copied) failed_ = copied.error();
  } else if (log_pages_ > kCheckpointPages) {
    checkpointer_->Wake();
  }
  return committed;
}

Result<std::vector<StoredEvent>> SqliteStore::Events(std::uint64_t after_seq, std::size_t max) {
  const MutexLock lock(reader_mutex_);
  LAUNCH_RETURN_IF_ERROR(OpenReader());
  LAUNCH_RETURN_IF_ERROR(Execute(reader_.get(), "BEGIN"));  // meta and events of one revision
  auto events = ReadEvents(reader_.get(), file_, after_seq, max);
  // An open transaction would keep the log from starting over.
  const bool ended = Execute(reader_.get(), "ROLLBACK").has_value();
  if (!events || !ended) reader_.reset();
  return events;
}

}  // namespace

Result<void> MakeSqliteStore(const std::string& dir) {
  LAUNCH_RETURN_IF_ERROR(PosixFileSystem().MakeDirs(dir));
  LAUNCH_ASSIGN_OR_RETURN(const StateLock lock, StateLock::Take(dir));
  LAUNCH_RETURN_IF_ERROR(RefuseNetwork(dir));
  const std::string file = FileOf(dir);
  struct stat facts {};
  if (::lstat(file.c_str(), &facts) == 0) {
    return Fail(ErrorCode::kAlreadyExists, "there is a store already: " + file,
                "start the controller, or use another directory");
  }
  // Built under another name, so that a crash leaves a store or none.
  const std::string draft = file + ".new";
  for (const char* suffix : {"", "-wal", "-shm"}) ::unlink((draft + suffix).c_str());
  {
    const UniqueFd made(::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!made) return FailErrno("create " + draft, errno);
  }
  const std::string body = EncodeMeta(StoreMeta{.store_id = RandomHex(16)});
  {
    LAUNCH_ASSIGN_OR_RETURN(const Database db, sqlite::OpenDatabase(draft, Access::kWrite));
    LAUNCH_RETURN_IF_ERROR(Execute(db.get(), kPragmas));
    LAUNCH_RETURN_IF_ERROR(Execute(
        db.get(), "BEGIN IMMEDIATE; PRAGMA application_id=" + std::to_string(kApplicationId) +
                      "; PRAGMA user_version=" + std::to_string(kSchema) + ";" + kTables));
    LAUNCH_ASSIGN_OR_RETURN(
        Statement insert,
        Statement::Prepare(db.get(), "INSERT INTO meta(id, body, crc) VALUES(1, ?1, ?2)"));
    LAUNCH_RETURN_IF_ERROR(insert.Blob(1, body).Int(2, Crc32c(body)).Run());
    LAUNCH_RETURN_IF_ERROR(Execute(db.get(), "COMMIT"));
    LAUNCH_RETURN_IF_ERROR(CheckpointAll(db.get()));
  }
  LAUNCH_RETURN_IF_ERROR(SyncPath(draft, O_RDWR));
  ::unlink((dir + "/store.witness").c_str());  // it saw another store
  LAUNCH_FAILPOINT("store.init.before");
  if (::rename(draft.c_str(), file.c_str()) != 0) return FailErrno("rename " + draft, errno);
  // SQLite does not report a failed sync of the directory it creates files in, so it is done here.
  return SyncPath(dir, O_RDONLY | O_DIRECTORY);
}

Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& dir, StoreKeeps keeps) {
  return SqliteStore::Open(dir, keeps);
}

}  // namespace launch::controller
