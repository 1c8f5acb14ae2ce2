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

// Bounds of one copy, for the command line that sends it and the node that takes it.
inline constexpr std::uint64_t kMostCopyBytes = std::uint64_t{1} << 30;
inline constexpr std::size_t kMostCopyFiles = 100'000;
inline constexpr std::size_t kMostCopyEntries = 4 * kMostCopyFiles;  // with links and directories
inline constexpr std::size_t kMostCopyDepth = 128;
inline constexpr std::size_t kMostManifestBytes = std::size_t{64} << 20;

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

// Counts the entries of one copy. kInvalidArgument: the one added is beyond a bound, which the
// message names.
class CopyBounds {
 public:
  Result<void> Add(const SnapshotEntry& entry);

 private:
  std::size_t entries_ = 0;
  std::uint64_t bytes_ = 0;
};

// Entries are ordered by path, and whatever a path lies in comes before it.
std::string SerializeManifest(const std::vector<SnapshotEntry>& entries);

// Refuses what could write outside of the directory it is unpacked into: absolute paths, "..",
// a path below a file or link, a path twice; and what is beyond CopyBounds.
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
