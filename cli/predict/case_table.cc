#include "cli/predict/case_table.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/units.h"

namespace launch {

namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20;

struct Record {
  int line = 0;  // where it begins
  std::vector<std::string> cells;
};

std::string_view Trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

Unexpected FailAt(const std::string& file, int line, std::string message, std::string hint = {}) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint),
              Where{file, line, 0, {}});
}

// Splits CSV text into records; blank lines are skipped.
class Splitter {
 public:
  Splitter(std::string_view csv, const std::string& file) : csv_(csv), file_(file) {
    if (csv_.starts_with("\xEF\xBB\xBF")) csv_.remove_prefix(3);
  }

  Result<std::vector<Record>> Split() {
    std::vector<Record> records;
    while (at_ < csv_.size()) {
      Record record{line_, {}};
      LAUNCH_RETURN_IF_ERROR(ReadRecord(record));
      if (record.cells.size() > 1 || !record.cells[0].empty()) records.push_back(std::move(record));
    }
    return records;
  }

 private:
  Result<void> ReadRecord(Record& record) {
    while (true) {
      std::string cell;
      if (at_ < csv_.size() && csv_[at_] == '"') {
        LAUNCH_RETURN_IF_ERROR(ReadQuoted(cell));
      } else {
        while (at_ < csv_.size() && csv_[at_] != ',' && csv_[at_] != '\n') cell += csv_[at_++];
        if (!cell.empty() && cell.back() == '\r' && (at_ == csv_.size() || csv_[at_] == '\n'))
          cell.pop_back();
      }
      record.cells.push_back(std::move(cell));
      if (at_ < csv_.size() && csv_[at_] == ',') {
        ++at_;
        continue;
      }
      if (at_ < csv_.size()) {
        ++at_;  // the line end
        ++line_;
      }
      return {};
    }
  }

  Result<void> ReadQuoted(std::string& cell) {
    const int begin = line_;
    for (++at_; at_ < csv_.size(); ++at_) {
      if (csv_[at_] == '\n') ++line_;
      if (csv_[at_] != '"') {
        cell += csv_[at_];
        continue;
      }
      if (at_ + 1 < csv_.size() && csv_[at_ + 1] == '"') {
        cell += '"';
        ++at_;
        continue;
      }
      ++at_;
      if (at_ < csv_.size() && csv_[at_] == '\r') ++at_;
      if (at_ < csv_.size() && csv_[at_] != ',' && csv_[at_] != '\n')
        return FailAt(file_, line_, "text after a closing quote",
                      "double the quotes inside a quoted cell");
      return {};
    }
    return FailAt(file_, begin, "a quoted cell does not end");
  }

  std::string_view csv_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<CaseTable> CaseTable::Parse(std::string_view csv, const std::string& file,
                                   const std::set<std::string>& never_read) {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<Record> records, Splitter(csv, file).Split());
  if (records.empty()) return FailAt(file, 1, "no header line");
  CaseTable table;
  const std::vector<std::string>& header = records[0].cells;
  std::vector<bool> dropped(header.size());
  for (std::size_t i = 0; i < header.size(); ++i) {
    const std::string name(Trimmed(header[i]));
    if (name.empty()) return FailAt(file, 1, "column " + std::to_string(i + 1) + " has no name");
    dropped[i] = never_read.contains(name);
    if (!table.columns_.emplace(name, i).second)
      return FailAt(file, 1, "column " + name + " stands twice in the header");
  }
  for (const std::string& name : never_read) table.columns_.erase(name);
  const auto id = table.columns_.find("id");
  if (id == table.columns_.end()) return FailAt(file, 1, "no column \"id\"");
  std::set<std::string> seen;
  for (std::size_t i = 1; i < records.size(); ++i) {
    std::vector<std::string>& cells = records[i].cells;
    if (cells.size() != header.size()) {
      const Unexpected bad = FailAt(file, records[i].line,
                                    std::to_string(cells.size()) + " cells where the header has " +
                                        std::to_string(header.size()));
      table.broken_.emplace(table.rows_.size(), bad.value());
      cells.resize(header.size());
    }
    for (std::size_t c = 0; c < cells.size(); ++c)
      if (dropped[c]) cells[c].clear();
    const std::string name(Trimmed(cells[id->second]));
    if (name.empty()) return FailAt(file, records[i].line, "a row without id");
    if (!seen.insert(name).second)
      return FailAt(file, records[i].line, "id " + name + " stands twice");
    table.rows_.push_back(std::move(cells));
  }
  return table;
}

Result<CaseTable> CaseTable::Read(const std::string& path,
                                  const std::set<std::string>& never_read) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(ErrorCode::kNotFound, "cannot open " + path);
  std::string text;
  std::vector<char> block(1 << 16);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kLargestFile)
      return Fail(ErrorCode::kInvalidArgument, path + " is larger than 64 MiB");
  }
  if (file.bad() || !file.eof()) return Fail(ErrorCode::kIo, "cannot read " + path);
  return Parse(text, path, never_read);
}

Result<void> CaseTable::CheckRow(std::size_t row) const {
  const auto found = broken_.find(row);
  if (found == broken_.end()) return {};
  return Unexpected(found->second);
}

std::string_view CaseTable::Text(std::size_t row, std::string_view column) const {
  const auto found = columns_.find(column);
  return found == columns_.end() ? std::string_view() : Trimmed(rows_[row][found->second]);
}

std::optional<double> CaseTable::Number(std::size_t row, std::string_view column) const {
  const auto value = ParseDouble(Text(row, column));
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<std::int64_t> CaseTable::Count(std::size_t row, std::string_view column) const {
  const auto value = Number(row, column);
  if (!value || std::fabs(*value) > 1e15 || std::floor(*value) != *value) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::string CsvCell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + "\"";
}

}  // namespace launch
