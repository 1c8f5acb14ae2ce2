// The manifest of a copied directory: its files as pieces ("chunks") named by their SHA-256.
//
// Three kinds of chunks, all stored and fetched alike: pieces of files, pieces of the manifest's
// text, and the root, which lists the latter. A snapshot is named by the digest of its root.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/error.h"

namespace launch {

inline constexpr std::size_t kChunkBytes = 256 * 1024;
// The controller keeps a copy while its job is not done, and this long afterwards.
inline constexpr Millis kCopyKept{24 * 60 * 60 * 1000};

enum class SnapshotKind { kFile, kDirectory, kLink };

struct SnapshotEntry {
  SnapshotKind kind = SnapshotKind::kFile;
  std::string path;  // relative, without "." and ".."
  bool executable = false;
  std::uint64_t size = 0;
  std::vector<std::string> chunks;  // digests, in order; each but the last of kChunkBytes
  std::string target;               // of a link
  friend bool operator==(const SnapshotEntry&, const SnapshotEntry&) = default;
};

// Entries are ordered by path, and whatever a path lies in comes before it.
std::string SerializeManifest(const std::vector<SnapshotEntry>& entries);

// Refuses what could write outside of the directory it is unpacked into: absolute paths, "..",
// a path below a file or link, a path twice.
Result<std::vector<SnapshotEntry>> ParseManifest(std::string_view text);
// The same, one entry after another: a directory may have 100,000 files. Ends with the first error
// of `visit`.
Result<void> VisitManifest(std::string_view text,
                           const std::function<Result<void>(const SnapshotEntry&)>& visit);

std::string SerializeRoot(const std::vector<std::string>& manifest_chunks);
Result<std::vector<std::string>> ParseRoot(std::string_view text);

bool IsDigest(std::string_view text);  // 64 digits of lower-case hex

// Cut into pieces of kChunkBytes.
std::vector<std::string_view> CutIntoChunks(std::string_view bytes);

}  // namespace launch
