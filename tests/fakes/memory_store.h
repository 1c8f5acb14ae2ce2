// A Store in memory for the simulator and tests: the same contract.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "controller/store/store.h"

namespace launch::testing {

class MemoryStore final : public controller::Store {
 public:
  // What a process that starts after a kill of this one finds: everything that was acknowledged.
  std::unique_ptr<MemoryStore> Crash() const {
    const std::lock_guard lock(mutex_);
    auto next = std::make_unique<MemoryStore>();
    next->rows_ = rows_;
    next->events_ = events_;
    next->revision_ = revision_;
    return next;
  }

  Result<controller::Snapshot> Load() override {
    const std::lock_guard lock(mutex_);
    controller::Snapshot snapshot{.revision = revision_, .last_event = events_.size(), .rows = {}};
    for (const auto& [key, row] : rows_) snapshot.rows.push_back(row);
    loaded_ = true;
    return snapshot;
  }

  Result<std::vector<controller::StoredRow>> Read(const std::string& prefix) override {
    const std::lock_guard lock(mutex_);
    std::vector<controller::StoredRow> found;
    for (auto row = rows_.lower_bound(prefix); row != rows_.end() && row->first.starts_with(prefix);
         ++row) {
      found.push_back(row->second);
    }
    return found;
  }

  Result<controller::Committed> Commit(const controller::Batch& batch) override {
    const std::lock_guard lock(mutex_);
    if (!loaded_) {
      return Fail(ErrorCode::kFailedPrecondition, "commit before the store was loaded");
    }
    if (batch.expected != revision_) {
      return Fail(ErrorCode::kConflict, "the batch follows another revision");
    }
    for (const auto& [key, value] : batch.puts) {
      if (key.empty() || value.size() > Limits().bytes_per_value) {
        return Fail(ErrorCode::kInvalidArgument, "row " + key + " is too large");
      }
    }
    if (batch.empty()) return controller::Committed{revision_, 0};
    return Write(batch);
  }

  Result<std::vector<controller::StoredEvent>> Events(std::uint64_t after_seq,
                                                      std::size_t max) override {
    const std::lock_guard lock(mutex_);
    std::vector<controller::StoredEvent> events;
    for (std::uint64_t seq = after_seq; seq < events_.size() && events.size() < max; ++seq) {
      events.push_back(events_[seq]);
    }
    return events;
  }

  controller::StoreLimits Limits() const override { return {}; }

 private:
  controller::Committed Write(const controller::Batch& batch) {
    ++revision_;
    for (const auto& [key, value] : batch.puts) rows_[key] = {key, value, revision_};
    for (const std::string& key : batch.deletes) rows_.erase(key);
    controller::Committed committed{revision_, batch.events.empty() ? 0 : events_.size() + 1};
    for (const auto& event : batch.events) {
      events_.push_back({.seq = events_.size() + 1,
                         .revision = revision_,
                         .at = batch.at,
                         .kind = event.kind,
                         .subject = event.subject,
                         .body = event.body});
    }
    return committed;
  }

  mutable std::mutex mutex_;  // Events may be asked from any thread
  std::map<std::string, controller::StoredRow> rows_;
  std::vector<controller::StoredEvent> events_;
  controller::Revision revision_ = 0;
  bool loaded_ = false;
};

}  // namespace launch::testing
