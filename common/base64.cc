#include "common/base64.h"

#include <cstdint>

namespace launch {

std::string ToBase64(std::string_view bytes, std::string_view alphabet) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (char byte : bytes) {
    bits = (bits << 8U) | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text += alphabet[(bits >> (count - 6)) & 63U];
  }
  if (count > 0) text += alphabet[(bits << (6 - count)) & 63U];
  return text;
}

std::optional<std::string> FromBase64(std::string_view text, std::string_view alphabet) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const std::size_t value = alphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>((bits >> count) & 0xFFU);
    }
  }
  // The only rest is the padding of the last byte, and it is zero: one spelling for all.
  if (count >= 6 || (bits & ((1U << count) - 1)) != 0) return std::nullopt;
  return bytes;
}

}  // namespace launch
