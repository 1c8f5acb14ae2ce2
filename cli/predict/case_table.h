// Strict reader of the CSV tables that the prediction programs are judged with.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace launch {

// RFC 4180 text with one header line: quoted cells may hold commas, quotes and line ends; CRLF and
// a byte order mark are accepted. Columns are found by name, so their order does not matter.
class CaseTable {
 public:
  // The columns in `never_read` are dropped while parsing: no later code can look at them.
  // kInvalidArgument, with file and line: no header, a column twice or without a name, an
  // unfinished quote, no column "id", an id twice or empty.
  static Result<CaseTable> Parse(std::string_view csv, const std::string& file,
                                 const std::set<std::string>& never_read);
  // Parse for a file of at most 64 MiB. kNotFound, kIo or kInvalidArgument.
  static Result<CaseTable> Read(const std::string& path, const std::set<std::string>& never_read);

  // The error of a row with more or fewer cells than the header: it does not hide the others.
  Result<void> CheckRow(std::size_t row) const;

  std::size_t size() const { return rows_.size(); }
  // Without blanks around it; empty for an empty cell and for a column the table lacks.
  std::string_view Text(std::size_t row, std::string_view column) const;
  // Absent when the cell is empty or anything but one finite number.
  std::optional<double> Number(std::size_t row, std::string_view column) const;
  // Number for a whole number of at most 1e15 ("13000000000.0" is one).
  std::optional<std::int64_t> Count(std::size_t row, std::string_view column) const;

 private:
  std::map<std::string, std::size_t, std::less<>> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::map<std::size_t, Error> broken_;  // by row
};

// The text as one CSV cell: quoted when it holds a comma, a quote or a line end.
std::string CsvCell(std::string_view text);

}  // namespace launch
