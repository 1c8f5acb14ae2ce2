#include "cli/offline_plan.h"

#include "planner/planner.h"

namespace launch {

Result<OfflineAnswer> PlanOffline(const JobSpec& spec, const SubmitContext& context,
                                  const std::vector<NodeInventory>& nodes) {
  LAUNCH_RETURN_IF_ERROR(CheckSpec(spec, context));
  std::vector<PlannerOffer> offers;
  for (const NodeInventory& node : nodes) {
    PlannerOffer offer;
    offer.inventory = &node;
    for (std::size_t i = 0; i < node.gpus.size(); ++i)
      if (node.gpus[i].health != Health::kBad) offer.free_gpus.push_back(static_cast<int>(i));
    offer.free_cpus = node.cores;
    offer.free_memory_bytes = node.memory_bytes;
    offer.schedulable = HealthOf(node).health != Health::kBad;
    offers.push_back(std::move(offer));
  }
  OfflineAnswer result;
  const auto placement = Place(spec, offers);
  if (!placement) {
    const Unplaced& why = placement.error();
    if (!why.never) {
      result.answer.waits = why.reason;
      return result;
    }
    std::string message = why.reason.evidence;
    if (!why.closest_node.empty())
      message += "; closest is " + why.closest_node + ": " + why.missing;
    return Fail(ErrorCode::kCannotFit, message,
                "ask for less, or for what a node has: launch nodes -o wide");
  }
  const PlanInput input{spec, context, offers, *placement, std::nullopt, context.user};
  auto planned = MakePlan(input);
  if (!planned) return Unexpected(planned.error());
  std::vector<const NodeInventory*> chosen;
  for (const std::size_t offer : placement->offers) chosen.push_back(offers[offer].inventory);
  result.report = JudgeInventories(spec, planned->plan, chosen);
  result.answer.findings = result.report.findings;
  result.answer.plan = std::move(planned->plan);
  return result;
}

}  // namespace launch
