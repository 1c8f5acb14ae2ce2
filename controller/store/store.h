// Durable ordered map with one writer, behind which SQLite (later etcd) lives.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/error.h"

namespace launch::controller {

using Revision = std::uint64_t;

struct StoredRow {
  std::string key;
  std::string value;
  Revision revision = 0;
};

struct StoredEvent {
  std::uint64_t seq = 0;
  Revision revision = 0;
  WallTime at{};
  std::string kind;
  std::string subject;
  std::string body;
};

struct Snapshot {
  Revision revision = 0;
  std::uint64_t last_event = 0;
  std::vector<StoredRow> rows;  // ordered by key
  // Nothing beside the store says that this is its newest state: a copy may have been put back.
  bool unwitnessed = false;
};

// One decision, or several of one group commit: atomic, durable when Commit returns.
struct Batch {
  Revision expected = 0;  // revision this batch follows; another one is kConflict
  WallTime at{};
  std::vector<std::pair<std::string, std::string>> puts;
  std::vector<std::string> deletes;
  struct NewEvent {
    std::string kind;
    std::string subject;
    std::string body;
  };
  std::vector<NewEvent> events;
  bool empty() const { return puts.empty() && deletes.empty() && events.empty(); }
};

struct Committed {
  Revision revision = 0;
  std::uint64_t first_event = 0;  // seq of the first event of the batch; 0 = none
};

struct StoreLimits {
  std::size_t records_per_batch = 120;
  std::size_t bytes_per_batch = 1280 << 10;
  std::size_t bytes_per_value = 1 << 20;  // a job's specification, source and files are one value
  std::size_t bytes_per_key = 1 << 10;
};

// Loop thread only, but for Read and Events, which may be called from any thread and see what is
// committed. Values are opaque bytes.
// Errors: kConflict = another writer, exit; kResourceExhausted = full, nothing written, go on;
// kDataLoss / kIo = corruption or a failed sync: the process must end, the message names file and
// row.
class Store {
 public:
  virtual ~Store() = default;
  virtual Result<Snapshot> Load() = 0;  // every row verified; fails closed
  // Rows whose keys begin with `prefix`, by key, each verified.
  virtual Result<std::vector<StoredRow>> Read(const std::string& prefix) = 0;
  virtual Result<Committed> Commit(const Batch& batch) = 0;
  virtual Result<std::vector<StoredEvent>> Events(std::uint64_t after_seq, std::size_t max) = 0;
  virtual StoreLimits Limits() const = 0;
  // The disk is full but for what was kept back: take on nothing new. Looks again while it is so,
  // every few seconds.
  virtual bool Low(BootTime /*now*/) { return false; }
};

}  // namespace launch::controller
