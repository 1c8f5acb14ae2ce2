#include "cli/output_form.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/text.h"

namespace launch {
namespace {

constexpr const char* kExample = "-o custom=ID,NAME,ST";

bool IsTitle(const std::string& title, const std::string& wanted) {
  const std::string name = Upper(wanted);
  return name == title || name == title.substr(0, title.find('('));
}

Result<std::size_t> IndexOf(const std::vector<Column>& columns, const std::string& wanted) {
  std::vector<std::string> titles;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (IsTitle(columns[i].title, wanted)) return i;
    titles.push_back(columns[i].title);
  }
  return Fail(ErrorCode::kInvalidArgument, "there is no column `" + wanted + "`",
              "there are " + Joined(titles, ", "));
}

std::string CsvCell(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

const std::vector<std::string>& OutputForms() {
  static const std::vector<std::string> forms = {"table", "wide", "json",   "yaml",
                                                 "name",  "csv",  "custom="};
  return forms;
}

Result<OutputForm> ParseOutputForm(const std::string& text) {
  const std::size_t equals = text.find('=');
  OutputForm form;
  form.name = text.substr(0, equals);
  const bool takes_columns = form.name == "csv" || form.name == "custom";
  const bool known =
      takes_columns || std::ranges::find(OutputForms(), form.name) != OutputForms().end();
  if (!known)
    return Fail(ErrorCode::kInvalidArgument, "there is no output format `" + form.name + "`",
                "the formats are " + Joined(OutputForms(), ", "));
  if (equals == std::string::npos) {
    if (form.name == "custom")
      return Fail(ErrorCode::kInvalidArgument, "custom needs columns", kExample);
    return form;
  }
  if (!takes_columns)
    return Fail(ErrorCode::kInvalidArgument, form.name + " takes no columns", kExample);
  const auto nameless = [&] {
    return Fail(ErrorCode::kInvalidArgument, "a column has no name in `" + text + "`", kExample);
  };
  std::istringstream names(text.substr(equals + 1));
  for (std::string name; std::getline(names, name, ',');) {
    name = Trim(name);
    if (name.empty()) return nameless();
    form.columns.push_back(name);
  }
  if (text.ends_with(',')) return nameless();  // getline ends before it
  if (form.columns.empty())
    return Fail(ErrorCode::kInvalidArgument, "no column is named in `" + text + "`", kExample);
  return form;
}

Result<Table> SelectColumns(Table table, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return table;
  std::vector<std::size_t> indices;
  Table chosen;
  for (const std::string& name : wanted) {
    LAUNCH_ASSIGN_OR_RETURN(const std::size_t index, IndexOf(table.columns, name));
    indices.push_back(index);
    chosen.columns.push_back(table.columns[index]);
  }
  for (const std::vector<std::string>& row : table.rows) {
    std::vector<std::string> cells;
    cells.reserve(indices.size());
    for (const std::size_t index : indices) cells.push_back(row[index]);
    chosen.rows.push_back(std::move(cells));
  }
  return chosen;
}

std::string FormatCsv(const Table& table) {
  std::string text;
  const auto write = [&](const auto& cell_of) {
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      text += (i == 0 ? "" : ",") + CsvCell(cell_of(i));
    text += "\n";
  };
  write([&](std::size_t i) { return table.columns[i].title; });
  for (const std::vector<std::string>& row : table.rows)
    write([&](std::size_t i) { return row[i]; });
  return text;
}

}  // namespace launch
