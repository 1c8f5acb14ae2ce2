#include "cli/snapshot/workdir_copy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/snapshot/copy_rules.h"
#include "common/pki.h"
#include "common/snapshot.h"
#include "common/units.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestShown = 5;

struct Walk {
  fs::path root;
  std::vector<SnapshotEntry> entries;
  std::map<std::string, std::uint64_t> top;  // bytes by first part of the path
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> skipped;
  std::vector<std::string> leaving;
  std::vector<std::string> unsure;
  std::string unsure_why;
};

Result<void> AddFile(const fs::directory_entry& item, SnapshotEntry entry, Walk& walk) {
  std::error_code error;
  entry.size = item.file_size(error);
  if (error) {
    return Fail(ErrorCode::kIo, "cannot read " + item.path().string() + ": " + error.message(),
                "make it readable, or name it in .launchignore");
  }
  entry.executable = (item.status(error).permissions() & fs::perms::owner_exec) != fs::perms::none;
  ++walk.files;
  walk.bytes += entry.size;
  walk.top[entry.path.substr(0, entry.path.find('/'))] += entry.size;
  walk.entries.push_back(std::move(entry));
  return {};
}

// Where a link leads, as it will be on a node.
SnapshotEntry LinkEntry(const fs::path& link, SnapshotEntry entry, Walk& walk) {
  std::error_code ignored;
  entry.kind = SnapshotKind::kLink;
  fs::path target = fs::read_symlink(link, ignored);
  const fs::path inside = fs::path(entry.path).parent_path();
  if (target.is_absolute()) {
    const fs::path below = target.lexically_normal().lexically_relative(walk.root);
    if (!below.empty() && *below.begin() != "..") {
      target = below.lexically_relative(inside.empty() ? fs::path(".") : inside);
    }
  }
  const fs::path ends = (inside / target).lexically_normal();
  if (target.is_absolute() || (!ends.empty() && *ends.begin() == "..")) {
    walk.leaving.push_back(entry.path + " -> " + target.string());
  }
  entry.target = target.string();
  return entry;
}

Result<std::vector<fs::directory_entry>> SortedItems(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::directory_entry> items;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    items.push_back(*at);
  }
  if (error) {
    return Fail(ErrorCode::kIo, "cannot list " + directory.string() + ": " + error.message(),
                "make it readable, or name it in .launchignore");
  }
  std::sort(items.begin(), items.end());
  return items;
}

// Depth first, names in order, so that equal directories give equal manifests.
Result<void> WalkInto(const std::string& below, const CopyRules& rules, Walk& walk) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<fs::directory_entry> items,
                          SortedItems(below.empty() ? walk.root : walk.root / below));
  for (const fs::directory_entry& item : items) {
    std::error_code error;
    const std::string name = item.path().filename().string();
    SnapshotEntry entry;
    entry.path = below.empty() ? name : below + "/" + name;
    const bool is_link = item.is_symlink(error);
    const bool is_directory = !is_link && item.is_directory(error);
    if (name == ".git") continue;
    const CopyRules::Take take = rules.Of(entry.path, is_directory);
    if (take == CopyRules::Take::kUnsure) {
      walk.unsure.push_back(entry.path);
      walk.unsure_why = rules.unsure_why();
    }
    if (take == CopyRules::Take::kNo || take == CopyRules::Take::kUnsure) continue;
    if (is_link) {
      walk.entries.push_back(LinkEntry(item.path(), std::move(entry), walk));
    } else if (is_directory) {
      entry.kind = SnapshotKind::kDirectory;
      const std::string path = entry.path;
      walk.entries.push_back(std::move(entry));
      LAUNCH_RETURN_IF_ERROR(WalkInto(path, rules.Below(path, take), walk));
    } else if (item.is_regular_file(error)) {
      LAUNCH_RETURN_IF_ERROR(AddFile(item, std::move(entry), walk));
    } else {
      walk.skipped.push_back(entry.path);
    }
  }
  return {};
}

Result<void> CheckLimits(const Walk& walk, const CopyLimits& limits) {
  if (walk.bytes <= limits.bytes && walk.files <= limits.files) return {};
  std::vector<std::pair<std::uint64_t, std::string>> largest;
  for (const auto& [name, bytes] : walk.top) largest.emplace_back(bytes, name);
  std::sort(largest.rbegin(), largest.rend());
  if (largest.size() > kLargestShown) largest.resize(kLargestShown);
  std::string names;
  for (const auto& [bytes, name] : largest) {
    names += (names.empty() ? "" : ", ") + name + " " + FormatBytes(bytes);
  }
  return Fail(ErrorCode::kResourceExhausted,
              "workdir " + walk.root.string() +
                  " is too large to be copied: " + FormatBytes(walk.bytes) + " in " +
                  std::to_string(walk.files) + " files, the limit is " + FormatBytes(limits.bytes) +
                  " in " + std::to_string(limits.files) + "; largest: " + names,
              "name data and checkpoints in .launchignore (as in .gitignore), or put workdir on a "
              "file system that all nodes share");
}

