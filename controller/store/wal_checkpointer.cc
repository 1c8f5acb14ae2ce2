#include "controller/store/wal_checkpointer.h"

#include <utility>

namespace launch::controller {

Result<std::unique_ptr<WalCheckpointer>> WalCheckpointer::Start(const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(sqlite::Database db, sqlite::OpenDatabase(path, sqlite::Access::kWrite));
  LAUNCH_RETURN_IF_ERROR(
      sqlite::Execute(db.get(), "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0"));
  return std::unique_ptr<WalCheckpointer>(new WalCheckpointer(std::move(db)));
}

WalCheckpointer::WalCheckpointer(sqlite::Database db)
    : db_(std::move(db)), thread_([this] { Run(); }) {}

WalCheckpointer::~WalCheckpointer() {
  stop_ = true;
  wake_.release();
  thread_.join();
}

void WalCheckpointer::Wake() {
  if (!pending_.exchange(true)) wake_.release();
}

void WalCheckpointer::Run() {
  while (true) {
    wake_.acquire();
    if (stop_) return;
    pending_ = false;
    if (!sqlite::TryCheckpoint(db_.get())) failed_ = true;
  }
}

}  // namespace launch::controller
