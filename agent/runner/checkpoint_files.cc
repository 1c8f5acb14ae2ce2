#include "agent/runner/checkpoint_files.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace launch::agent {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeader = std::uint64_t{100} << 20;
constexpr std::uint32_t kZipEnd = 0x06054b50;
constexpr std::uint32_t kZip64End = 0x06064b50;
constexpr std::uint32_t kZip64Locator = 0x07064b50;
constexpr std::uint32_t kZipEntry = 0x02014b50;

template <class T>
T LoadAt(const std::string& bytes, std::size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string ReadRange(std::ifstream& in, std::uint64_t at, std::uint64_t size) {
  std::string bytes(size, '\0');
  in.clear();
  in.seekg(static_cast<std::streamoff>(at));
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, in.gcount())));
  return bytes;
}

std::uint64_t SizeOf(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : size;
}

// A file of another kind, or one that waits for a writer (a FIFO), is never opened.
std::string WhyNotRegular(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return {};
  return path.filename().string() + " is no regular file";
}

}  // namespace

std::string WhySafetensorsIncomplete(const std::string& path) {
  if (auto why = WhyNotRegular(path); !why.empty()) return why;
  const std::string name = fs::path(path).filename().string();
  const std::uint64_t size = SizeOf(path);
  std::ifstream in(path, std::ios::binary);
  const auto length = LoadAt<std::uint64_t>(ReadRange(in, 0, 8), 0);
  if (size < 8 || length > kMaxHeader || 8 + length > size) return name + " is cut short";
  const Json header = Json::parse(ReadRange(in, 8, length), nullptr, false);
  if (!header.is_object()) return name + " has no header";
  std::uint64_t end = 0;
  for (const auto& [tensor, facts] : header.items()) {
    if (tensor == "__metadata__") continue;
    if (!facts.is_object() || !facts.contains("data_offsets") ||
        !facts["data_offsets"].is_array() || facts["data_offsets"].size() != 2 ||
        !facts["data_offsets"][1].is_number_unsigned()) {
      return name + " has no header";
    }
    end = std::max(end, facts["data_offsets"][1].get<std::uint64_t>());
  }
  if (8 + length + end != size) return name + " is cut short";
  return {};
}

std::string WhyTorchIncomplete(const std::string& path) {
  if (auto why = WhyNotRegular(path); !why.empty()) return why;
  const std::string name = fs::path(path).filename().string();
  const std::uint64_t size = SizeOf(path);
  std::ifstream in(path, std::ios::binary);
  if (size < 22 || LoadAt<std::uint32_t>(ReadRange(in, 0, 4), 0) != 0x04034b50) {
    return name + " is not a complete torch.save file";
  }
  // The end record is last; a comment may follow it, torch writes none.
  const std::uint64_t window = std::min<std::uint64_t>(size, 65557 + 76);
  const std::string tail = ReadRange(in, size - window, window);
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
    const std::string big = ReadRange(in, LoadAt<std::uint64_t>(tail, end - 20 + 8), 56);
    if (LoadAt<std::uint32_t>(big, 0) != kZip64End) return name + " has a broken end record";
    entries = LoadAt<std::uint64_t>(big, 32);
    length = LoadAt<std::uint64_t>(big, 40);
    offset = LoadAt<std::uint64_t>(big, 48);
  }
  if (length > kMaxHeader || offset > size || offset + length > size) {
    return name + " has a broken central directory";
  }
  const std::string directory = ReadRange(in, offset, length);
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
