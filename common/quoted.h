// Text that others read back: between double quotes as JSON and YAML write it, or as a shell's
// word.
#pragma once

#include <string>
#include <string_view>

namespace launch {

// Quotes, backslashes and control characters are escaped; every other byte stays as it is.
std::string Quoted(std::string_view text);

// One word that every POSIX shell reads back as exactly this text; plain ones stay as they are.
std::string ShellQuote(std::string_view text);

}  // namespace launch
