#include "controller/core/fold_findings.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "common/hostlist.h"
#include "common/utf8_head.h"

namespace launch::controller {
namespace {

constexpr std::size_t kNamesBytes = 512;

std::string Head(const std::string& text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  return std::string(Utf8Head(text, bytes)) + "...";
}

}  // namespace

std::vector<Finding> FoldFindings(const std::vector<Finding>& findings) {
  struct Alike {
    std::size_t told = 0;
    std::vector<std::string> others;
  };
  std::map<std::pair<std::string, Severity>, Alike> codes;
  std::vector<Finding> folded;
  for (const Finding& finding : findings) {
    Alike& alike = codes[{finding.code, finding.severity}];
    if (finding.node && alike.told >= kFindingsPerCode) {
      alike.others.push_back(finding.node->value);
      continue;
    }
    folded.push_back(finding);
    const bool whole = !finding.node || alike.told++ == 0;
    folded.back().evidence = Head(finding.evidence, whole ? kWholeEvidence : kCutEvidence);
  }
  for (auto& [code, alike] : codes) {
    if (alike.others.empty()) continue;
    const std::size_t count = alike.others.size();
    Finding rest;
    rest.code = code.first;
    rest.severity = code.second;
    rest.says = fmt::format("the same on {} more: {}", count,
                            Head(FoldHostlist(std::move(alike.others)), kNamesBytes));
    folded.push_back(std::move(rest));
  }
  return folded;
}

}  // namespace launch::controller
