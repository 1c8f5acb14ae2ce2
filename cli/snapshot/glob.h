// Patterns of file names as git compares them (its wildmatch).
#pragma once

#include <string_view>

namespace launch {

// `*` and `?` stop at '/'; `**` between slashes does not; `[a-z]`, `[!a-z]` and `[[:digit:]]` are
// one byte; `\` quotes. Brackets that never close, or that name an unknown class, match nothing.
bool GlobMatches(std::string_view pattern, std::string_view text);

// How much of a pattern's start stands for itself: up to the first of `*?[\`.
std::size_t LiteralLength(std::string_view pattern);

}  // namespace launch
