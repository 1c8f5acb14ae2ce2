// Findings before a run and verdicts after it: what is true, how sure we are, what to do.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace launch {

enum class Severity { kNotice, kWarning, kError };
enum class CheckResult { kPass, kWarn, kFail };
enum class Confidence { kUnknown, kSymptom, kLikely, kConfirmed };

// `code` is one of docs/preflight.md ("torch_cpu_only"); the list is closed.
struct Finding {
  std::string code;
  Severity severity = Severity::kNotice;
  std::optional<NodeId> node;
  std::string says;      // one sentence
  std::string evidence;  // what was read where
  std::string remedy;    // what to do, best way first, one way a line
  // The first way as shell lines to run on `node`; empty where no command can do it.
  std::vector<std::string> fix = {};
  friend bool operator==(const Finding&, const Finding&) = default;
};

// A finding of no node in particular.
Finding MakeFinding(std::string code, Severity severity, std::string says, std::string remedy = {});

// One line of `launch check`: what was looked at on a node, and how it went.
struct Check {
  std::string check;  // "driver", "torch CUDA" ...
  std::optional<NodeId> node;
  CheckResult result = CheckResult::kPass;
  std::string says;
  std::string code;  // of the finding behind it; empty when nothing was found
  friend bool operator==(const Check&, const Check&) = default;
};

// Why a run failed. `label` and `action` are those of docs/diagnosis.md.
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
  // What an out-of-memory message says, in GiB: asked, total, free, process, allocated,
  // unallocated, others; reserve_share is unallocated / total.
  std::map<std::string, double> numbers;
  // What a retry would alter: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "batch.micro: the
  // next smaller, batch.global kept".
  std::vector<std::string> changes;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

std::string_view ToString(Severity v);     // "error", "warning", "notice"
std::string_view ToString(CheckResult v);  // "pass", "warn", "fail"
std::string_view ToString(Confidence v);
std::optional<CheckResult> ParseCheckResult(std::string_view text);
std::optional<Confidence> ParseConfidence(std::string_view text);

}  // namespace launch
