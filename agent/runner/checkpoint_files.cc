#include "agent/runner/checkpoint_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "agent/runner/checkpoint_json.h"
#include "common/foreign_file.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxHeader = std::uint64_t{100} << 20;
constexpr std::uint32_t kZipBegin = 0x04034b50;
constexpr std::uint32_t kZipEnd = 0x06054b50;
constexpr std::uint64_t kZipEndBytes = 22;  // of an end record without a comment
constexpr std::uint32_t kZip64End = 0x06064b50;
constexpr std::uint32_t kZip64Locator = 0x07064b50;
constexpr std::uint32_t kZipEntry = 0x02014b50;

template <class T>
T LoadAt(const std::string& bytes, std::size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// One file of a checkpoint, as much of it as is asked for and the budget has left.
class CheckpointFile {
 public:
  static Result<CheckpointFile> Open(const std::string& path, ReadBudget* budget) {
    LAUNCH_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular(path));
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return FailErrno("stat " + path, errno);
    return CheckpointFile(std::move(fd), static_cast<std::uint64_t>(info.st_size), budget);
  }
  std::uint64_t size() const { return size_; }
  std::string Read(std::uint64_t at, std::uint64_t size) const {
    if (budget_ != nullptr) {
      if (budget_->bytes < size) return {};
      budget_->bytes -= size;
    }
    return ReadRange(fd_.get(), at, size);
  }

 private:
  CheckpointFile(UniqueFd fd, std::uint64_t size, ReadBudget* budget)
      : fd_(std::move(fd)), size_(size), budget_(budget) {}
  UniqueFd fd_;
  std::uint64_t size_;
  ReadBudget* budget_;
};

std::string LastPart(const std::string& path) { return fs::path(path).filename().string(); }

// Messages name files by their last part: the directory is told beside them.
std::string WhyNotOpened(const std::string& path, const Error& error) {
  return error.code == ErrorCode::kInvalidArgument ? LastPart(path) + " is no regular file"
                                                   : error.message;
}

}  // namespace

std::string WhySafetensorsIncomplete(const std::string& path, ReadBudget* budget) {
  const auto in = CheckpointFile::Open(path, budget);
  if (!in) return WhyNotOpened(path, in.error());
  const std::string name = LastPart(path);
  const std::uint64_t size = in->size();
  const auto length = LoadAt<std::uint64_t>(in->Read(0, 8), 0);
  if (size < 8 || length > kMaxHeader || length > size - 8) return name + " is cut short";
  const auto end = SafetensorsBytes(in->Read(8, length));
  if (!end) return name + " has no header";
  if (*end != size - 8 - length) return name + " is cut short";
  return {};
}

// Its items lie one behind the other, each as torch.save writes it, without a comment. Others
// compress them. One that ends with an item before its last looks whole.
// Source: torch 2.13, distributed/checkpoint/filesystem.py, _write_item.
std::string WhyDcpShardCutShort(const std::string& path, ReadBudget* budget) {
  const auto in = CheckpointFile::Open(path, budget);
  if (!in) return WhyNotOpened(path, in.error());
  if (LoadAt<std::uint32_t>(in->Read(0, 4), 0) != kZipBegin) return {};
  const std::uint64_t size = in->size();
  const std::string end = in->Read(size - std::min(size, kZipEndBytes), kZipEndBytes);
  const bool whole = end.size() == kZipEndBytes && LoadAt<std::uint32_t>(end, 0) == kZipEnd &&
                     end.ends_with(std::string(2, '\0'));
  return whole ? std::string() : LastPart(path) + " has no end record: it is cut short";
}

std::string WhyPickleCutShort(const std::string& path, ReadBudget* budget) {
  constexpr std::string_view kStop = ".";  // the opcode that ends every pickle
  const auto in = CheckpointFile::Open(path, budget);
  if (!in) return WhyNotOpened(path, in.error());
  const bool whole = in->size() > 0 && in->Read(in->size() - 1, 1) == kStop;
  return whole ? std::string() : LastPart(path) + " is cut short";
}

std::string WhyTorchIncomplete(const std::string& path, ReadBudget* budget) {
  const auto in = CheckpointFile::Open(path, budget);
  if (!in) return WhyNotOpened(path, in.error());
  const std::string name = LastPart(path);
  const std::uint64_t size = in->size();
  if (size < 22 || LoadAt<std::uint32_t>(in->Read(0, 4), 0) != kZipBegin) {
    return name + " is not a complete torch.save file";
  }
  // The end record is last; a comment may follow it, torch writes none.
  const std::uint64_t window = std::min<std::uint64_t>(size, 65557 + 76);
  const std::string tail = in->Read(size - window, window);
  if (tail.size() < 22) return name + " is cut short";  // since its size was asked
  std::size_t end = std::string::npos;
  for (std::size_t at = tail.size() - 22;; --at) {
    if (LoadAt<std::uint32_t>(tail, at) == kZipEnd &&
        at + 22 + LoadAt<std::uint16_t>(tail, at + 20) == tail.size()) {
      end = at;
      break;
    }
    if (at == 0) break;
  }
  if (end == std::string::npos) return name + " has no end record: it is cut short";
  std::uint64_t entries = LoadAt<std::uint16_t>(tail, end + 10);
  std::uint64_t length = LoadAt<std::uint32_t>(tail, end + 12);
  std::uint64_t offset = LoadAt<std::uint32_t>(tail, end + 16);
  if (end >= 20 && LoadAt<std::uint32_t>(tail, end - 20) == kZip64Locator) {
    const std::string big = in->Read(LoadAt<std::uint64_t>(tail, end - 20 + 8), 56);
    if (LoadAt<std::uint32_t>(big, 0) != kZip64End) return name + " has a broken end record";
    entries = LoadAt<std::uint64_t>(big, 32);
    length = LoadAt<std::uint64_t>(big, 40);
    offset = LoadAt<std::uint64_t>(big, 48);
  }
  if (length > kMaxHeader || offset > size || length > size - offset) {
    return name + " has a broken central directory";
  }
  const std::string directory = in->Read(offset, length);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < entries; ++i) {
    if (at + 46 > directory.size() || LoadAt<std::uint32_t>(directory, at) != kZipEntry) {
      return name + " has a broken central directory";
    }
    const std::uint32_t stored = LoadAt<std::uint32_t>(directory, at + 20);
    const std::uint32_t begins = LoadAt<std::uint32_t>(directory, at + 42);
    const bool wide = stored == 0xFFFFFFFFu || begins == 0xFFFFFFFFu;
    if (!wide && std::uint64_t{begins} + 30 + stored > offset) {
      return name + " has an entry beyond its end";
    }
    at += 46u + LoadAt<std::uint16_t>(directory, at + 28) +
          LoadAt<std::uint16_t>(directory, at + 30) + LoadAt<std::uint16_t>(directory, at + 32);
  }
  return at == directory.size() ? std::string() : name + " has a broken central directory";
}

}  // namespace launch::agent
