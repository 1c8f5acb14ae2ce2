// Copies the write-ahead log into the database on a thread of its own, so that no commit waits for
// it.
#pragma once

#include <atomic>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>

#include "common/error.h"
#include "controller/store/sqlite_handle.h"

namespace launch::controller {

class WalCheckpointer {
 public:
  static Result<std::unique_ptr<WalCheckpointer>> Start(const std::string& path);
  ~WalCheckpointer();  // waits for a checkpoint under way

  void Wake();  // any thread; a wake during a checkpoint makes one more
  // A sync of the database failed: what the log still holds must not be built upon.
  bool failed() const { return failed_.load(); }

 private:
  explicit WalCheckpointer(sqlite::Database db);
  void Run();

  sqlite::Database db_;
  std::counting_semaphore<> wake_{0};
  std::atomic<bool> pending_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace launch::controller
