// What -o asks for: one of the forms, and which columns of a table.
#pragma once

#include <string>
#include <vector>

#include "cli/table.h"
#include "common/error.h"

namespace launch {

struct OutputForm {
  std::string name = "table";        // table | wide | json | yaml | name | csv | custom
  std::vector<std::string> columns;  // of custom=, and csv=; empty: all
};

// The forms that -o takes; "custom=" stands for custom with its columns.
const std::vector<std::string>& OutputForms();

// "wide", "csv", "csv=ID,ST", "custom=ID,NAME".
Result<OutputForm> ParseOutputForm(const std::string& text);

// The columns `wanted`, in that order, by their titles in any case; of "NODELIST(REASON)" the word
// before the parenthesis is enough. Empty: all.
Result<Table> SelectColumns(Table table, const std::vector<std::string>& wanted);

// The titles and every row, quoted where RFC 4180 wants it; lines end with LF.
std::string FormatCsv(const Table& table);

}  // namespace launch
