// A copy of a working directory as chunks: which files belong to it, how large it is, what it
// hashes to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/snapshot.h"

namespace launch {

struct CopyLimits {
  std::uint64_t bytes = kMostCopyBytes;
  std::size_t files = kMostCopyFiles;
};

struct ChunkSource {
  std::string path;  // absolute; empty: `text` holds the bytes
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
  std::string text;
};

struct WorkdirCopy {
  std::string root;  // digest; names the copy
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, ChunkSource> chunks;  // by digest
  std::vector<std::string> skipped;           // sockets, pipes and devices
  std::vector<std::string> leaving;           // links to what is not in the copy: "data -> /mnt"
  std::vector<std::string> unsure;            // left out by .gitignore; git may track them
  std::string unsure_why;                     // what kept us from asking git
};

// The copy of `directory`, without .git and what .launchignore and .gitignore (except for what git
// tracks) leave out, read as copy_rules.h says. Links are copied as links; one with the absolute
// path of something in the directory becomes a relative one. kConflict for a file that changes
// while it is read. Over a limit: kResourceExhausted with the largest of what lies in it, before
// anything is hashed.
Result<WorkdirCopy> CopyWorkdir(const std::string& directory, const CopyLimits& limits);

// The bytes of a chunk; kConflict when the file is no longer what was hashed.
Result<std::string> ReadChunk(const std::string& digest, const ChunkSource& source);

}  // namespace launch