void AddText(const std::string& text, std::vector<std::string>& digests, WorkdirCopy& copy) {
  for (const std::string_view piece : CutIntoChunks(text)) {
    const std::string digest = Sha256Hex(piece);
    copy.chunks[digest] = {"", 0, static_cast<std::uint32_t>(piece.size()), std::string(piece)};
    digests.push_back(digest);
  }
}

Unexpected Changed(const std::string& path) {
  return Fail(ErrorCode::kConflict, path + " changed while it was copied",
              "submit again once nothing writes to it, or name it in .launchignore");
}

// Two looks at a file are equal when nobody wrote to it in between.
struct FileState {
  std::uint64_t inode = 0;
  std::int64_t size = -1;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  friend bool operator==(const FileState&, const FileState&) = default;
};

FileState StateOf(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  constexpr std::int64_t kNs = 1'000'000'000;
  return {info.st_ino, info.st_size, info.st_mtim.tv_sec * kNs + info.st_mtim.tv_nsec,
          info.st_ctim.tv_sec * kNs + info.st_ctim.tv_nsec};
}

Result<void> HashFile(const fs::path& path, SnapshotEntry& entry, WorkdirCopy& copy) {
  const FileState before = StateOf(path);
  std::ifstream in(path, std::ios::binary);
  std::string piece(kChunkBytes, '\0');
  std::uint64_t offset = 0;
  while (in && offset < entry.size) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto got = static_cast<std::size_t>(in.gcount());
    if (got == 0) break;
    const std::string digest = Sha256Hex(std::string_view(piece).substr(0, got));
    copy.chunks.try_emplace(
        digest, ChunkSource{path.string(), offset, static_cast<std::uint32_t>(got), ""});
    entry.chunks.push_back(digest);
    offset += got;
  }
  if (offset == entry.size && StateOf(path) == before) return {};
  if (::access(path.c_str(), R_OK) == 0) return Changed(path.string());
  return Fail(ErrorCode::kIo, "cannot read " + path.string() + ": " + std::strerror(errno),
              "make it readable, or name it in .launchignore");
}

}  // namespace

Result<WorkdirCopy> CopyWorkdir(const std::string& directory, const CopyLimits& limits) {
  Walk walk{.root = directory};
  LAUNCH_RETURN_IF_ERROR(WalkInto("", CopyRules::Around(directory), walk));
  LAUNCH_RETURN_IF_ERROR(CheckLimits(walk, limits));
  CopyBounds bounds;  // as the nodes will count
  for (const SnapshotEntry& entry : walk.entries) LAUNCH_RETURN_IF_ERROR(bounds.Add(entry));
  WorkdirCopy copy;
  copy.files = walk.files;
  copy.bytes = walk.bytes;
  copy.skipped = std::move(walk.skipped);
  copy.leaving = std::move(walk.leaving);
  copy.unsure = std::move(walk.unsure);
  copy.unsure_why = std::move(walk.unsure_why);
  for (SnapshotEntry& entry : walk.entries) {
    if (entry.kind != SnapshotKind::kFile) continue;
    LAUNCH_RETURN_IF_ERROR(HashFile(walk.root / entry.path, entry, copy));
  }
  std::vector<std::string> manifest;
  AddText(SerializeManifest(walk.entries), manifest, copy);
  const std::string root_text = SerializeRoot(manifest);
  LAUNCH_RETURN_IF_ERROR(ParseRoot(root_text));  // within the bound of its pieces
  std::vector<std::string> root;
  AddText(root_text, root, copy);
  copy.root = root.front();
  return copy;
}

Result<std::string> ReadChunk(const std::string& digest, const ChunkSource& source) {
  std::string bytes = source.text;
  if (!source.path.empty()) {
    std::ifstream in(source.path, std::ios::binary);
    bytes.resize(source.size);
    in.seekg(static_cast<std::streamoff>(source.offset));
    in.read(bytes.data(), source.size);
    bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  }
  if (Sha256Hex(bytes) == digest) return bytes;
  return Changed(source.path);
}

}  // namespace launch
