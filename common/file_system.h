// Durable file operations behind a seam, so that tests can fail the Nth call or drop unsynced data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/unique_fd.h"

namespace launch {

// Whether there is anything at `path`; links are followed. What cannot be looked at counts as
// absent, where std::filesystem::exists throws: a directory of somebody else's, a stale handle, a
// loop of links.
bool PathExists(const std::string& path);

// Paths are absolute. Every error names the call and the path.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::string> Read(const std::string& path, std::size_t max_bytes) = 0;
  // Writes a new file and renames it over `path`: readers get the whole old or new content, but a
  // power failure may undo it. For what nobody reads after a reboot. Mode 0600.
  virtual Result<void> Write(const std::string& path, std::string_view bytes) = 0;
  // The same with fdatasync before and a directory sync after: durable when it returns.
  virtual Result<void> WriteDurable(const std::string& path, std::string_view bytes) = 0;
  virtual Result<void> MakeDirs(const std::string& path) = 0;  // mode 0700; existing is fine
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;  // names, sorted
  // Removes the file or directory with all below it; a missing one is no error. Follows no link and
  // enters no mount; removes what it can and returns the first error.
  virtual Result<void> RemoveTree(const std::string& path) = 0;
  virtual Result<void> SyncDir(const std::string& path) = 0;
};

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::string> Read(const std::string& path, std::size_t max_bytes) override;
  Result<void> Write(const std::string& path, std::string_view bytes) override;
  Result<void> WriteDurable(const std::string& path, std::string_view bytes) override;
  Result<void> MakeDirs(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& path) override;
  Result<void> RemoveTree(const std::string& path) override;
  Result<void> SyncDir(const std::string& path) override;
};

}  // namespace launch
