// A file system that keeps some bytes back, so that a stop can still be recorded on a full disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/file_system.h"

namespace launch::agent {

// The reserve is a file of allocated blocks. The first write that finds no room removes it and is
// tried again: not at a share of the disk, because large disks run at 97 % for years, and the bytes
// are worth most at the very moment when nothing else is left. Restore makes it again when there is
// room. Every method may be called from any thread; Restore from one.
class ReservedFiles final : public FileSystem {
 public:
  // `files` is borrowed. No reserve is made before the first Restore.
  ReservedFiles(FileSystem& files, std::string reserve_path, std::uint64_t bytes)
      : files_(files), path_(std::move(reserve_path)), bytes_(bytes) {}

  // True once after each time the reserve had to be given up.
  bool TakeSpent() { return spent_.exchange(false); }
  // `free_bytes` are free on the disk; the reserve must leave `keep_bytes` of them to others.
  void Restore(std::uint64_t free_bytes, std::uint64_t keep_bytes);

  Result<std::string> Read(const std::string& path, std::size_t max_bytes) override {
    return files_.Read(path, max_bytes);
  }
  Result<void> Write(const std::string& path, std::string_view bytes) override;
  Result<void> WriteDurable(const std::string& path, std::string_view bytes) override;
  Result<void> MakeDirs(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& path) override {
    return files_.List(path);
  }
  Result<void> RemoveTree(const std::string& path) override { return files_.RemoveTree(path); }
  Result<void> SyncDir(const std::string& path) override;

 private:
  template <class Try>
  Result<void> WithReserve(Try once);

  FileSystem& files_;
  const std::string path_;
  const std::uint64_t bytes_;
  std::atomic<bool> spent_{false};
};

}  // namespace launch::agent
