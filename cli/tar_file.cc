#include "cli/tar_file.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace launch {
namespace {

constexpr std::size_t kBlock = 512;

// POSIX.1-1988 ustar header; all numbers are octal text.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char rest[247];
};
static_assert(sizeof(Header) == kBlock);

// Of the header with its own field taken as spaces.
unsigned Sum(const Header& header) {
  Header copy = header;
  std::memset(copy.checksum, ' ', sizeof(copy.checksum));
  const auto* bytes = reinterpret_cast<const unsigned char*>(&copy);
  unsigned sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) sum += bytes[i];
  return sum;
}

std::uint64_t Octal(const char* text, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size && text[i] >= '0' && text[i] <= '7'; ++i) {
    value = value * 8 + static_cast<std::uint64_t>(text[i] - '0');
  }
  return value;
}

std::size_t Padded(std::size_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

}  // namespace

std::string MakeTar(const TarEntries& entries) {
  std::string out;
  for (const auto& [name, bytes] : entries) {
    Header header{};
    std::memcpy(header.name, name.data(), std::min(name.size(), sizeof(header.name)));
    std::snprintf(header.mode, sizeof(header.mode), "%07o", 0600);
    std::snprintf(header.uid, sizeof(header.uid), "%07o", 0);
    std::snprintf(header.gid, sizeof(header.gid), "%07o", 0);
    std::snprintf(header.size, sizeof(header.size), "%011llo",
                  static_cast<unsigned long long>(bytes.size()));
    std::snprintf(header.mtime, sizeof(header.mtime), "%011o", 0);
    header.type = '0';
    std::memcpy(header.magic, "ustar", sizeof(header.magic));
    std::memcpy(header.version, "00", sizeof(header.version));
    std::snprintf(header.checksum, sizeof(header.checksum), "%06o", Sum(header));
    header.checksum[7] = ' ';
    out.append(reinterpret_cast<const char*>(&header), kBlock);
    out += bytes;
    out.append(Padded(bytes.size()) - bytes.size(), '\0');
  }
  out.append(2 * kBlock, '\0');
  return out;
}

bool LooksLikeTar(std::string_view bytes) {
  return bytes.size() >= kBlock && bytes.substr(257, 5) == "ustar";
}

Result<TarEntries> ReadTar(std::string_view bytes) {
  TarEntries entries;
  while (bytes.size() >= kBlock) {
    Header header;
    std::memcpy(&header, bytes.data(), kBlock);
    if (header.name[0] == '\0') return entries;  // the end
    const std::string name(header.name, strnlen(header.name, sizeof(header.name)));
    if (Octal(header.checksum, sizeof(header.checksum)) != Sum(header)) {
      return Fail(ErrorCode::kDataLoss, "the archive is damaged at `" + name + "`");
    }
    const std::uint64_t size = Octal(header.size, sizeof(header.size));
    bytes.remove_prefix(kBlock);
    if (size > bytes.size()) {
      return Fail(ErrorCode::kDataLoss, "the archive is cut off within `" + name + "`");
    }
    const auto length = static_cast<std::size_t>(size);
    if (header.type == '0' || header.type == '\0') {
      entries.emplace_back(name, std::string(bytes.substr(0, length)));
    }
    bytes.remove_prefix(std::min(Padded(length), bytes.size()));
  }
  return Fail(ErrorCode::kDataLoss, "the archive has no end");
}

}  // namespace launch
