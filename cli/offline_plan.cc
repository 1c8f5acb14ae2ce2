#include "cli/offline_plan.h"

#include <utility>

#include "common/clock.h"
#include "planner/place/demand.h"
#include "planner/planner.h"
#include "planner/start/array_check.h"
#include "preflight/codes.h"

namespace launch {

Result<PlanAnswer> PlanOffline(const JobSpec& whole, const SubmitContext& context,
                               const std::vector<NodeInventory>& nodes,
                               const PlanQuestions& questions) {
  LAUNCH_RETURN_IF_ERROR(CheckArray(whole, context));
  const JobSpec spec = FirstElement(whole);
  std::vector<const NodeInventory*> known;
  for (const NodeInventory& node : nodes) known.push_back(&node);
  if (PreflightReport refused = JudgeSpec(spec, known); HasErrors(refused.findings)) {
    return PlanAnswer{std::nullopt, std::move(refused.findings), std::nullopt,
                      std::move(refused.checks)};
  }
  const Result<LaunchLine> line = ReadLineOf(spec, context.files);
  LAUNCH_RETURN_IF_ERROR(CheckSpec(spec, context, line));
  LAUNCH_RETURN_IF_ERROR(CheckSignalLead(spec));
  std::vector<PlannerOffer> offers;
  for (const NodeInventory& node : nodes) {
    PlannerOffer offer;
    offer.inventory = &node;
    for (std::size_t i = 0; i < node.gpus.size(); ++i)
      if (node.gpus[i].health != Health::kBad) offer.free_gpus.push_back(static_cast<int>(i));
    offer.free_cpus = node.cores;
    offer.free_memory_bytes = node.memory_bytes;
    offer.schedulable = !HasOnlyBadGpus(node);
    offers.push_back(std::move(offer));
  }
  PlanAnswer answer;
  const auto placement = Place(spec, offers, DemandIn(line));
  if (!placement) {
    const Unplaced& why = placement.error();
    if (!why.never) {
      answer.waits = why.reason;
      return answer;
    }
    std::string message = why.reason.evidence;
    if (!why.closest_node.empty())
      message += "; closest is " + why.closest_node + ": " + why.missing;
    return Fail(ErrorCode::kCannotFit, message,
                "ask for less, or for what a node has: launch nodes -o wide");
  }
  const PlanInput input{spec,       context,      line,         offers,
                        *placement, std::nullopt, context.user, questions};
  auto planned = MakePlan(input);
  if (!planned) return Unexpected(planned.error());
  std::vector<const NodeInventory*> chosen;
  for (const std::size_t offer : placement->offers) chosen.push_back(offers[offer].inventory);
  PreflightReport report = JudgeInventories(spec, planned->plan, chosen);
  answer.findings = std::move(report.findings);
  answer.checks = std::move(report.checks);
  answer.plan = std::move(planned->plan);
  const WallTime now = SystemClock().WallNow();
  if (spec.begin && *spec.begin > now) answer.waits = WaitForBegin(*spec.begin, now);
  return answer;
}

PreflightReport ReportOf(const PlanAnswer& answer) {
  PreflightReport report{answer.findings, answer.checks};
  if (!answer.plan) return report;
  for (const Finding& warning : answer.plan->warnings) {
    if (IsPreflightCode(warning.code)) Add(report, warning);
  }
  Sort(report);
  return report;
}

}  // namespace launch
