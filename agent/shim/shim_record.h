// The bytes shared by shim and runner: start and exit records, commands, descriptor numbers.
// Plain data of fixed layout, host byte order: the files never leave the machine that wrote them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "agent/shim/crc32c.h"

namespace launch::shim {

inline constexpr std::uint32_t kMagic = 0x48434E4Cu;  // "LNCH"
inline constexpr std::uint32_t kVersion = 1;

// `length` and `crc` cover what follows the header.
struct Header {
  std::uint32_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t length = 0;
  std::uint32_t crc = 0;
};

// Where a start failed; the number is in exit records on disk, so values are never reused.
enum class Stage : std::uint32_t {
  kNone = 0,
  kSpec = 1,     // the memfd did not hold a spec
  kRecord = 2,   // start or exit record could not be made durable
  kControl = 3,  // command FIFO, signalfd or timer
  kFork = 4,
  kCgroup = 5,
  kSession = 6,
  kLimits = 7,
  kIds = 8,
  kNoNewPrivs = 9,
  kAffinity = 10,
  kSignals = 11,
  kChdir = 12,
  kStdio = 13,
  kExec = 14,
  kLease = 15,  // it was over before the fork
};
const char* StageName(Stage stage);

enum class EndKind : std::uint32_t { kNone = 0, kExited = 1, kSignalled = 2, kFailedToStart = 3 };

inline constexpr std::size_t kBootIdBytes = 40;
inline constexpr std::size_t kMaxOurSignals = 12;

struct SentSignal {
  std::int32_t signal = 0;
  std::uint32_t why = 0;  // launch::StopCause
  std::int64_t boot_ms = 0;
};

// `start` at offset 0, durable before the fork: this shim exists.
struct StartRecord {
  Header header;
  char boot_id[kBootIdBytes] = {};
  std::int64_t shim_pid = 0;
  std::uint64_t shim_start_ticks = 0;
};

// `start` at kRankRecordOffset, after execve succeeded. Not synced: a power cut ends the rank too.
inline constexpr std::int64_t kRankRecordOffset = 512;
struct RankRecord {
  Header header;
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::int64_t started_boot_ms = 0;
};

// `exit`, reserved before the fork, filled once in place. All zero = not yet.
inline constexpr std::int64_t kExitReserveBytes = 4096;
struct ExitRecord {
  Header header;
  EndKind kind = EndKind::kNone;
  std::int32_t code = 0;  // exit code, signal number, or errno of a failed start
  std::uint32_t core = 0;
  Stage stage = Stage::kNone;
  std::int64_t started_boot_ms = 0;
  std::int64_t ended_boot_ms = 0;
  std::int64_t user_ms = 0;
  std::int64_t system_ms = 0;
  std::uint64_t max_rss_bytes = 0;
  std::uint64_t out_end = 0;
  std::uint64_t err_end = 0;
  std::uint32_t signal_count = 0;
  std::uint32_t reserved = 0;
  SentSignal signals[kMaxOurSignals] = {};
  char boot_id[kBootIdBytes] = {};
};
static_assert(sizeof(ExitRecord) <= 512, "an exit record is written as one sector");

// `lease` of the attempt's directory, one for all its ranks: when they end without further word.
// Written in place by the agent while it hears the controller; needs no sync, for a host that goes
// down ends the ranks too.
struct LeaseRecord {
  Header header;
  std::int64_t end_boot_ms = 0;
};
inline constexpr std::uint32_t kWhyLease = 8;  // launch::StopCause::kLease

// A command in the FIFO `control`; smaller than PIPE_BUF, so writes are atomic.
enum class Op : std::uint32_t {
  kSignalRank = 1,   // checkpoint signal: the rank's process, or those below it that catch it
  kSignalGroup = 2,  // its process group (TERM); once the rank has ended, what it left
  kKillAll = 3,      // SIGKILL every descendant until none is left
  // What the rank left outside of its process group; nothing while it runs. Shims of versions
  // before it pass it over.
  kSignalOrphans = 4,
};
struct Command {
  std::uint32_t magic = kMagic;
  Op op = Op::kSignalRank;
  std::int32_t signal = 0;
  std::uint32_t why = 0;
};

// Descriptors of a shim. High, so that a rank's `exec 3>file` does not drop an inherited lock.
inline constexpr int kFdSpec = 200;
inline constexpr int kFdDirectory = 201;
inline constexpr int kFdOut = 202;
inline constexpr int kFdErr = 203;
inline constexpr int kFdFirstLock = 204;  // locks, then ports

template <class Record>
void Seal(Record& record) {
  record.header.magic = kMagic;
  record.header.version = kVersion;
  record.header.length = static_cast<std::uint32_t>(sizeof(Record) - sizeof(Header));
  record.header.crc = Crc32c(reinterpret_cast<const char*>(&record) + sizeof(Header),
                             sizeof(Record) - sizeof(Header));
}

enum class RecordState { kAbsent, kValid, kTorn };

// Reads a record from the bytes found; all zero or nothing = kAbsent.
template <class Record>
RecordState Unseal(const char* bytes, std::size_t size, Record& record) {
  bool zero = true;
  for (std::size_t i = 0; i < size && i < sizeof(Record); ++i) zero = zero && bytes[i] == 0;
  if (zero) return RecordState::kAbsent;
  if (size < sizeof(Record)) return RecordState::kTorn;
  std::memcpy(&record, bytes, sizeof(Record));
  const bool good =
      record.header.magic == kMagic && record.header.version == kVersion &&
      record.header.length == sizeof(Record) - sizeof(Header) &&
      record.header.crc == Crc32c(bytes + sizeof(Header), sizeof(Record) - sizeof(Header));
  return good ? RecordState::kValid : RecordState::kTorn;
}

}  // namespace launch::shim
