// Text between double quotes as JSON writes it; YAML reads the same.
#pragma once

#include <string>
#include <string_view>

namespace launch {

// Quotes, backslashes and control characters are escaped; every other byte stays as it is.
std::string Quoted(std::string_view text);

}  // namespace launch
