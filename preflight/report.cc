#include "preflight/report.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "preflight/codes.h"

namespace launch {
namespace {

CheckResult ResultOf(Severity severity) {
  if (severity == Severity::kError) return CheckResult::kFail;
  return severity == Severity::kWarning ? CheckResult::kWarn : CheckResult::kPass;
}

std::string_view NameOf(const std::optional<NodeId>& node) {
  return node ? std::string_view(node->value) : std::string_view();
}

}  // namespace

Finding MakeFinding(std::string_view code, Severity severity, const NodeId& node,
                    std::string says) {
  Finding finding;
  finding.code = code;
  finding.severity = severity;
  finding.node = node;
  finding.says = std::move(says);
  return finding;
}

void Add(PreflightReport& report, Finding finding, std::string_view check) {
  const std::string name(check.empty() ? CheckOfCode(finding.code) : check);
  report.checks.push_back(
      {name, finding.node, ResultOf(finding.severity), finding.says, finding.code});
  report.findings.push_back(std::move(finding));
}

void Pass(PreflightReport& report, std::string_view check, const NodeId& node, std::string says) {
  report.checks.push_back({std::string(check), node, CheckResult::kPass, std::move(says), ""});
}

void Follow(PreflightReport& report, std::string_view check, const Finding& cause,
            std::string says) {
  report.checks.push_back(
      {std::string(check), cause.node, ResultOf(cause.severity), std::move(says), cause.code});
}

void Append(PreflightReport& report, PreflightReport more) {
  for (Finding& finding : more.findings) report.findings.push_back(std::move(finding));
  for (Check& check : more.checks) report.checks.push_back(std::move(check));
}

void Sort(PreflightReport& report) {
  std::sort(report.findings.begin(), report.findings.end(), [](const Finding& a, const Finding& b) {
    return std::make_tuple(-static_cast<int>(a.severity), NameOf(a.node), a.code, a.says) <
           std::make_tuple(-static_cast<int>(b.severity), NameOf(b.node), b.code, b.says);
  });
  // By node, and within one in the order they were made.
  std::map<std::string, std::vector<Check>> by_node;
  for (Check& check : report.checks) {
    by_node[std::string(NameOf(check.node))].push_back(std::move(check));
  }
  report.checks.clear();
  for (auto& [node, checks] : by_node) {
    for (Check& check : checks) report.checks.push_back(std::move(check));
  }
}

bool HasErrors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::kError; });
}

}  // namespace launch
