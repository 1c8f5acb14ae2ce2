#include "agent/runner/checkpoint_dcp.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>

#include "agent/runner/checkpoint_pickle.h"
#include "agent/runner/local_disk.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSecond = 1'000'000'000;
// Nodes that write to one file system may each have used their own clock.
constexpr std::int64_t kClocksApart = 5 * kSecond;

// So close together, the last change of a file is its last write.
constexpr std::int64_t kOneWrite = 2 * kSecond;

struct FileFacts {
  std::uint64_t size = 0;
  FileTimes times;
};

std::optional<FileFacts> FactsOf(const fs::path& path) {
  struct statx info {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_SIZE | STATX_MTIME | STATX_CTIME | STATX_BTIME,
              &info) != 0) {
    return std::nullopt;
  }
  const auto ns = [](const statx_timestamp& time) { return time.tv_sec * kSecond + time.tv_nsec; };
  FileFacts facts{.size = info.stx_size,
                  .times = {.modified = ns(info.stx_mtime), .changed = ns(info.stx_ctime)}};
  if ((info.stx_mask & STATX_BTIME) != 0) facts.times.born = ns(info.stx_btime);
  return facts;
}

// The shards that `metadata` names: an empty one that it does not name is of a rank that had
// nothing to save.
std::string WhyShardsOfMetadata(const fs::path& metadata, const std::vector<fs::path>& entries,
                                ReadBudget* budget) {
  const auto written = FactsOf(metadata);
  if (!written) return metadata.filename().string() + " cannot be read";
  if (written->size == 0) return metadata.filename().string() + " is empty";
  if (auto why = WhyPickleCutShort(metadata.string(), budget); !why.empty()) return why;
  const std::int64_t apart = StaysHere(metadata.string()) ? 0 : kClocksApart;
  std::string why;
  const auto look_at = [&](const fs::path& path, const std::string& name) {
    const auto shard = FactsOf(path);
    if (!shard)
      why = name + " cannot be read";
    else if (shard->size == 0)
      why = name + " is empty";
    else if (SavedOver(written->times, shard->times, apart))
      why = name + " is newer than " + metadata.filename().string() +
            ": a save over it did not finish (of a copy: touch " + metadata.filename().string() +
            ")";
    else
      why = WhyDcpShardCutShort(path.string(), budget);
  };
  std::vector<bool> seen(entries.size());
  bool named = false;
  ForEachDcpShard(metadata.string(), budget, [&](std::string_view name) {
    named = true;
    const fs::path path = metadata.parent_path() / name;
    const auto entry = std::ranges::lower_bound(entries, path);
    if (entry == entries.end() || *entry != path) {
      why = std::string(name) + " is missing";
    } else if (const auto at = static_cast<std::size_t>(entry - entries.begin()); !seen[at]) {
      seen[at] = true;
      look_at(path, std::string(name));
    }
    return why.empty();
  });
  if (named) return why;
  for (const fs::path& path : entries) {  // by a writer of its own
    if (path.extension() == ".distcp" && why.empty()) look_at(path, path.filename().string());
  }
  return why;
}

}  // namespace

bool SavedOver(const FileTimes& metadata, const FileTimes& shard, std::int64_t clocks_apart) {
  const bool newer = shard.modified > metadata.modified + clocks_apart;
  const bool born = shard.born && metadata.born;
  const bool copied = born ? *shard.born >= *metadata.born                // each was made anew
                           : shard.changed > shard.modified + kOneWrite;  // its time was set
  return newer && !copied;
}

std::string WhyDcpIncomplete(const fs::path& directory, const std::vector<fs::path>& entries,
                             int world, ReadBudget* budget) {
  const fs::path together = directory / ".metadata";
  if (std::ranges::binary_search(entries, together)) {
    return WhyShardsOfMetadata(together, entries, budget);
  }
  const auto of_rank = [&](int rank) {
    return directory / ("__" + std::to_string(rank) + ".metadata");
  };
  if (!std::ranges::binary_search(entries, of_rank(0))) {
    return ".metadata is missing: the save did not finish";
  }
  for (int rank = 0; rank < world; ++rank) {
    const fs::path path = of_rank(rank);
    if (!std::ranges::binary_search(entries, path)) {
      return path.filename().string() + " is missing, the job has " + std::to_string(world) +
             " ranks";
    }
    if (auto why = WhyShardsOfMetadata(path, entries, budget); !why.empty()) return why;
  }
  return {};
}

}  // namespace launch::agent
