#include "cli/job_file_table.h"

#include "cli/job_fields.h"

namespace launch {
namespace {

// A bar would end the cell.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

std::string Names(std::string_view names) {
  std::string text;
  while (!names.empty()) {
    const std::size_t space = names.find(' ');
    text += (text.empty() ? "`" : ", `") + std::string(names.substr(0, space)) + "`";
    if (space == std::string_view::npos) break;
    names.remove_prefix(space + 1);
  }
  return text;
}

}  // namespace

std::string JobFileTable() {
  std::string text;
  for (const JobFieldGroup& group : JobFieldGroups()) {
    const bool later = group.fields.front().set == nullptr;
    text += "\n### " + std::string(group.title) + "\n\n";
    text += later ? "| Field | Also written | Meaning |\n|---|---|---|\n"
                  : "| Field | Also written | Value | Default | Meaning |\n|---|---|---|---|---|\n";
    for (const JobField& field : group.fields) {
      text += "| `" + std::string(field.name) + "` | " + Names(field.aliases) + " | ";
      if (!later) text += Cell(field.type) + " | " + Cell(field.fallback) + " | ";
      text += Cell(field.help) + " |\n";
    }
  }
  return text;
}

Result<std::string> WithJobFileTable(const std::string& document) {
  const std::size_t begin = document.find(kTableBegin);
  const std::size_t end = document.find(kTableEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return Fail(ErrorCode::kInvalidArgument, "the document has no marks for the table",
                std::string(kTableBegin) + " and " + std::string(kTableEnd));
  return document.substr(0, begin + kTableBegin.size()) + "\n" + JobFileTable() + "\n" +
         document.substr(end);
}

}  // namespace launch
