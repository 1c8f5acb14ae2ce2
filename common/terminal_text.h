// What a foreign text may not send to a terminal besides ASCII's own control characters.
#pragma once

#include <cstddef>
#include <string_view>

namespace launch {

// Bytes of the UTF-8 character that begins `text` if it commands terminals or turns text around:
// C1 controls (U+0080 to U+009F, as ESC does) and the marks of bidirectional text (U+200E, U+200F,
// U+202A to U+202E, U+2066 to U+2069). 0: it is none of these.
inline std::size_t ScreenControlLength(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  if (byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) < 0xA0) return 2;
  if (byte(0) != 0xE2) return 0;
  const unsigned last = byte(2);
  const bool mark =
      byte(1) == 0x80 && (last == 0x8E || last == 0x8F || (last >= 0xAA && last <= 0xAE));
  const bool isolate = byte(1) == 0x81 && last >= 0xA6 && last <= 0xA9;
  return mark || isolate ? 3 : 0;
}

}  // namespace launch
