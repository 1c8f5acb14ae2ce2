// What `launch check` prints: a line for every check, and the script of remedies.
#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "cli/log_printer.h"
#include "cli/render_text.h"
#include "cli/table.h"

namespace launch {
namespace {

// Every line behind a '#': nothing of a text that came from a node is ever run.
std::string Comment(const std::string& text, const std::string& indent) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\r", at), text.size());
    out += "#" + indent + CleanLine(std::string_view(text).substr(at, end - at), false) + "\n";
    at = end + 1;
  }
  return out;
}

// What passed with a word to say is no plain pass: "CUDA 13.0 is newer than the driver".
std::string_view Word(const Check& check) {
  const bool note = check.result == CheckResult::kPass && !check.code.empty();
  return note ? "note" : ToString(check.result);
}

}  // namespace

std::string CheckText(const PreflightReport& report, const Screen& screen) {
  Table table;
  table.columns = {{"CHECK", false, false},
                   {"RESULT", false, false},
                   {"NODE", false, false},
                   {"SAYS", false, true}};
  for (const Check& check : report.checks) {
    table.rows.push_back({check.check, std::string(Word(check)),
                          check.node ? check.node->value : "-", CleanText(check.says, false)});
  }
  std::string text = table.rows.empty() ? std::string() : FormatTable(table, screen.width);
  // Notices are in the table; what warns or fails needs its evidence and its way out.
  std::vector<Finding> findings = report.findings;
  if (!screen.wide) {
    std::erase_if(findings, [](const Finding& f) { return f.severity == Severity::kNotice; });
  }
  if (findings.empty()) return text;
  return text + (text.empty() ? "" : "\n") + FindingsText(findings, screen);
}

std::string FixScript(const PreflightReport& report) {
  std::string text =
      "#!/bin/bash\n# Remedies of `launch check`. Each block belongs to one node: read it, then "
      "run "
      "it there.\n";
  std::set<std::pair<std::string, std::string>> written;  // node and commands
  bool any = false;
  for (const Finding& finding : report.findings) {
    if (finding.severity == Severity::kNotice) continue;
    any = true;
    const std::string node = finding.node ? finding.node->value : "any node";
    text += "\n" + Comment(node + ": " + finding.code + ": " + finding.says, " ");
    std::string commands;
    for (const std::string& line : finding.fix) commands += line + "\n";
    if (!commands.empty() && written.emplace(node, commands).second) text += commands;
    text += Comment(finding.remedy, "   ");
  }
  return any ? text : text + "\n# Nothing to do.\n";
}

}  // namespace launch
