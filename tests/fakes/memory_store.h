// A Store in memory that keeps every rule of the interface and can be told to refuse a commit.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "controller/store/store.h"

namespace launch::controller {

class MemoryStore final : public Store {
 public:
  StoreLimits limits;
  std::optional<Error> refuse;  // answer of the commits to come
  std::vector<Batch> batches;   // as committed
  std::map<std::string, std::string> rows;

  Result<Snapshot> Load() override {
    Snapshot snapshot;
    snapshot.revision = revision_;
    snapshot.last_event = events_.size();
    for (const auto& [key, value] : rows) snapshot.rows.push_back({key, value, revision_});
    return snapshot;
  }

  Result<Committed> Commit(const Batch& batch) override {
    if (refuse) return Unexpected(*refuse);
    if (batch.expected != revision_) return Fail(ErrorCode::kConflict, "another writer");
    std::size_t bytes = 0;
    for (const auto& [key, value] : batch.puts) bytes += key.size() + value.size();
    if (batch.puts.size() + batch.deletes.size() > limits.records_per_batch ||
        bytes > limits.bytes_per_batch) {
      return Fail(ErrorCode::kInternal, "a batch beyond the limits of the store");
    }
    Committed committed{++revision_, 0};
    for (const auto& [key, value] : batch.puts) rows[key] = value;
    for (const std::string& key : batch.deletes) rows.erase(key);
    const std::lock_guard lock(mutex_);
    for (const auto& event : batch.events) {
      events_.push_back(
          {events_.size() + 1, revision_, batch.at, event.kind, event.subject, event.body});
      if (committed.first_event == 0) committed.first_event = events_.size();
    }
    batches.push_back(batch);
    return committed;
  }

  Result<std::vector<StoredEvent>> Events(std::uint64_t after_seq, std::size_t max) override {
    const std::lock_guard lock(mutex_);
    std::vector<StoredEvent> found;
    for (std::size_t i = after_seq; i < events_.size() && found.size() < max; ++i) {
      found.push_back(events_[i]);
    }
    return found;
  }

  StoreLimits Limits() const override { return limits; }

 private:
  Revision revision_ = 0;
  std::mutex mutex_;
  std::vector<StoredEvent> events_;  // guarded by mutex_
};

}  // namespace launch::controller
