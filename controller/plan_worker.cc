#include "controller/plan_worker.h"

#include <algorithm>
#include <utility>

#include "common/pki.h"
#include "controller/core/offers.h"
#include "controller/plan_codec.h"
#include "planner/planner.h"
#include "preflight/preflight.h"
#include "proto/convert_node.h"

namespace launch::controller {
namespace {

// Where the core put the job, as positions in the offers.
Result<Placement> AsPlacement(const effect::PlanWanted& wanted) {
  Placement placement;
  for (const NodeId& node : wanted.placed->nodes) {
    const auto found =
        std::find_if(wanted.offers.begin(), wanted.offers.end(),
                     [&](const effect::NodeOffer& o) { return o.inventory->node == node; });
    if (found == wanted.offers.end()) {
      return Fail(ErrorCode::kInternal, "placed on " + node.value + ", which is not offered");
    }
    placement.offers.push_back(static_cast<std::size_t>(found - wanted.offers.begin()));
  }
  placement.gpus = wanted.placed->gpus;
  return placement;
}

Error NeverFits(const Unplaced& unplaced) {
  std::string message = unplaced.reason.evidence;
  if (!unplaced.closest_node.empty()) {
    message += "; closest is " + unplaced.closest_node + ": " + unplaced.missing;
  }
  return Error{ErrorCode::kCannotFit, message,
               "ask for less, or for what a node has: launch nodes -o wide", std::nullopt};
}

}  // namespace

PlanOutcome MakeOutcome(const effect::PlanWanted& wanted) {
  PlanOutcome outcome;
  const auto fail = [&](Error error) {
    outcome.error = std::move(error);
    return outcome;
  };
  std::vector<const NodeInventory*> known;
  for (const effect::NodeOffer& offer : wanted.offers) known.push_back(offer.inventory.get());
  if (PreflightReport refused = JudgeSpec(wanted.spec, known); HasErrors(refused.findings)) {
    outcome.findings = std::move(refused.findings);
    outcome.checks = std::move(refused.checks);
    return outcome;
  }
  if (auto checked = CheckSpec(wanted.spec, wanted.context); !checked) {
    return fail(std::move(checked).error());
  }

  const std::vector<PlannerOffer> offers = ForPlanner(wanted.offers, wanted.owner);
  Placement placement;
  if (wanted.placed) {
    auto placed = AsPlacement(wanted);
    if (!placed) return fail(std::move(placed).error());
    placement = std::move(*placed);
  } else {
    auto placed = Place(wanted.spec, offers);
    if (!placed && !placed.error().never) {
      // It has to wait: the plan shown is that for the nodes when they are empty and answer.
      std::vector<PlannerOffer> empty = WhenEmpty(offers);
      for (PlannerOffer& offer : empty) offer.schedulable = true;
      placed = Place(wanted.spec, empty);
      if (!placed) return outcome;  // no node is known
    }
    if (!placed) return fail(NeverFits(placed.error()));
    placement = std::move(*placed);
  }

  const PlanInput input{wanted.spec,
                        wanted.context,
                        offers,
                        placement,
                        wanted.placed ? std::optional<Key>(wanted.placed->key) : std::nullopt,
                        wanted.owner.value,
                        wanted.questions};
  auto planned = MakePlan(input);
  if (!planned) return fail(std::move(planned).error());
  std::vector<const NodeInventory*> nodes;
  for (const std::size_t offer : placement.offers) nodes.push_back(offers[offer].inventory);
  PreflightReport report = JudgeInventories(wanted.spec, planned->plan, nodes);
  outcome.findings = std::move(report.findings);
  outcome.checks = std::move(report.checks);
  if (wanted.placed) {
    for (AllocationSpec& spec : planned->allocations) {
      PlannedAllocation allocation;
      allocation.bytes = SerializeSpec(spec);
      allocation.digest = DigestOfSpec(allocation.bytes);
      allocation.spec = std::move(spec);
      outcome.allocations.push_back(std::move(allocation));
    }
    outcome.stored = EncodeStoredPlan(planned->plan, outcome.allocations);
    outcome.stored_digest = Sha256Hex(outcome.stored);
  }
  outcome.plan = std::move(planned->plan);
  return outcome;
}

PlanWorker::PlanWorker(std::function<void(event::Planned)> answer)
    : answer_(std::move(answer)), thread_([this] { Run(); }) {}

PlanWorker::~PlanWorker() { Stop(); }

void PlanWorker::Want(effect::PlanWanted wanted) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  wanted_.push_back(std::move(wanted));
  changed_.notify_one();
}

void PlanWorker::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    wanted_.clear();
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void PlanWorker::Run() {
  for (;;) {
    effect::PlanWanted wanted;
    {
      MutexLock lock(mutex_);
      while (wanted_.empty() && !stopping_) changed_.wait(lock.native());
      if (stopping_) return;
      wanted = std::move(wanted_.front());
      wanted_.pop_front();
    }
    answer_({wanted.ticket, MakeOutcome(wanted)});
  }
}

}  // namespace launch::controller
