// Findings before a run and verdicts after it: what is true, how sure we are, what to do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace launch {

enum class Severity { kNotice, kWarning, kError };
enum class Confidence { kUnknown, kSymptom, kLikely, kConfirmed };

// `code` is one of rulings 25 ("torch_cpu_only"); the list is closed and documented.
struct Finding {
  std::string code;
  Severity severity = Severity::kNotice;
  std::optional<NodeId> node;
  std::string says;      // one sentence
  std::string evidence;  // what was read where
  std::string remedy;    // something the user can paste
  friend bool operator==(const Finding&, const Finding&) = default;
};

// Rulings 23; labels are those of failures.md.
struct Verdict {
  std::string label;
  Confidence confidence = Confidence::kUnknown;
  std::optional<Rank> rank;  // first failing rank
  std::optional<NodeId> node;
  std::vector<std::string> evidence;
  std::string cause;  // one sentence
  std::string remedy;
  std::string
      action;  // no_retry | retry_with_change | retry_elsewhere | retry_same | resume | continue
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

std::string_view ToString(Severity v);  // "error", "warning", "notice"
std::string_view ToString(Confidence v);
std::optional<Severity> ParseSeverity(std::string_view text);
std::optional<Confidence> ParseConfidence(std::string_view text);

}  // namespace launch
