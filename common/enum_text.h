// One table per enum gives both directions: value to text and text to value.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace launch {

template <class Enum, std::size_t N>
struct EnumText {
  std::pair<Enum, std::string_view> rows[N];

  constexpr std::string_view Print(Enum value) const {
    for (const auto& [candidate, text] : rows) {
      if (candidate == value) return text;
    }
    return "?";
  }
  constexpr std::optional<Enum> Parse(std::string_view given) const {
    for (const auto& [candidate, text] : rows) {
      if (text == given) return candidate;
    }
    return std::nullopt;
  }
};
template <class Enum, std::size_t N>
EnumText(std::pair<Enum, std::string_view> (&&)[N]) -> EnumText<Enum, N>;

}  // namespace launch

// Defines ToString and Parse<Name> of an enum from its table.
#define LAUNCH_ENUM_TEXT(Enum, ParseName, table)                 \
  std::string_view ToString(Enum v) { return (table).Print(v); } \
  std::optional<Enum> ParseName(std::string_view text) { return (table).Parse(text); }
