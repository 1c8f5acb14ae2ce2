#include "common/diagnosis.h"

#include <utility>

#include "common/enum_text.h"

namespace launch {
namespace {

constexpr EnumText<Severity, 3> kSeverity{
    {{Severity::kNotice, "notice"}, {Severity::kWarning, "warning"}, {Severity::kError, "error"}}};
constexpr EnumText<CheckResult, 3> kCheckResult{
    {{CheckResult::kPass, "pass"}, {CheckResult::kWarn, "warn"}, {CheckResult::kFail, "fail"}}};
constexpr EnumText<Confidence, 4> kConfidence{{{Confidence::kUnknown, "unknown"},
                                               {Confidence::kSymptom, "symptom"},
                                               {Confidence::kLikely, "likely"},
                                               {Confidence::kConfirmed, "confirmed"}}};

}  // namespace

Finding MakeFinding(std::string code, Severity severity, std::string says, std::string remedy) {
  Finding finding;
  finding.code = std::move(code);
  finding.severity = severity;
  finding.says = std::move(says);
  finding.remedy = std::move(remedy);
  return finding;
}

std::string_view ToString(Severity v) { return kSeverity.Print(v); }
LAUNCH_ENUM_TEXT(CheckResult, ParseCheckResult, kCheckResult)
LAUNCH_ENUM_TEXT(Confidence, ParseConfidence, kConfidence)

}  // namespace launch
