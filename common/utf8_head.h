// Texts cut to a length without breaking a character.
#pragma once

#include <cstddef>
#include <string_view>

namespace launch {

// The first `bytes` of UTF-8, or as many fewer as end a character.
inline std::string_view Utf8Head(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) --bytes;
  return text.substr(0, bytes);
}

}  // namespace launch
