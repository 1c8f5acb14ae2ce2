#include "controller/store/row_check.h"

#include "common/pki.h"

namespace launch::controller {
namespace {

constexpr std::size_t kIdDigits = 32;
constexpr std::size_t kMetaSize = kIdDigits + 6 * 8;

void Append(std::string& bytes, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xFFU);
}
void Append(std::string& bytes, std::string_view part) {
  Append(bytes, static_cast<std::uint64_t>(part.size()));  // so that no two rows spell the same
  bytes += part;
}
std::uint64_t Take(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = (value << 8U) | static_cast<unsigned char>(bytes[i]);
  bytes.remove_prefix(8);
  return value;
}

std::string Spell(std::string_view key, Revision revision, std::string_view value) {
  std::string bytes;
  bytes.reserve(key.size() + value.size() + 24);
  Append(bytes, key);
  Append(bytes, revision);
  Append(bytes, value);
  return bytes;
}

std::uint64_t FromHex(std::string_view digits) {
  std::uint64_t value = 0;
  for (char digit : digits) {
    value =
        (value << 4U) | static_cast<std::uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  }
  return value;
}

SetDigest HashOf(std::string_view key, Revision revision, std::string_view value) {
  const std::string hex = Sha256Hex(Spell(key, revision, value));
  return {.high = FromHex(std::string_view(hex).substr(0, 16)),
          .low = FromHex(std::string_view(hex).substr(16, 16))};
}

}  // namespace

std::uint32_t RowSum(std::string_view key, Revision revision, std::string_view value) {
  return Crc32c(Spell(key, revision, value));
}

std::uint32_t EventSum(const StoredEvent& event) {
  std::string bytes;
  Append(bytes, event.seq);
  Append(bytes, event.revision);
  Append(bytes, static_cast<std::uint64_t>(ToMs(event.at)));
  Append(bytes, event.kind);
  Append(bytes, event.subject);
  Append(bytes, event.body);
  return Crc32c(bytes);
}

void SetDigest::Add(std::string_view key, Revision revision, std::string_view value) {
  const SetDigest hash = HashOf(key, revision, value);
  low += hash.low;
  high += hash.high + (low < hash.low ? 1 : 0);
}

void SetDigest::Remove(std::string_view key, Revision revision, std::string_view value) {
  const SetDigest hash = HashOf(key, revision, value);
  high -= hash.high + (low < hash.low ? 1 : 0);
  low -= hash.low;
}

std::string EncodeMeta(const StoreMeta& meta) {
  std::string bytes = meta.store_id;
  for (std::uint64_t value : {meta.revision, meta.rows, meta.digest.high, meta.digest.low,
                              meta.first_event, meta.last_event}) {
    Append(bytes, value);
  }
  return bytes;
}

std::optional<StoreMeta> DecodeMeta(std::string_view bytes) {
  if (bytes.size() != kMetaSize) return std::nullopt;
  StoreMeta meta;
  meta.store_id = std::string(bytes.substr(0, kIdDigits));
  bytes.remove_prefix(kIdDigits);
  meta.revision = Take(bytes);
  meta.rows = Take(bytes);
  meta.digest.high = Take(bytes);
  meta.digest.low = Take(bytes);
  meta.first_event = Take(bytes);
  meta.last_event = Take(bytes);
  return meta;
}

}  // namespace launch::controller
