// Tables for terminals and for pipes: columns aligned, cut to the width when there is one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace launch {

struct Column {
  std::string title;
  bool right = false;    // numbers
  bool elastic = false;  // may be shortened when the terminal is narrow
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // as many cells as columns
};

// The table as text. `width` 0 = unlimited (a pipe). Elastic columns give way, widest first, down
// to 8 characters; trailing blanks are not written.
std::string FormatTable(const Table& table, int width);

// Characters a terminal shows for UTF-8 text without wide or combining characters.
std::size_t DisplayWidth(std::string_view text);

// Cuts to `width` shown characters, the last of them an ellipsis.
std::string Shorten(const std::string& text, std::size_t width);

}  // namespace launch
