#include "agent/runner/attempt_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "agent/runner/record_file.h"
#include "agent/runner/small_files.h"
#include "common/planted.h"
#include "common/unique_fd.h"

namespace launch::agent {
namespace {

constexpr std::size_t kMaxRecordBytes = std::size_t{64} << 20;

// Absent, the body, or DATA_LOSS naming the file.
Result<std::optional<std::string>> ReadBody(FileSystem& files, const std::string& path) {
  if (IsAbsent(path)) return std::optional<std::string>();
  LAUNCH_ASSIGN_OR_RETURN(const std::string bytes, files.Read(path, kMaxRecordBytes));
  auto body = OpenBody(bytes);
  if (!body) {
    return Fail(ErrorCode::kDataLoss, path + ": " + body.error().message,
                "its GPUs stay held until an operator removes the directory");
  }
  return std::optional<std::string>(std::move(*body));
}

Unexpected Malformed(const std::string& path) {
  return Fail(ErrorCode::kDataLoss, path + ": fields are missing",
              "its GPUs stay held until an operator removes the directory");
}

UniqueFd OpenRecord(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

template <class Record>
std::optional<Record> ReadFixed(const UniqueFd& fd, std::int64_t offset, shim::RecordState& state) {
  state = shim::RecordState::kAbsent;
  if (!fd) return std::nullopt;
  char bytes[sizeof(Record)] = {};
  const ssize_t got = ::pread(fd.get(), bytes, sizeof bytes, offset);
  if (got <= 0) return std::nullopt;
  Record record;
  state = shim::Unseal(bytes, static_cast<std::size_t>(got), record);
  if (state != shim::RecordState::kValid) return std::nullopt;
  return record;
}

}  // namespace

std::string AttemptDir::OwnPath(Rank rank) const {
  const std::string own = MadeOwnPath(rank);
  return Exists(own) ? own : RankPath(rank);
}

Result<void> AttemptDir::Create(const std::vector<RankSpec>& ranks) {
  LAUNCH_RETURN_IF_ERROR(files_->MakeDirs(FilesPath()));
  for (const RankSpec& rank : ranks) LAUNCH_RETURN_IF_ERROR(files_->MakeDirs(RankPath(rank.rank)));
  LAUNCH_RETURN_IF_ERROR(files_->SyncDir(path_));
  return files_->SyncDir(std::filesystem::path(path_).parent_path().string());
}

Result<void> AttemptDir::WriteAccept(const AcceptRecord& record) {
  RecordWriter out;
  out.Put(record.spec_bytes);
  out.Put(record.digest);
  out.Put(record.boot_id);
  out.Put(static_cast<std::uint64_t>(record.ports ? record.ports->first : 0));
  out.Put(static_cast<std::uint64_t>(record.ports ? record.ports->count : 0));
  out.Put(static_cast<std::uint64_t>(record.gpus.size()));
  for (const GpuUuid& gpu : record.gpus) out.Put(gpu.value);
  out.Put(static_cast<std::uint64_t>(record.gpu_processes.size()));
  for (const auto& [gpu, processes] : record.gpu_processes) {
    out.Put(gpu.value);
    out.Put(static_cast<std::uint64_t>(processes.size()));
    for (const GpuProcess& process : processes) {
      out.Put(static_cast<std::uint64_t>(process.pid));
      out.Put(process.user);
      out.Put(process.name);
    }
  }
  // Last and only where there is one, so that the record is what an older agent reads otherwise.
  if (record.account) {
    const LocalAccount& account = *record.account;
    for (const std::string* text : {&account.name, &account.home, &account.shell}) out.Put(*text);
    out.Put(std::uint64_t{account.uid});
    out.Put(std::uint64_t{account.gid});
    out.Put(static_cast<std::uint64_t>(account.groups.size()));
    for (const std::uint32_t group : account.groups) out.Put(std::uint64_t{group});
  }
  if (Planted(Bug::kUnsyncedAccept)) return files_->Write(path_ + "/accept", SealBody(out.bytes()));
  return files_->WriteDurable(path_ + "/accept", SealBody(out.bytes()));
}

Result<std::optional<AcceptRecord>> AttemptDir::ReadAccept() const {
  const std::string path = path_ + "/accept";
  LAUNCH_ASSIGN_OR_RETURN(const std::optional<std::string> body, ReadBody(*files_, path));
  if (!body) return std::optional<AcceptRecord>();
  RecordReader in(*body);
  AcceptRecord record;
  record.spec_bytes = in.TakeText();
  record.digest = in.TakeText();
  record.boot_id = in.TakeText();
  PortBlock ports;
  ports.first = static_cast<int>(in.TakeNumber());
  ports.count = static_cast<int>(in.TakeNumber());
  if (ports.count > 0) record.ports = ports;
  for (std::uint64_t left = in.TakeNumber(); left > 0 && in.ok(); --left) {
    record.gpus.push_back(GpuUuid{in.TakeText()});
  }
  for (std::uint64_t left = in.TakeNumber(); left > 0 && in.ok(); --left) {
    auto& [gpu, processes] = record.gpu_processes.emplace_back();
    gpu.value = in.TakeText();
    for (std::uint64_t n = in.TakeNumber(); n > 0 && in.ok(); --n) {
      GpuProcess& process = processes.emplace_back();
      process.pid = static_cast<std::int64_t>(in.TakeNumber());
      process.user = in.TakeText();
      process.name = in.TakeText();
    }
  }
  if (in.ok() && !in.AtEnd()) {
    LocalAccount& account = record.account.emplace();
    for (std::string* text : {&account.name, &account.home, &account.shell}) *text = in.TakeText();
    account.uid = static_cast<std::uint32_t>(in.TakeNumber());
    account.gid = static_cast<std::uint32_t>(in.TakeNumber());
    for (std::uint64_t left = in.TakeNumber(); left > 0 && in.ok(); --left)
      account.groups.push_back(static_cast<std::uint32_t>(in.TakeNumber()));
  }
  if (!in.ok() || !in.AtEnd()) return Malformed(path);
  return std::optional<AcceptRecord>(std::move(record));
}

Result<void> AttemptDir::WriteTombstone(const TombstoneRecord& record) {
  LAUNCH_RETURN_IF_ERROR(files_->MakeDirs(path_));
  LAUNCH_RETURN_IF_ERROR(files_->SyncDir(std::filesystem::path(path_).parent_path().string()));
  RecordWriter out;
  out.Put(static_cast<std::uint64_t>(record.cause));
  out.Put(record.why);
  return files_->WriteDurable(path_ + "/tombstone", SealBody(out.bytes()));
}

Result<std::optional<TombstoneRecord>> AttemptDir::ReadTombstone() const {
  const std::string path = path_ + "/tombstone";
  LAUNCH_ASSIGN_OR_RETURN(const std::optional<std::string> body, ReadBody(*files_, path));
  if (!body) return std::optional<TombstoneRecord>();
  RecordReader in(*body);
  TombstoneRecord record;
  record.cause = static_cast<StopCause>(in.TakeNumber());
  record.why = in.TakeText();
  if (!in.ok() || !in.AtEnd()) return Malformed(path);
  return std::optional<TombstoneRecord>(std::move(record));
}

Result<void> AttemptDir::WriteLadder(const LadderRecord& record) {
  RecordWriter out;
  out.Put(static_cast<std::uint64_t>(record.cause));
  out.Put(static_cast<std::uint64_t>(record.grace.count()));
  out.Put(record.step);
  out.Put(static_cast<std::uint64_t>(ToMs(record.deadline)));
  out.Put(std::uint64_t{record.signalled});
  return files_->Write(path_ + "/ladder", SealBody(out.bytes()));
}

std::optional<LadderRecord> AttemptDir::ReadLadder() const {
  const auto body = ReadBody(*files_, path_ + "/ladder");
  if (!body || !*body) return std::nullopt;
  RecordReader in(**body);
  LadderRecord record;
  record.cause = static_cast<StopCause>(in.TakeNumber());
  record.grace = Millis(static_cast<std::int64_t>(in.TakeNumber()));
  record.step = in.TakeNumber();
  record.deadline = BootMs(static_cast<std::int64_t>(in.TakeNumber()));
  record.signalled = in.TakeNumber() != 0;
  if (!in.ok() || !in.AtEnd()) return std::nullopt;
  return record;
}

Result<void> AttemptDir::WriteReleased(
    const std::vector<std::pair<Rank, std::uint64_t>>& log_ends) {
  RecordWriter out;
  out.Put(static_cast<std::uint64_t>(log_ends.size()));
  for (const auto& [rank, end] : log_ends) {
    out.Put(static_cast<std::uint64_t>(rank));
    out.Put(end);
  }
  return files_->WriteDurable(path_ + "/released", SealBody(out.bytes()));
}

Result<std::optional<std::vector<std::pair<Rank, std::uint64_t>>>> AttemptDir::ReadReleased()
    const {
  using Ends = std::vector<std::pair<Rank, std::uint64_t>>;
  const std::string path = path_ + "/released";
  LAUNCH_ASSIGN_OR_RETURN(const std::optional<std::string> body, ReadBody(*files_, path));
  if (!body) return std::optional<Ends>();
  RecordReader in(*body);
  Ends ends;
  for (std::uint64_t left = in.TakeNumber(); left > 0 && in.ok(); --left) {
    const auto rank = static_cast<Rank>(in.TakeNumber());
    ends.emplace_back(rank, in.TakeNumber());
  }
  if (!in.ok() || !in.AtEnd()) return Malformed(path);
  return std::optional<Ends>(std::move(ends));
}

Result<void> AttemptDir::WriteRankHook() const {
  LAUNCH_RETURN_IF_ERROR(files_->MakeDirs(HookPath()));
  return files_->Write(HookPath() + "/sitecustomize.py", RankHook());
}

Result<void> AttemptDir::WriteFiles(const std::vector<GeneratedFile>& generated) {
  for (const GeneratedFile& file : generated) {
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name.front() == '.') {
      return Fail(ErrorCode::kInvalidArgument,
                  "generated file name '" + file.name + "' is not plain");
    }
    const std::string path = FilesPath() + "/" + file.name;
    // Its readers, the ranks, do not outlive a power failure.
    LAUNCH_RETURN_IF_ERROR(files_->Write(path, file.bytes));
    const bool program = file.bytes.starts_with("#!");
    if (program && ::chmod(path.c_str(), 0700) != 0) return FailErrno("chmod " + path, errno);
  }
  return {};
}

Result<void> AttemptDir::WriteLease(BootTime end) {
  const std::string path = path_ + "/lease";
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return FailErrno("open " + path, errno);
  shim::LeaseRecord record;
  record.end_boot_ms = ToMs(end);
  shim::Seal(record);
  const ssize_t wrote = ::pwrite(fd.get(), &record, sizeof record, 0);
  if (wrote == static_cast<ssize_t>(sizeof record)) return {};
  return FailErrno("write " + path, wrote < 0 ? errno : EIO);
}

std::optional<BootTime> AttemptDir::ReadLease() const {
  shim::RecordState state = shim::RecordState::kAbsent;
  const auto record = ReadFixed<shim::LeaseRecord>(OpenRecord(path_ + "/lease"), 0, state);
  return record ? std::optional(BootMs(record->end_boot_ms)) : std::nullopt;
}

void AttemptDir::NoteAcked(Rank rank) {
  const UniqueFd fd(
      ::open((path_ + "/acked").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!fd) return;
  const std::string number = std::to_string(rank);
  const std::string line = number + " " + number + "\n";
  (void)!::write(fd.get(), line.data(), line.size());  // losing it only resends
}

std::vector<Rank> AttemptDir::ReadAcked() const {
  std::vector<Rank> ranks;
  std::ifstream in(path_ + "/acked");
  // A line that a full disk cut short, and the one that was added behind it, name no rank: each
  // number stands there twice. An older agent wrote it once.
  for (std::string line; std::getline(in, line) && !in.eof();) {
    std::istringstream words(line);
    Rank rank = 0;
    words >> rank;
    const std::string number = std::to_string(rank);
    if (line == number || line == number + " " + number) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

RankFiles AttemptDir::ReadRank(Rank rank) const {
  const std::string path = RankPath(rank);
  RankFiles found;
  shim::RecordState state = shim::RecordState::kAbsent;
  const UniqueFd start = OpenRecord(path + "/start");
  found.start = ReadFixed<shim::StartRecord>(start, 0, state);
  found.rank = ReadFixed<shim::RankRecord>(start, shim::kRankRecordOffset, state);
  if (auto record = ReadFixed<shim::ExitRecord>(OpenRecord(path + "/exit"), 0, found.exit_state)) {
    found.exit = *record;
  }
  return found;
}

std::vector<Rank> AttemptDir::ListRanks() const {
  std::vector<Rank> ranks;
  const auto names = files_->List(path_);
  if (!names) return ranks;
  for (const std::string& name : *names) {
    Rank rank = 0;
    if (!name.starts_with("rank.")) continue;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + 5, end, rank);
    if (parsed.ec == std::errc() && parsed.ptr == end) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::optional<Key> ParseKey(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  Key key;
  const char* const begin = name.data();
  const char* const end = begin + name.size();
  const auto job = std::from_chars(begin, begin + dot, key.job.value);
  const auto attempt = std::from_chars(begin + dot + 1, end, key.attempt.value);
  if (job.ec != std::errc() || job.ptr != begin + dot) return std::nullopt;
  if (attempt.ec != std::errc() || attempt.ptr != end) return std::nullopt;
  return key;
}

std::string AllocationsPath(const std::string& state_dir) { return state_dir + "/allocations"; }

std::string AllocationPath(const std::string& state_dir, const Key& key) {
  return AllocationsPath(state_dir) + "/" + ToString(key);
}

std::string KeptLogsPath(const std::string& state_dir, const Key& key) {
  return state_dir + "/logs/" + ToString(key);
}

}  // namespace launch::agent
