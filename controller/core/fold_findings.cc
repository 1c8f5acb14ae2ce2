#include "controller/core/fold_findings.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/hostlist.h"
#include "common/utf8_head.h"

namespace launch::controller {
namespace {

constexpr std::size_t kNamesBytes = 512;
constexpr std::string_view kTheSame = "the same on ";
constexpr std::string_view kMore = " more: ";
constexpr std::string_view kCut = "...";

std::string Head(const std::string& text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  return std::string(Utf8Head(text, bytes)) + std::string(kCut);
}

// Nodes of one code that are not told one by one.
struct Alike {
  std::size_t told = 0;
  std::size_t count = 0;  // of those that are not
  std::vector<std::string> others;
  std::string names;  // of a summary whose list was cut: those of `others` are behind its end
};

// A summary that an earlier folding made.
bool TakeSummary(const Finding& finding, Alike& alike) {
  std::string_view text = finding.says;
  if (finding.node || !text.starts_with(kTheSame)) return false;
  text.remove_prefix(kTheSame.size());
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with(kMore)) return false;
  text.remove_prefix(kMore.size());
  alike.count += count;
  auto names = text.ends_with(kCut) ? Result<std::vector<std::string>>() : ExpandHostlist(text);
  if (names && !names->empty()) {
    std::move(names->begin(), names->end(), std::back_inserter(alike.others));
  } else if (alike.names.empty()) {
    alike.names = text;
  }
  return true;
}

}  // namespace

std::vector<Finding> FoldFindings(const std::vector<Finding>& findings) {
  std::map<std::pair<std::string, Severity>, Alike> codes;
  std::vector<Finding> folded;
  for (const Finding& finding : findings) {
    Alike& alike = codes[{finding.code, finding.severity}];
    if (TakeSummary(finding, alike)) continue;
    if (finding.node && alike.told >= kFindingsPerCode) {
      alike.others.push_back(finding.node->value);
      ++alike.count;
      continue;
    }
    folded.push_back(finding);
    const bool whole = !finding.node || alike.told++ == 0;
    folded.back().evidence = Head(finding.evidence, whole ? kWholeEvidence : kCutEvidence);
  }
  for (auto& [code, alike] : codes) {
    if (alike.count == 0) continue;
    const std::string names = alike.names.empty()
                                  ? Head(FoldHostlist(std::move(alike.others)), kNamesBytes)
                                  : std::move(alike.names);
    Finding rest;
    rest.code = code.first;
    rest.severity = code.second;
    rest.says = fmt::format("{}{}{}{}", kTheSame, alike.count, kMore, names);
    folded.push_back(std::move(rest));
  }
  return folded;
}

}  // namespace launch::controller
