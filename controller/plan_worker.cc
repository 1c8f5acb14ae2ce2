#include "controller/plan_worker.h"

#include <algorithm>
#include <utility>

#include "common/pki.h"
#include "controller/core/network_links.h"
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

// `run` and `setup` become one argument of a shell each; the kernel takes no longer ones than 128
// KiB (MAX_ARG_STRLEN), and the line stands among the words of its wrapper.
Result<void> CheckLength(std::string_view field, const std::string& text) {
  constexpr std::size_t kLongest = 120 << 10;
  if (text.size() <= kLongest) return {};
  return Fail(ErrorCode::kInvalidArgument,
              std::string(field) + " has " + std::to_string(text.size()) +
                  " bytes; the longest that the kernel starts is " + std::to_string(kLongest),
              "put it into a script in the working directory and run that");
}

// What a node would refuse to read must not be planned: it could not be prepared anywhere.
Result<void> CheckReadable(const std::string& bytes) {
  auto read = ParseSpec(bytes);
  if (read) return {};
  Error error = std::move(read).error();
  error.message = "no node can take this plan: " + error.message;
  return Unexpected(std::move(error));
}

}  // namespace

PlanOutcome MakeOutcome(const effect::PlanWanted& wanted) {
  PlanOutcome outcome;
  const auto fail = [&](Error error) {
    outcome.error = std::move(error);
    return outcome;
  };
  for (const auto& [field, text] :
       {std::pair("run", &wanted.spec.run), std::pair("setup", &wanted.spec.setup)}) {
    if (auto checked = CheckLength(field, *text); !checked) {
      return fail(std::move(checked).error());
    }
  }
  const Result<LaunchLine> line = ReadLineOf(wanted.spec, wanted.context.files);
  outcome.line = DemandIn(line);
  if (auto checked = CheckSpec(wanted.spec, wanted.context, line); !checked) {
    return fail(std::move(checked).error());
  }
  const std::vector<PlannerOffer> offers = ForPlanner(wanted.offers, wanted.owner);
  tl::expected<Placement, Unplaced> placed = tl::unexpected(Unplaced{});
  if (!wanted.placed) {
    placed = Place(wanted.spec, offers, *outcome.line);
    if (!placed && placed.error().never) return fail(NeverFits(placed.error()));
  }

  // Behind what no force passes over.
  std::vector<const NodeInventory*> known;
  known.reserve(wanted.offers.size());
  for (const effect::NodeOffer& offer : wanted.offers) known.push_back(offer.inventory.get());
  if (PreflightReport refused = JudgeSpec(wanted.spec, known); HasErrors(refused.findings)) {
    outcome.findings = std::move(refused.findings);
    outcome.checks = std::move(refused.checks);
    return outcome;
  }

  Placement placement;
  if (wanted.placed) {
    auto here = AsPlacement(wanted);
    if (!here) return fail(std::move(here).error());
    placement = std::move(*here);
  } else {
    if (!placed) {
      // It has to wait: the plan shown is that for the nodes when they are empty and answer.
      std::vector<PlannerOffer> empty = WhenEmpty(offers);
      for (PlannerOffer& offer : empty) offer.schedulable = true;
      placed = Place(wanted.spec, empty, *outcome.line);
      if (!placed) return outcome;  // no node is known
    }
    placement = std::move(*placed);
  }

  const PlanInput input{
      wanted.spec,
      wanted.context,
      line,
      offers,
      placement,
      wanted.placed ? std::optional<Key>(wanted.placed->key) : std::nullopt,
      wanted.owner.value,
      wanted.questions,
      wanted.host_memory_was_short,
      MeasuredBetween(wanted.offers, placement.offers, wanted.now, wanted.network_known_by)};
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
      if (auto checked = CheckReadable(allocation.bytes); !checked) {
        outcome.allocations.clear();
        return fail(std::move(checked).error());
      }
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

PlanWorker::PlanWorker(std::function<void(event::Planned)> answer, PlanQueue::IsWaiting is_waiting,
                       Plan plan)
    : answer_(std::move(answer)),
      plan_(std::move(plan)),
      wanted_(std::move(is_waiting)),
      thread_([this] { Run(); }) {}

PlanWorker::~PlanWorker() { Stop(); }

void PlanWorker::Want(effect::PlanWanted wanted) {
  std::vector<PlanQueue::Dropped> dropped;
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    dropped = wanted_.Add(std::move(wanted));
    changed_.notify_one();
  }
  Answer(std::move(dropped));
}

void PlanWorker::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    wanted_.Clear();
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void PlanWorker::Answer(std::vector<PlanQueue::Dropped> dropped) const {
  for (PlanQueue::Dropped& one : dropped) {
    PlanOutcome outcome;
    outcome.error = std::move(one.why);
    answer_({one.ticket, std::move(outcome)});
  }
}

void PlanWorker::Run() {
  for (;;) {
    std::optional<effect::PlanWanted> wanted;
    std::vector<PlanQueue::Dropped> dropped;
    {
      MutexLock lock(mutex_);
      while (wanted_.empty() && !stopping_) changed_.wait(lock.native());
      if (stopping_) return;
      wanted = wanted_.Take(dropped);
    }
    Answer(std::move(dropped));
    if (wanted) answer_({wanted->ticket, plan_(*wanted)});
  }
}

}  // namespace launch::controller
