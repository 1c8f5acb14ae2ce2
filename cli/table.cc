#include "cli/table.h"

#include <algorithm>

namespace launch {
namespace {

constexpr std::size_t kLeast = 8;
constexpr std::size_t kGap = 2;

// A row is a line, also of a command that is written on several.
std::string OnOneLine(const std::string& cell) {
  std::string line;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    const bool continued = cell[i] == '\\' && i + 1 < cell.size() && cell[i + 1] == '\n';
    if (continued) continue;
    const bool blank = cell[i] == '\n' || cell[i] == '\r' || cell[i] == '\t';
    if (!blank)
      line += cell[i];
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  return line;
}

}  // namespace

std::size_t DisplayWidth(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string Shorten(const std::string& text, std::size_t width) {
  if (DisplayWidth(text) <= width) return text;
  std::string cut;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (starts && shown + 1 == width) break;
    if (starts) ++shown;
    cut += text[i];
  }
  return cut + "…";
}

std::string FormatTable(const Table& given, int width) {
  Table table = given;
  for (auto& row : table.rows)
    for (std::string& cell : row) cell = OnOneLine(cell);
  const std::size_t count = table.columns.size();
  std::vector<std::size_t> widths(count);
  for (std::size_t i = 0; i < count; ++i) {
    widths[i] = DisplayWidth(table.columns[i].title);
    for (const auto& row : table.rows) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  if (width > 0) {
    const auto total = [&] {
      std::size_t sum = kGap * (count - 1);
      for (const std::size_t w : widths) sum += w;
      return sum;
    };
    while (total() > static_cast<std::size_t>(width)) {
      std::size_t* widest = nullptr;
      for (std::size_t i = 0; i < count; ++i)
        if (table.columns[i].elastic && widths[i] > kLeast &&
            (widest == nullptr || widths[i] > *widest))
          widest = &widths[i];
      if (widest == nullptr) break;
      --*widest;
    }
  }
  std::string text;
  const auto write = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string cell = Shorten(cell_of(i), widths[i]);
      const std::string pad(widths[i] - std::min(widths[i], DisplayWidth(cell)), ' ');
      line += table.columns[i].right ? pad + cell : cell + pad;
      if (i + 1 < count) line += std::string(kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  write([&](std::size_t i) { return table.columns[i].title; });
  for (const auto& row : table.rows) write([&](std::size_t i) { return row[i]; });
  return text;
}

}  // namespace launch
