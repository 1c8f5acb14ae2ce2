// Answers as JSON with stable names (docs/cli-json.md); "version": 1 grows when a name changes.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "common/view.h"
#include "preflight/preflight.h"
#include "proto/convert_user.h"

namespace launch {

struct ContextRow;
struct RankLine;
struct TokenRow;
struct TopFacts;

// Each text is one JSON document, indented by two, without a final newline.
std::string JobJson(const JobView& job);
std::string JobsJson(const std::vector<JobView>& jobs);
std::string NodesJson(const std::vector<NodeView>& nodes);
std::string PlanJson(const PlanAnswer& answer);
std::string SubmitJson(const SubmitAnswer& answer);
std::string CheckJson(const PreflightReport& report);
std::string ChangeJson(const std::vector<ChangeAnswer>& answers);
std::string CancelJson(const std::vector<CancelAnswer>& answers);
std::string ContextsJson(const std::vector<ContextRow>& contexts);
std::string DrainJson(const std::vector<std::string>& nodes, bool drained);
std::string TokensJson(const std::vector<TokenRow>& tokens);
std::string VersionJson();
std::string QuarantineJson(const std::vector<QuarantinedGpu>& gpus);
std::string EventLine(const EventView& event);   // one line, for streams
std::string RankLineJson(const RankLine& line);  // likewise
std::string TopJson(const TopFacts& facts);
std::string CalibrationJson(const std::vector<MeasuredRun>& runs);
std::string ErrorJson(const Error& error);

}  // namespace launch
