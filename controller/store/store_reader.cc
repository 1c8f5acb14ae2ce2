#include "controller/store/store_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/pki.h"
#include "common/planted.h"

namespace launch::controller {

using sqlite::QueryInt;
using sqlite::QueryText;
using sqlite::Statement;

Unexpected Damaged(const std::string& file, const std::string& what) {
  return Fail(ErrorCode::kDataLoss, file + ": " + what,
              "nothing was changed; `launch server check` says more, `launch server restore` puts "
              "back a backup");
}

// Is the file ours, and of a version that we know?
Result<void> CheckSchema(sqlite3* db, const std::string& file) {
  LAUNCH_ASSIGN_OR_RETURN(const std::int64_t application, QueryInt(db, "PRAGMA application_id"));
  if (application != kApplicationId) {
    return Fail(ErrorCode::kDataLoss, file + " is the database of another program",
                "is this the right state directory?");
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::int64_t schema, QueryInt(db, "PRAGMA user_version"));
  if (schema > kSchema) {
    return Fail(ErrorCode::kFailedPrecondition,
                file + " has schema " + std::to_string(schema) + ", this version reads up to " +
                    std::to_string(kSchema),
                "start the release that wrote it, or a newer one");
  }
  if (schema < 1) return Damaged(file, "schema " + std::to_string(schema) + " never existed");
  if (schema < kSchema) {
    return Fail(ErrorCode::kFailedPrecondition,
                file + " has schema " + std::to_string(schema) + " of an older release",
                "start this controller on it once: it keeps a copy and brings it to schema " +
                    std::to_string(kSchema));
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::string check, QueryText(db, "PRAGMA quick_check(1)"));
  if (check != "ok") return Damaged(file, check);
  return {};
}

Result<StoreMeta> ReadMeta(sqlite3* db, const std::string& file) {
  LAUNCH_ASSIGN_OR_RETURN(Statement select,
                          Statement::Prepare(db, "SELECT body, crc FROM meta WHERE id = 1"));
  LAUNCH_ASSIGN_OR_RETURN(const bool row, select.Step());
  if (!row) return Damaged(file, "row meta is missing");
  const std::string body = select.BlobAt(0);
  const std::optional<StoreMeta> meta = DecodeMeta(body);
  if (!meta || select.IntAt(1) != Crc32c(body)) return Damaged(file, "row meta is damaged");
  return *meta;
}

Result<std::vector<StoredRow>> ReadRows(sqlite3* db, const std::string& file,
                                        const StoreMeta& meta) {
  std::vector<StoredRow> rows;
  SetDigest digest;
  LAUNCH_ASSIGN_OR_RETURN(
      Statement select,
      Statement::Prepare(db, "SELECT key, revision, value, crc FROM kv ORDER BY key"));
  while (true) {
    LAUNCH_ASSIGN_OR_RETURN(const bool more, select.Step());
    if (!more) break;
    StoredRow row{.key = select.BlobAt(0), .value = select.BlobAt(2), .revision = select.IntAt(1)};
    const bool checked = !Planted(Bug::kUncheckedRows);
    if (checked && select.IntAt(3) != RowSum(row.key, row.revision, row.value)) {
      return Damaged(file, "row " + row.key + " is damaged");
    }
    if (row.revision > meta.revision || (!rows.empty() && rows.back().key >= row.key)) {
      return Damaged(file, "row " + row.key + " is out of order");
    }
    digest.Add(row.key, row.revision, row.value);
    rows.push_back(std::move(row));
  }
  const bool as_written = digest == meta.digest || Planted(Bug::kUncheckedRows);
  if (rows.size() != meta.rows || !as_written) {
    return Damaged(file, "its " + std::to_string(rows.size()) + " rows are not the " +
                             std::to_string(meta.rows) + " of revision " +
                             std::to_string(meta.revision));
  }
  return rows;
}

Result<void> CheckEventEnds(sqlite3* db, const std::string& file, const StoreMeta& meta) {
  LAUNCH_ASSIGN_OR_RETURN(const std::int64_t first,
                          QueryInt(db, "SELECT ifnull(min(seq), 0) FROM event"));
  LAUNCH_ASSIGN_OR_RETURN(const std::int64_t last,
                          QueryInt(db, "SELECT ifnull(max(seq), 0) FROM event"));
  const bool empty = meta.last_event < meta.first_event;
  const std::uint64_t want_first = empty ? 0 : meta.first_event;
  const std::uint64_t want_last = empty ? 0 : meta.last_event;
  if (static_cast<std::uint64_t>(first) != want_first ||
      static_cast<std::uint64_t>(last) != want_last) {
    return Damaged(file, "the events are " + std::to_string(first) + " to " + std::to_string(last) +
                             ", but should be " + std::to_string(want_first) + " to " +
                             std::to_string(want_last));
  }
  return {};
}

Result<std::vector<StoredEvent>> ReadEvents(sqlite3* db, const std::string& file,
                                            std::uint64_t after_seq, std::size_t max) {
  LAUNCH_ASSIGN_OR_RETURN(const StoreMeta meta, ReadMeta(db, file));
  std::vector<StoredEvent> events;
  std::uint64_t next = std::max(after_seq + 1, meta.first_event);
  LAUNCH_ASSIGN_OR_RETURN(
      Statement select,
      Statement::Prepare(db,
                         "SELECT seq, revision, wall_ms, kind, subject, body, crc FROM event"
                         " WHERE seq >= ?1 ORDER BY seq LIMIT ?2"));
  const std::uint64_t left = next > meta.last_event ? 0 : meta.last_event - next + 1;
  const std::uint64_t count = std::min<std::uint64_t>(max, left);
  select.Int(1, next).Int(2, count);
  for (; events.size() < count; ++next) {
    LAUNCH_ASSIGN_OR_RETURN(const bool more, select.Step());
    if (!more) return Damaged(file, "event " + std::to_string(next) + " is missing");
    StoredEvent event{.seq = select.IntAt(0),
                      .revision = select.IntAt(1),
                      .at = WallMs(static_cast<std::int64_t>(select.IntAt(2))),
                      .kind = select.BlobAt(3),
                      .subject = select.BlobAt(4),
                      .body = select.BlobAt(5)};
    if (event.seq != next || select.IntAt(6) != EventSum(event)) {
      return Damaged(file, "event " + std::to_string(next) + " is damaged");
    }
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace launch::controller
