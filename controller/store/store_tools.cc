#include "controller/store/store_tools.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "common/failpoint.h"
#include "common/unique_fd.h"
#include "controller/store/local_disk.h"
#include "controller/store/record_codec.h"
#include "controller/store/sqlite_store.h"
#include "controller/store/state_lock.h"
#include "controller/store/store_reader.h"

namespace launch::controller {
namespace {

namespace fs = std::filesystem;
using sqlite::Access;
using sqlite::Database;
using sqlite::Execute;
using sqlite::LastError;

constexpr std::size_t kEventsChecked = 10'000;

constexpr std::array<const char*, 2> kLogSuffixes = {"-wal", "-shm"};

bool IsThere(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0;
}

// Also the log of a store that a restore which was cut short did not move with it.
bool IsAnyThere(const std::string& file) {
  return IsThere(file) || std::ranges::any_of(kLogSuffixes, [&](const char* suffix) {
           return IsThere(file + suffix);
         });
}

Result<void> Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return FailErrno("rename " + from, errno);
  return {};
}

std::string Parent(const std::string& path) {
  const std::string parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

// Whether the file begins as a database of ours does: SQLite's magic, and the application id at
// byte 68 (sqlite.org/fileformat2.html, "The Database Header").
bool IsOfLaunch(const std::string& file) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  constexpr std::size_t kApplicationAt = 68;
  std::array<char, kApplicationAt + 4> header{};
  std::ifstream in(file, std::ios::binary);
  if (!in.read(header.data(), header.size())) return false;
  std::int64_t application = 0;
  for (std::size_t i = 0; i < 4; ++i)
    application = application << 8 | static_cast<unsigned char>(header[kApplicationAt + i]);
  return std::string_view(header.data(), kMagic.size()) == kMagic && application == kApplicationId;
}

Result<std::uint64_t> CheckEvents(sqlite3* db, const std::string& file, const StoreMeta& meta) {
  LAUNCH_RETURN_IF_ERROR(CheckEventEnds(db, file, meta));
  std::uint64_t count = 0;
  std::uint64_t after = meta.first_event - 1;
  while (true) {
    LAUNCH_ASSIGN_OR_RETURN(const auto events, ReadEvents(db, file, after, kEventsChecked));
    count += events.size();
    if (events.size() < kEventsChecked) return count;
    after = events.back().seq;
  }
}

// Into a new file that needs no log beside it.
Result<void> Copy(const std::string& from, const std::string& to) {
  {
    const UniqueFd made(::open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!made) return FailErrno("create " + to, errno);
  }
  LAUNCH_ASSIGN_OR_RETURN(const Database source, sqlite::OpenDatabase(from, Access::kRead));
  LAUNCH_ASSIGN_OR_RETURN(const Database target, sqlite::OpenDatabase(to, Access::kWrite));
  sqlite3_backup* const copy = sqlite3_backup_init(target.get(), "main", source.get(), "main");
  if (copy == nullptr) return Unexpected(LastError(target.get(), "backup"));
  const int code = sqlite3_backup_step(copy, -1);  // all pages, under one read transaction
  (void)sqlite3_backup_finish(copy);
  if (code != SQLITE_DONE) return Unexpected(LastError(target.get(), "backup"));
  return Execute(target.get(), "PRAGMA journal_mode=DELETE");
}

// A store moves with the log that belongs to it, the log first: beside another database it would be
// taken for the log of that one, and a store without its log is seen by the witness.
Result<std::string> MoveAside(const std::string& file) {
  std::string aside;
  for (int number = 1; aside.empty() || IsAnyThere(aside); ++number) {
    aside = file + ".old-" + std::to_string(number);
  }
  for (const char* suffix : kLogSuffixes) {
    if (IsThere(file + suffix)) LAUNCH_RETURN_IF_ERROR(Rename(file + suffix, aside + suffix));
  }
  if (!IsThere(file)) return std::string();
  LAUNCH_RETURN_IF_ERROR(Rename(file, aside));
  return aside;
}

// The store of an earlier restore that was cut short, or that somebody moved away; empty: none.
std::string NewestAside(const std::string& file) {
  std::string newest;
  for (int number = 1;; ++number) {
    const std::string aside = file + ".old-" + std::to_string(number);
    if (!IsAnyThere(aside)) return newest;
    if (IsThere(aside)) newest = aside;
  }
}

// What of a store goes on through a restore.
struct Lasting {
  ClusterRecord cluster;
  AccessRecords access;
};
struct OldStore {
  std::string id;
  Lasting lasting;
};

bool IsOfAccess(const std::string& key) {
  constexpr std::array<std::string_view, 4> kPrefixes = {"deny/", "user/", "join/", "node/"};
  return std::ranges::any_of(kPrefixes,
                             [&](std::string_view prefix) { return key.starts_with(prefix); });
}

Result<Lasting> LastingOf(const std::vector<StoredRow>& rows) {
  Lasting lasting;
  for (const StoredRow& row : rows) {
    const bool cluster = row.key == KeyOf(lasting.cluster);
    if (!cluster && !IsOfAccess(row.key)) continue;
    LAUNCH_ASSIGN_OR_RETURN(Entity entity, DecodeRecord(row.key, row.value));
    if (cluster) {
      lasting.cluster = std::get<ClusterRecord>(entity);
    } else {
      lasting.access.emplace(row.key, std::move(entity));
    }
  }
  return lasting;
}

Result<OldStore> ReadOld(const std::string& file) {
  LAUNCH_ASSIGN_OR_RETURN(const Database db, sqlite::OpenDatabase(file, Access::kRead));
  LAUNCH_RETURN_IF_ERROR(CheckSchema(db.get(), file));
  LAUNCH_RETURN_IF_ERROR(Execute(db.get(), "BEGIN"));
  LAUNCH_ASSIGN_OR_RETURN(const StoreMeta meta, ReadMeta(db.get(), file));
  LAUNCH_ASSIGN_OR_RETURN(const auto rows, ReadRows(db.get(), file, meta));
  LAUNCH_ASSIGN_OR_RETURN(Lasting lasting, LastingOf(rows));
  return OldStore{meta.store_id, std::move(lasting)};
}

// In as many commits as the store needs.
Result<void> PutAll(Store& store, Revision revision, const std::vector<Entity>& entities) {
  const StoreLimits limits = store.Limits();
  Batch batch{.expected = revision};
  std::size_t bytes = 0;
  const auto commit = [&]() -> Result<void> {
    if (batch.puts.empty()) return {};
    LAUNCH_ASSIGN_OR_RETURN(const Committed committed, store.Commit(batch));
    batch = Batch{.expected = committed.revision};
    bytes = 0;
    return {};
  };
  for (const Entity& entity : entities) {
    std::string key = KeyOf(entity);
    std::string value = EncodeRecord(entity);
    const std::size_t more = key.size() + value.size();
    if (batch.puts.size() == limits.records_per_batch || bytes + more > limits.bytes_per_batch)
      LAUNCH_RETURN_IF_ERROR(commit());
    bytes += more;
    batch.puts.emplace_back(std::move(key), std::move(value));
  }
  return commit();
}

Result<CarriedOver> GoOnFrom(const Lasting& old, const std::string& dir) {
  LAUNCH_ASSIGN_OR_RETURN(const auto store, OpenSqliteStore(dir, {.reserve_bytes = 0}));
  LAUNCH_ASSIGN_OR_RETURN(const Snapshot snapshot, store->Load());
  LAUNCH_ASSIGN_OR_RETURN(const Lasting restored, LastingOf(snapshot.rows));
  CarriedOver carried;
  std::vector<Entity> puts = ShutOutsFrom(old.access, restored.access, carried);
  if (!restored.cluster.id.empty()) puts.push_back(GoneOnFrom(restored.cluster, old.cluster));
  LAUNCH_RETURN_IF_ERROR(PutAll(*store, snapshot.revision, puts));
  return carried;
}

// The restored record as the old store would have it; absent: it may stay as it is. `restored` is
// null where the backup has none.

std::optional<Entity> StillShutOut(const DenyRecord& old, const DenyRecord* restored,
                                   CarriedOver& carried) {
  if (restored != nullptr) return std::nullopt;
  ++carried.certificates;
  return old;
}

// A user that was shut out may have come back with the certificate that is named there.
std::optional<Entity> StillShutOut(const UserRecord& old, const UserRecord* restored,
                                   CarriedOver& carried) {
  UserRecord user = restored == nullptr ? UserRecord{old.name, false, "", {}} : *restored;
  const bool was_operator = user.is_operator;
  user.is_operator = user.is_operator && old.is_operator;
  if (old.revoked > user.revoked) carried.shut_out.push_back(user.name);
  if (was_operator && !user.is_operator) carried.no_operator.push_back(user.name);
  if (old.revoked != WallTime{}) {
    user.revoked = old.revoked;
    user.certificate_serial = old.certificate_serial;
  }
  const bool same = restored == nullptr ? old.revoked == WallTime{} : user == *restored;
  return same ? std::nullopt : std::optional<Entity>(std::move(user));
}

std::optional<Entity> StillShutOut(const JoinRecord& old, const JoinRecord* restored,
                                   CarriedOver& carried) {
  if (restored == nullptr) return std::nullopt;  // one that is not known opens nothing
  JoinRecord token = *restored;
  if (old.used && !token.used) ++carried.tokens_used;
  if (old.revoked && !token.revoked) ++carried.tokens_revoked;
  token.used = token.used || old.used;
  token.revoked = token.revoked || old.revoked;
  return token == *restored ? std::nullopt : std::optional<Entity>(std::move(token));
}

// One that renewed or joined again is not to be taken for a thief of its name, nor the certificate
// of before for its own.
std::optional<Entity> StillShutOut(const NodeRecord& old, const NodeRecord* restored,
                                   CarriedOver& carried) {
  if (restored == nullptr || (restored->certificate_serial == old.certificate_serial &&
                              restored->earlier_serial == old.earlier_serial)) {
    return std::nullopt;
  }
  NodeRecord node = *restored;
  node.certificate_serial = old.certificate_serial;
  node.earlier_serial = old.earlier_serial;
  node.machine = old.machine;
  carried.nodes.push_back(node.id);
  return node;
}

}  // namespace

