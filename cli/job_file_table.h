// The table of docs/job-file.md, made from the table of fields.
#pragma once

#include <string>
#include <string_view>

#include "common/error.h"

namespace launch {

inline constexpr std::string_view kTableBegin = "<!-- fields: made by job-file-doc -->";
inline constexpr std::string_view kTableEnd = "<!-- end of fields -->";

std::string JobFileTable();

// `document` with the text between the two marks replaced by the table.
Result<std::string> WithJobFileTable(const std::string& document);

}  // namespace launch
