#include "preflight/checked_text.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "common/hostlist.h"
#include "common/utf8_head.h"

namespace launch {
namespace {

constexpr std::size_t kNodesPerCheck = 8;
constexpr std::size_t kMostBytes = 4 << 10;
constexpr std::size_t kSentence = 400;  // bytes

std::string OneField(std::string_view text) {
  std::string field(Utf8Head(text, kSentence));
  std::replace_if(
      field.begin(), field.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return field;
}

std::string LineOf(const Check& check) {
  return "\n" + std::string(ToString(check.result)) + "\t" + OneField(check.check) + "\t" +
         (check.node ? check.node->value : "") + "\t" + OneField(check.code) + "\t" +
         OneField(check.says);
}

// The first nodes of each check one by one, the others by their names.
std::vector<Check> Folded(const std::vector<Check>& checks) {
  struct Alike {
    std::size_t told = 0;
    std::vector<std::string> others;
  };
  std::map<std::tuple<std::string, CheckResult, std::string>, Alike> alike;
  std::vector<Check> folded;
  for (const Check& check : checks) {
    Alike& same = alike[{check.check, check.result, check.code}];
    if (check.node && ++same.told > kNodesPerCheck) {
      same.others.push_back(check.node->value);
    } else {
      folded.push_back(check);
    }
  }
  for (auto& [key, same] : alike) {
    if (same.others.empty()) continue;
    const auto& [name, result, code] = key;
    const std::string count = std::to_string(same.others.size());
    folded.push_back({name, std::nullopt, result,
                      "and " + count + " more: " + FoldHostlist(std::move(same.others)), code});
  }
  return folded;
}

std::string Counted(const std::vector<Check>& checks) {
  std::string text = std::to_string(checks.size()) + (checks.size() == 1 ? " check" : " checks");
  const char* separator = ": ";
  for (const auto& [result, words] :
       {std::pair{CheckResult::kPass, " passed"}, std::pair{CheckResult::kWarn, " with a warning"},
        std::pair{CheckResult::kFail, " failed"}}) {
    const auto count = std::count_if(checks.begin(), checks.end(),
                                     [&](const Check& one) { return one.result == result; });
    if (count == 0) continue;
    text += separator + std::to_string(count) + words;
    separator = ", ";
  }
  return text;
}

}  // namespace

std::string CheckedText(const std::vector<Check>& checks) {
  std::string text = Counted(checks);
  const std::vector<Check> folded = Folded(checks);
  std::vector<std::string> lines(folded.size());  // empty: no room for it
  std::size_t size = text.size();
  for (const CheckResult result : {CheckResult::kFail, CheckResult::kWarn, CheckResult::kPass}) {
    for (std::size_t i = 0; i < folded.size(); ++i) {
      if (folded[i].result != result) continue;
      std::string line = LineOf(folded[i]);
      if (size + line.size() > kMostBytes) break;
      size += line.size();
      lines[i] = std::move(line);
    }
  }
  for (const std::string& line : lines) text += line;
  return text;
}

std::vector<Check> ParseChecked(std::string_view text) {
  std::vector<Check> checks;
  for (std::size_t at = text.find('\n'); at != std::string_view::npos;) {
    const std::size_t end = text.find('\n', at + 1);
    std::string_view line = text.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
    at = end;
    std::vector<std::string> fields;
    for (int i = 0; i < 4; ++i) {
      const std::size_t tab = line.find('\t');
      if (tab == std::string_view::npos) break;
      fields.emplace_back(line.substr(0, tab));
      line.remove_prefix(tab + 1);
    }
    const auto result = fields.size() == 4 ? ParseCheckResult(fields[0]) : std::nullopt;
    if (!result) continue;
    std::optional<NodeId> node;
    if (!fields[2].empty()) node = NodeId{fields[2]};
    checks.push_back({fields[1], node, *result, std::string(line), fields[3]});
  }
  return checks;
}

}  // namespace launch
