// CRC32C (Castagnoli) of the on-disk records; here because the shim links nothing of ours.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace launch::shim {

namespace internal {
constexpr std::array<std::uint32_t, 256> MakeCrcTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}
inline constexpr std::array<std::uint32_t, 256> kCrcTable = MakeCrcTable();
}  // namespace internal

inline std::uint32_t Crc32c(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint32_t crc = 0xFFFFFFFFu;
  for (std::size_t i = 0; i < size; ++i) {
    crc = internal::kCrcTable[(crc ^ bytes[i]) & 0xFFu] ^ (crc >> 8);
  }
  return crc ^ 0xFFFFFFFFu;
}

}  // namespace launch::shim