std::vector<Entity> ShutOutsFrom(const AccessRecords& old, const AccessRecords& restored,
                                 CarriedOver& carried) {
  std::vector<Entity> puts;
  for (const auto& [key, entity] : old) {
    const auto found = restored.find(key);
    const auto put = std::visit(
        [&]<class Kind>(const Kind& one) -> std::optional<Entity> {
          if constexpr (requires { StillShutOut(one, nullptr, carried); }) {
            const auto* same =
                found == restored.end() ? nullptr : std::get_if<Kind>(&found->second);
            return StillShutOut(one, same, carried);
          }
          return std::nullopt;
        },
        entity);
    if (put) puts.push_back(*put);
  }
  return puts;
}

ClusterRecord GoneOnFrom(ClusterRecord restored, const ClusterRecord& old) {
  restored.incarnation = std::max(restored.incarnation, old.incarnation);
  restored.epoch = std::max(restored.epoch, old.epoch);
  restored.next_job = std::max(restored.next_job, old.next_job);
  return restored;
}

namespace {

// Not one that cannot be looked at, of which SQLite says why.
bool IsAbsent(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

// The controller's directory in that of an embedded cluster, which may be meant; empty: there is
// none beside the file.
std::string OwnDirectory(const std::string& file) {
  const fs::path own = fs::path(file).parent_path() / "controller";
  return IsThere((own / "store.db").string()) ? own.string() : std::string();
}

Error NoStore(const std::string& file) {
  const std::string own = OwnDirectory(file);
  return Error{ErrorCode::kNotFound,
               "there is no " + file,
               own.empty() ? "name the database itself, as in STATE/store.db"
                           : "the controller's own directory is " + own,
               {}};
}

}  // namespace

Result<StoreFacts> CheckStore(const std::string& file) {
  if (IsAbsent(file)) return Unexpected(NoStore(file));
  LAUNCH_ASSIGN_OR_RETURN(const Database db, sqlite::OpenDatabase(file, Access::kRead));
  LAUNCH_RETURN_IF_ERROR(CheckSchema(db.get(), file));
  LAUNCH_RETURN_IF_ERROR(Execute(db.get(), "BEGIN"));  // all of one moment
  LAUNCH_ASSIGN_OR_RETURN(const StoreMeta meta, ReadMeta(db.get(), file));
  LAUNCH_ASSIGN_OR_RETURN(const auto rows, ReadRows(db.get(), file, meta));
  for (const StoredRow& row : rows) {
    if (auto entity = DecodeRecord(row.key, row.value); !entity) {
      return Fail(ErrorCode::kDataLoss, file + ": row " + row.key + ": " + entity.error().message,
                  "it was written by a newer release, or by another program");
    }
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::uint64_t events, CheckEvents(db.get(), file, meta));
  return StoreFacts{meta.store_id, meta.revision, kSchema, meta.rows, events};
}

Result<StoreFacts> CheckBackup(const std::string& file) {
  auto facts = CheckStore(file);
  if (facts || facts.error().code != ErrorCode::kDataLoss) return facts;
  if (!IsOfLaunch(file)) {
    return Fail(ErrorCode::kInvalidArgument, file + " is not a backup of launch",
                "name a file that `launch server backup` wrote");
  }
  const std::string& why = facts.error().message;
  return Fail(
      ErrorCode::kInvalidArgument,
      "this backup is damaged: " + (why.find(file) == std::string::npos ? file + ": " : "") + why,
      "take another backup; no store was touched");
}

Result<StoreFacts> BackupStore(const std::string& dir, const std::string& target) {
  if (IsThere(target)) {
    return Fail(ErrorCode::kAlreadyExists, target + " is there already", "choose a new name");
  }
  const std::string file = dir + "/store.db";
  if (IsAbsent(file)) return Unexpected(NoStore(file));
  const std::string draft = target + ".new";
  (void)::unlink(draft.c_str());
  const auto made = [&]() -> Result<StoreFacts> {
    LAUNCH_RETURN_IF_ERROR(Copy(file, draft));
    LAUNCH_ASSIGN_OR_RETURN(StoreFacts facts, CheckStore(draft));
    LAUNCH_RETURN_IF_ERROR(SyncPath(draft, O_RDWR));
    LAUNCH_FAILPOINT("backup.before");
    LAUNCH_RETURN_IF_ERROR(Rename(draft, target));
    LAUNCH_RETURN_IF_ERROR(SyncPath(Parent(target), O_RDONLY | O_DIRECTORY));
    return facts;
  }();
  if (!made) (void)::unlink(draft.c_str());
  return made;
}

Result<Restored> RestoreStore(const std::string& backup, const std::string& dir) {
  const std::string file = dir + "/store.db";
  if (IsAbsent(file) && NewestAside(file).empty() && !OwnDirectory(file).empty())
    return Unexpected(NoStore(file));
  LAUNCH_ASSIGN_OR_RETURN(const StateLock lock, StateLock::Take(dir));
  Restored restored;
  LAUNCH_ASSIGN_OR_RETURN(restored.facts, CheckBackup(backup));
  std::optional<OldStore> old;
  const std::string before = IsThere(file) ? file : NewestAside(file);
  if (!before.empty()) {
    if (auto read = ReadOld(before)) {
      old = std::move(*read);
    } else {
      restored.unreadable = read.error().message;
    }
  }
  if (old && before == file && old->id != restored.facts.store_id) {
    return Fail(ErrorCode::kFailedPrecondition,
                backup + " is of store " + restored.facts.store_id + ", but " + file +
                    " is store " + old->id,
                "name a backup of this cluster, or move " + file + " away if that one is meant");
  }
  // In a directory of its own until it is whole.
  const std::string draft = dir + "/store.restored";
  std::error_code failed;
  fs::remove_all(draft, failed);
  if (::mkdir(draft.c_str(), 0700) != 0) return FailErrno("mkdir " + draft, errno);
  const auto put_back = [&]() -> Result<void> {
    const std::string made = draft + "/store.db";
    LAUNCH_RETURN_IF_ERROR(Copy(backup, made));
    if (old && old->id == restored.facts.store_id) {
      LAUNCH_ASSIGN_OR_RETURN(restored.carried, GoOnFrom(old->lasting, draft));
    }
    LAUNCH_ASSIGN_OR_RETURN(restored.facts, CheckStore(made));
    LAUNCH_RETURN_IF_ERROR(SyncPath(made, O_RDWR));
    LAUNCH_ASSIGN_OR_RETURN(restored.old_store, MoveAside(file));
    // Without a witness the next start knows that commits may be missing.
    (void)::unlink((dir + "/store.witness").c_str());
    LAUNCH_FAILPOINT("restore.before");
    LAUNCH_RETURN_IF_ERROR(Rename(made, file));
    return SyncPath(dir, O_RDONLY | O_DIRECTORY);
  };
  const auto done = put_back();
  fs::remove_all(draft, failed);  // also of one that failed: on a full disk it would stay full
  if (!done) return Unexpected(done.error());
  return restored;
}

}  // namespace launch::controller
