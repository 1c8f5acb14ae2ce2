#include "agent/runner/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "agent/runner/attempt_dir.h"
#include "agent/runner/kept_logs.h"
#include "agent/runner/log_keeper.h"
#include "agent/runner/small_files.h"
#include "common/unique_fd.h"

namespace launch::agent {
namespace {

constexpr std::uint64_t kLookBack = std::uint64_t{64} << 20;
constexpr std::uint64_t kReadBlock = 64 * 1024;

// The first moment at which the stream is known to have had more than `offset` bytes.
std::optional<IndexEntry> NextEntry(const std::string& path, std::uint64_t offset) {
  const UniqueFd index(::open(IndexPath(path).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!index || ::fstat(index.get(), &info) != 0) return std::nullopt;
  std::uint64_t low = 0;
  std::uint64_t high = static_cast<std::uint64_t>(info.st_size) / sizeof(IndexEntry);
  const std::uint64_t count = high;
  IndexEntry entry;
  const auto load = [&](std::uint64_t i) {
    return ::pread(index.get(), &entry, sizeof entry, static_cast<off_t>(i * sizeof entry)) ==
           sizeof entry;
  };
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    if (!load(middle)) return std::nullopt;
    if (entry.offset <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == count || !load(low)) return std::nullopt;
  return entry;
}

Result<std::string> ReadAt(int fd, std::uint64_t at, std::uint64_t size, const std::string& path) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, size - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno("read " + path, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

Result<LogReader::Place> LogReader::Find(const Key& key, Rank rank,
                                         const std::string& stream) const {
  if (stream != "out" && stream != "err") {
    return Fail(ErrorCode::kInvalidArgument, "no stream " + stream, "streams are out and err");
  }
  const std::string name = "/rank." + std::to_string(rank);
  for (const bool kept : {false, true}) {
    const std::string directory =
        (kept ? KeptLogsPath(state_dir_, key) : AllocationPath(state_dir_, key)) + name;
    if (!Exists(directory + "/" + stream)) continue;
    return Place{directory, kept || Exists(AllocationPath(state_dir_, key) + "/released")};
  }
  if (const std::string why = WhyLogsRemoved(state_dir_, key); !why.empty())
    return Fail(ErrorCode::kNotFound,
                "the logs of attempt " + ToString(key) + " were removed from this node " + why);
  return Fail(ErrorCode::kNotFound, "no log of attempt " + ToString(key) + " rank " +
                                        std::to_string(rank) + " (" + stream + ") on this node");
}

bool LogReader::IsComplete(const Place& place) {
  if (place.final) return true;
  // A shim leaves only when no descendant of its rank is left; nobody reads its FIFO then.
  shim::ExitRecord record;
  const UniqueFd exit(::open((place.directory + "/exit").c_str(), O_RDONLY | O_CLOEXEC));
  char bytes[sizeof record] = {};
  const ssize_t got = exit ? ::pread(exit.get(), bytes, sizeof bytes, 0) : 0;
  if (got <= 0 ||
      shim::Unseal(bytes, static_cast<std::size_t>(got), record) != shim::RecordState::kValid) {
    return false;
  }
  const UniqueFd fifo(
      ::open((place.directory + "/control").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  return !fifo && errno == ENXIO;
}

// It may be on its way to the kept ones, ahead of the log or behind.
std::uint64_t LogReader::BaseOf(const Key& key, Rank rank, const std::string& stream) const {
  const std::string log = "/rank." + std::to_string(rank) + "/" + stream;
  const std::uint64_t here = ReadLogBase(AllocationPath(state_dir_, key) + log);
  return std::max(here, ReadLogBase(KeptLogsPath(state_dir_, key) + log));
}

Result<LogPiece> LogReader::Read(const Key& key, Rank rank, const std::string& stream,
                                 std::uint64_t from, std::size_t max_bytes) {
  LAUNCH_ASSIGN_OR_RETURN(const Place place, Find(key, rank, stream));
  // Asked before the size: what is complete then cannot grow any more.
  const bool ended = IsComplete(place);
  const std::string path = place.directory + "/" + stream;
  // Also asked before: it never says more than the size does, unless the job cut its log.
  const std::uint64_t indexed = place.final ? 0 : LastIndexed(path);
  const std::uint64_t base = BaseOf(key, rank, stream);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return FailErrno("open " + path, errno);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const std::uint64_t end = base + size;
  const LogPiece nothing{.gap = {}, .data = {}, .next = from, .complete = false, .wall_ms = 0};
  LogPiece piece = nothing;
  if (end < indexed) {  // just cut: where its bytes belong is known once its keeper has looked
    piece.later = true;
    return piece;
  }
  if (from >= end) {
    piece.complete = ended && (from == end || place.final);
    return piece;
  }
  if (from < base) {
    piece.gap = {from, base};
    piece.emptied = true;
    piece.next = base;
    piece.complete = ended && size == 0;
    return piece;
  }
  const std::uint64_t at = from - base;
  const off_t data = ::lseek(fd.get(), static_cast<off_t>(at), SEEK_DATA);
  const bool hole = data < 0 ? errno == ENXIO : static_cast<std::uint64_t>(data) > at;
  if (hole) {
    piece.next = data < 0 ? end : base + static_cast<std::uint64_t>(data);
    piece.gap = {from, piece.next};
  } else {
    std::uint64_t most = std::min<std::uint64_t>(max_bytes, size - at);
    const off_t hole_at = ::lseek(fd.get(), static_cast<off_t>(at), SEEK_HOLE);
    if (hole_at > static_cast<off_t>(at))
      most = std::min(most, static_cast<std::uint64_t>(hole_at) - at);
    // One piece is of one moment: what ranks printed at different times can be put in order then.
    const std::optional<IndexEntry> entry = NextEntry(path, from);
    if (entry) most = std::min(most, entry->offset - from);
    LAUNCH_ASSIGN_OR_RETURN(piece.data, ReadAt(fd.get(), at, most, path));
    piece.next = from + piece.data.size();
    piece.wall_ms = entry ? entry->wall_ms
                          : static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1000 +
                                info.st_mtim.tv_nsec / 1'000'000;
  }
  piece.complete = ended && piece.next >= end;
  struct stat after {};
  const bool cut = ::fstat(fd.get(), &after) != 0 || after.st_size < info.st_size ||
                   BaseOf(key, rank, stream) != base;
  if (place.final || !cut) return piece;
  piece = nothing;  // meanwhile
  piece.later = true;
  return piece;
}

Result<std::uint64_t> LogReader::OffsetOfLastLines(const Key& key, Rank rank,
                                                   const std::string& stream, std::uint32_t lines) {
  LAUNCH_ASSIGN_OR_RETURN(const Place place, Find(key, rank, stream));
  const std::string path = place.directory + "/" + stream;
  const std::uint64_t base = BaseOf(key, rank, stream);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return FailErrno("open " + path, errno);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (lines == 0) return base + size;
  const std::uint64_t floor = size > kLookBack ? size - kLookBack : 0;
  std::uint32_t found = 0;
  for (std::uint64_t end = size; end > floor;) {
    const std::uint64_t begin = std::max(floor, end > kReadBlock ? end - kReadBlock : 0);
    LAUNCH_ASSIGN_OR_RETURN(const std::string bytes, ReadAt(fd.get(), begin, end - begin, path));
    for (std::size_t i = bytes.size(); i-- > 0;) {
      if (bytes[i] != '\n' || begin + i + 1 == size) continue;  // the end of the last line
      if (++found == lines) return base + begin + i + 1;
    }
    end = begin;
  }
  return floor == 0 ? 0 : base + floor;  // with what is missing in front, if anything is
}

}  // namespace launch::agent
