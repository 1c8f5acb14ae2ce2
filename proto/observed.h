// What a node observed of the world, made acceptable to the edge on the way out: one odd fact (a
// wrapper that prints colours for a version, a file dated before 1970) must not cost the message it
// is in, which would be sent again, and refused again, for ever.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/edge.h"

namespace launch::observed {

// The text as Edge::MaybeWord accepts it: valid UTF-8, '?' for each control character, at most
// kMaxWord bytes.
std::string Word(std::string_view text);
// The path as Edge::Path accepts it: up to the first NUL byte, shorter than PATH_MAX.
std::string Path(std::string_view path);
// The UUID as Edge::Gpu accepts it: '_' for each byte outside of its alphabet.
std::string Gpu(std::string_view uuid);

// May it stand in an environment? What may not is left out.
bool IsVariable(std::string_view name, std::string_view value);

inline std::int32_t Int(std::int64_t value, std::int64_t low, std::int64_t high) {
  return static_cast<std::int32_t>(std::clamp(value, low, high));
}
inline std::int64_t Ms(std::int64_t ms) { return std::clamp<std::int64_t>(ms, 0, edge::kMaxMs); }
inline std::int64_t Count(std::int64_t value) { return std::max<std::int64_t>(value, 0); }

// The first `max` of a list go out; what counts most stands first.
template <class Range, class Add>
void Each(const Range& range, std::size_t max, Add add) {
  for (const auto& element : range) {
    if (max-- == 0) return;
    add(element);
  }
}
// Names that are not empty, and maps of text under such names.
template <class Range, class Add>
void Words(const Range& range, std::size_t max, Add add) {
  Each(range, max, [&](const std::string& text) {
    if (!text.empty()) add(Word(text));
  });
}
template <class From, class To>
void TextMap(const From& from, std::size_t max, To& to) {
  Each(from, max, [&](const auto& entry) {
    if (!entry.first.empty()) to[Word(entry.first)] = edge::Utf8(entry.second);
  });
}

}  // namespace launch::observed
