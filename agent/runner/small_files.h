// Files of the kernel and of an attempt that are small and may be gone at any moment.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "common/foreign_file.h"

namespace launch::agent {

inline bool Exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

// Whether the file is proved not to exist. One of which the disk or the kernel would not tell may
// exist: it is neither absent nor present.
inline bool IsAbsent(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

// The first 64 KiB of the file; empty when it cannot be read.
inline std::string ReadText(const std::string& path) { return ReadHead(path, 64 * 1024); }

// The environment that a process was started with. It may have told the kernel that its variables
// lie elsewhere and are as long as it pleased (PR_SET_MM): more than the kernel gives to a new
// program is not read.
inline std::string ReadEnvironment(const std::string& proc) {
  constexpr std::size_t kMost = std::size_t{6} << 20;  // fs/exec.c: three quarters of 8 MiB
  return ReadHead(proc + "/environ", kMost);
}

}  // namespace launch::agent
