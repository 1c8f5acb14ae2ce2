// Places what waits: gangs all at once, in the order of submission; the plan is made elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/planted.h"
#include "controller/core/checkpoint_tie.h"
#include "controller/core/dependencies.h"
#include "controller/core/draft.h"
#include "controller/core/kept_place.h"
#include "controller/core/measured_runs.h"
#include "controller/core/offers.h"
#include "controller/core/queue_order.h"
#include "controller/core/refusals.h"
#include "controller/core/replan.h"
#include "controller/core/unknown_attempts.h"
#include "planner/planner.h"
#include "scheduler/fifo.h"

namespace launch::controller {
namespace {

// Of a job that has a place; it is looked for again when some of these plans are made.
WaitReason WaitsForPlans(std::size_t plans) {
  return {"Priority",
          fmt::format("its turn comes when the plans of {} jobs before it are made", plans)};
}

// Between decisions that read long scripts: what else happened has its turn.
constexpr Millis kReadAgain{5};

std::string Seconds(Millis time) { return fmt::format("{} s", (time.count() + 999) / 1000); }

WaitReason Planning() { return {"Planning", "placed; its plan is being made"}; }

// The scripts of many jobs are read one after the other, some in each decision.
WaitReason ReadFirst() { return {"Priority", "what its script starts is not read yet"}; }

// Ends the jobs that wait for what can never be. True: the queue is another one now.
bool EndHopeless(Draft& draft, DependencyLooks& looks) {
  std::vector<std::pair<JobId, std::string>> hopeless;
  for (const JobId id : draft.state().queue) {
    const JobRecord& job = draft.state().jobs.at(id);
    if (job.attempts > 0) continue;  // what it waited for was there when it started
    if (draft.state().specs.at(id).spec.depends_on.empty()) continue;
    DependencyLook look = looks.Of(job);
    if (!look.never.empty()) hopeless.emplace_back(id, std::move(look.never));
  }
  for (const auto& [id, why] : hopeless) {
    Ending ending;
    ending.sub_reason = "DEPENDENCY";
    ending.text = why;
    ending.blame = Blame::kNobody;
    EndJob(draft, draft.state().jobs.at(id), ending);
  }
  return !hopeless.empty();
}

// What the planner learns from earlier runs is the same for all elements of an array.
class Histories {
 public:
  const std::vector<MeasuredRun>& Of(const State& state, const JobRecord& job) {
    const auto [known, fresh] = known_.try_emplace({job.owner, job.submitted});
    if (fresh) known->second = HistoryFor(state, job);
    return known->second;
  }

 private:
  std::map<std::pair<UserName, WallTime>, std::vector<MeasuredRun>> known_;
};

std::optional<WaitReason> RestartInPlace(Draft& draft, const JobRecord& job, Histories& histories);

// What the job waits for by its own fields; the wall clock is looked at again before long.
std::optional<WaitReason> WaitsByItself(Draft& draft, DependencyLooks& looks,
                                        const JobRecord& job) {
  const JobSpec& spec = draft.state().specs.at(job.id).spec;
  if (job.held) {
    return WaitReason{"JobHeldUser", job.held_by.empty() ? "held when it was submitted"
                                                         : "held by " + job.held_by};
  }
  if (std::string why = WhyRunsAlready(draft.state(), job.id); !why.empty()) {
    return WaitReason{"ReqNodeNotAvail", std::move(why)};
  }
  if (!spec.depends_on.empty() && job.attempts == 0) {
    const DependencyLook look = looks.Of(job);
    if (!look.waits.empty()) return WaitReason{"Dependency", look.waits};
  }
  if (spec.begin && *spec.begin > draft.wall()) {
    const Millis left = *spec.begin - draft.wall();
    BootTime& until = draft.live().not_before[job.id];  // a longer backoff stays
    until = std::max(until, draft.now() + std::min(left, kBeginAgain));
    return WaitForBegin(*spec.begin, draft.wall());
  }
  return std::nullopt;
}

std::vector<QueueEntry> Entries(Draft& draft, DependencyLooks& looks, Histories& histories) {
  std::vector<QueueEntry> entries;
  for (const JobId id : QueueOrder(draft.state())) {
    QueueEntry entry{id, std::nullopt};
    const JobRecord& job = draft.state().jobs.at(id);
    const auto backoff = draft.live().not_before.find(id);
    if ((entry.passed_over = WaitsByItself(draft, looks, job))) {
      // said there
    } else if (draft.live().holds.contains(id)) {
      entry.passed_over = Planning();
    } else if (backoff != draft.live().not_before.end() && backoff->second > draft.now()) {
      entry.passed_over =
          WaitReason{"BeginTime", "starts in " + Seconds(backoff->second - draft.now()) +
                                      (job.keeps != 0 ? " where it ran" : "")};
    } else if (job.keeps != 0) {
      entry.passed_over = RestartInPlace(draft, draft.state().jobs.at(id), histories);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

// Elements of each array that run, or are about to.
std::map<JobId, int> RunningElements(const State& state) {
  std::map<JobId, int> running;
  const auto count = [&](JobId id) {
    if (const auto& array = state.jobs.at(id).array) ++running[*array];
  };
  for (const JobId id : state.active) count(id);
  for (const auto& [id, hold] : state.live.holds) count(id);
  for (const JobId id : state.keepers) {
    if (state.queue.contains(id) && !state.live.holds.contains(id)) count(id);
  }
  return running;
}

// Nodes with the checkpoints of jobs that wait for them, by the job.
using KeptNodes = std::map<NodeId, JobId>;

// A job that starts again in a moment would find its nodes taken by those behind it.
bool StartsAgainSoon(const Draft& draft, const JobRecord& job) {
  const auto backoff = draft.state().live.not_before.find(job.id);
  return job.attempts > 0 && job.keeps == 0 && !job.held &&
         backoff != draft.state().live.not_before.end() && backoff->second > draft.now() &&
         backoff->second - draft.now() <= kLongestKept;
}

void RefuseKept(const KeptNodes& kept, std::vector<PlannerOffer>& offers) {
  if (kept.empty()) return;
  for (PlannerOffer& offer : offers) {
    const auto found = kept.find(offer.inventory->node);
    if (found == kept.end() || !offer.refuses.empty()) continue;
    offer.refuses =
        fmt::format("is kept for job {}, whose checkpoints are there", found->second.value);
  }
}

// Nodes that an attempt of the job failed on are taken only when there is no other way.
// Where the last one saved checkpoints they may be on a disk of its own: there first.
tl::expected<Placement, Unplaced> PlaceJob(const State& state, const JobRecord& job,
                                           const Result<LineDemand>& line,
                                           const std::vector<PlannerOffer>& all) {
  const JobSpec& spec = state.specs.at(job.id).spec;
  if (const AttemptRecord* last = PrefersPlaceOf(state, job)) {
    std::vector<PlannerOffer> same = all;
    for (PlannerOffer& offer : same) {
      const NodeId& node = offer.inventory->node;
      const bool ran = std::ranges::find(last->nodes, node) != last->nodes.end();
      if (!ran || job.excluded_nodes.contains(node.value)) offer.refuses = "it did not run there";
    }
    if (auto placement = Place(spec, same, line)) return placement;
  }
  if (!job.excluded_nodes.empty()) {
    std::vector<PlannerOffer> others = all;
    for (PlannerOffer& offer : others) {
      const auto why = job.excluded_nodes.find(offer.inventory->node.value);
      if (why != job.excluded_nodes.end()) offer.refuses = "failed before: " + why->second;
    }
    if (auto placement = Place(spec, others, line)) return placement;
  }
  return Place(spec, all, line);
}

// What it would take is kept for others.
WaitReason WaitsForKept(const std::vector<PlannerOffer>& offers, const Placement& placement,
                        const KeptNodes& kept) {
  std::string evidence;
  for (const std::size_t at : placement.offers) {
    const NodeId& node = offers[at].inventory->node;
    const auto found = kept.find(node);
    if (found == kept.end()) continue;
    evidence += fmt::format("{}{} is kept for job {}, whose checkpoints are on a disk there",
                            evidence.empty() ? "" : "; ", node.value, found->second.value);
  }
  return {"Resources", evidence};
}

// The highest attempt that we, or a node, know of.
std::uint32_t HighestAttempt(const JobRecord& job) { return std::max(job.attempts, job.floor); }

void EndForAttempts(Draft& draft, const JobRecord& job) {
  Ending ending;
  ending.outcome = "failed";
  ending.sub_reason = "ATTEMPTS";
  ending.text = fmt::format("{} attempts are used up", kMaxAttempts);
  ending.blame = Blame::kPlan;
  EndJob(draft, job, ending);
}

void HoldAndPlan(Draft& draft, const JobRecord& job, const Placement& placement,
                 std::vector<effect::NodeOffer> offers, Histories& histories) {
  const SpecRecord& spec = draft.state().specs.at(job.id);
  Hold hold;
  hold.ticket = draft.live().next_ticket++;
  hold.attempt = Attempt{HighestAttempt(job) + 1};
  if (Planted(Bug::kReusedAttempt) && job.attempts > 0) hold.attempt = Attempt{job.attempts};
  hold.memory_bytes = spec.spec.memory_bytes ? spec.spec.memory_bytes->value : 0;
  effect::PlanWanted wanted;
  wanted.ticket = hold.ticket;
  wanted.owner = job.owner;
  wanted.spec = WithChange(spec.spec, job.change);
  wanted.host_memory_was_short = job.change.fewer_workers;
  wanted.context = spec.context;
  wanted.questions.history = histories.Of(draft.state(), job);
  wanted.now = draft.wall();
  wanted.network_known_by = job.submitted;
  effect::PlanWanted::Placed placed;
  placed.key = Key{job.id, hold.attempt};
  for (std::size_t i = 0; i < placement.offers.size(); ++i) {
    const NodeInventory& node = *offers[placement.offers[i]].inventory;
    std::vector<GpuUuid> gpus;
    for (const int index : placement.gpus[i]) {
      gpus.push_back(node.gpus[static_cast<std::size_t>(index)].uuid);
    }
    if (job.excluded_nodes.contains(node.node.value)) {
      const bool tied = TieOf(draft.state(), job, draft.now()).has_value();
      draft.Event(
          "job.keeps_node", Subject(job.id),
          fmt::format("{}: {}, although an attempt failed there", node.node.value,
                      tied ? "its checkpoints are on a disk there" : "no other node fits now"));
    }
    hold.nodes.push_back(node.node);
    // Until the plan says exactly how many: two jobs of one pass must not share them.
    int cpus = placement.cpus.empty() ? 0 : placement.cpus[i];
    // In place: the plan was made with them.
    if (const AllocRecord* kept =
            FindAlloc(draft.state(), Key{job.id, Attempt{job.keeps}}, node.node)) {
      cpus = std::max(cpus, kept->cpus);
      hold.memory_bytes = std::max(hold.memory_bytes, kept->memory_bytes);
    }
    hold.cpus.push_back(cpus);
    hold.gpus.push_back(std::move(gpus));
    placed.nodes.push_back(node.node);
    placed.gpus.push_back(placement.gpus[i]);
  }
  wanted.offers = std::move(offers);
  wanted.placed = std::move(placed);
  draft.live().placings.emplace(hold.ticket, job.id);
  draft.live().holds[job.id] = std::move(hold);
  draft.Want(std::move(wanted));
}

// Why its own nodes would not take it any more (constraints, account, cores); empty: they would.
std::string WhyNotAgain(const State& state, const JobRecord& job, const Result<LineDemand>& line,
                        const std::vector<effect::NodeOffer>& offers) {
  const std::vector<NodeId>& place = state.attempts.at(Key{job.id, Attempt{job.keeps}}).nodes;
  std::vector<PlannerOffer> own = ForPlanner(offers, job.owner);
  for (PlannerOffer& offer : own) {
    const bool is_own = std::ranges::find(place, offer.inventory->node) != place.end();
    if (!is_own) offer.refuses = "it did not run there";
  }
  const auto placement = Place(state.specs.at(job.id).spec, own, line);
  if (placement) return {};
  const Unplaced& why = placement.error();
  return why.missing.empty() ? why.reason.evidence
                             : fmt::format("{}: {}", why.closest_node, why.missing);
}

// Nobody else waits for that place, so it is in no queue.
std::optional<WaitReason> RestartInPlace(Draft& draft, const JobRecord& job, Histories& histories) {
  const std::string waits = LookAtPlace(draft.state(), job, draft.now()).waits;
  if (!waits.empty()) return WaitReason{"ReqNodeNotAvail", waits};
  if (HighestAttempt(job) >= kMaxAttempts) return std::nullopt;  // said in its turn
  const Result<LineDemand>* line = draft.readings().Of(draft.state(), job.id);
  if (line == nullptr) return ReadFirst();
  std::vector<effect::NodeOffer> offers = MakeOffers(draft.state(), job.id);
  if (const std::string why = WhyNotAgain(draft.state(), job, *line, offers); !why.empty()) {
    JobRecord moved = job;
    LeavePlace(draft, moved, why);
    draft.Put(std::move(moved));
    draft.TouchQueue();  // its turn comes with offers that have this place
    return WaitReason{"ReqNodeNotAvail", why};
  }
  const Placement placement = PlacementInPlace(draft.state(), job, offers);
  HoldAndPlan(draft, job, placement, std::move(offers), histories);
  return Planning();
}

}  // namespace

void SettleQueue(Draft& draft) {
  Live& live = draft.live();
  ReviewPlaces(draft);
  DependencyLooks looks(draft.state());
  if (EndHopeless(draft, looks)) return;  // the queue is looked at again
  live.reasons.clear();
  live.queue_head.reset();
  live.waits_for_plans = false;
  live.read_again.reset();
  if (draft.state().queue.empty()) return;
  Histories histories;
  const std::vector<QueueEntry> entries = Entries(draft, looks, histories);
  std::size_t passed = 0;  // of the entries: before the one that is tried
  Refusals refusals(draft.state());
  KeptNodes kept;
  const auto keep = [&](const JobRecord& job, const std::optional<Tie>& tie) {
    if (!tie) return;
    refusals.Clear();
    for (const NodeId& node : tie->nodes) kept.emplace(node, job.id);
  };
  std::map<JobId, int> running = RunningElements(draft.state());
  std::vector<effect::NodeOffer> offers = MakeOffers(draft.state());
  const auto start = [&](JobId id) -> std::optional<Waits> {
    if (offers.empty()) {
      return Waits{{"ReqNodeNotAvail", "no node has joined this cluster yet"}, false};
    }
    const JobRecord& job = draft.state().jobs.at(id);
    const JobSpec& spec = draft.state().specs.at(id).spec;
    const int at_once = spec.element ? spec.element->at_once : 0;
    if (at_once > 0 && running[spec.element->array] >= at_once) {
      return Waits{{"JobArrayTaskLimit",
                    fmt::format("{} jobs of array {} at once", at_once, spec.element->array.value)},
                   false};
    }
    for (; passed < entries.size() && entries[passed].job != id; ++passed) {
      const JobRecord& before = draft.state().jobs.at(entries[passed].job);
      if (!entries[passed].passed_over || !StartsAgainSoon(draft, before)) continue;
      keep(before, TieOf(draft.state(), before, draft.now()));
    }
    const std::optional<Tie> tie = TieOf(draft.state(), job, draft.now());
    if (!tie) {
      LoseTie(draft, job);
      if (const WaitReason* same = refusals.Find(job)) return Waits{*same, false};
    }
    const Result<LineDemand>* line = draft.readings().Of(draft.state(), id);
    if (line == nullptr) return Waits{ReadFirst(), true};
    std::vector<PlannerOffer> offered = ForPlanner(offers, job.owner);
    RefuseKept(kept, offered);
    tl::expected<Placement, Unplaced> placement = tl::unexpected(Unplaced{});
    if (tie) {
      std::vector<PlannerOffer> own = offered;
      KeepToTie(draft.state(), job, *tie, own);
      if (auto there = Place(spec, own, *line)) {
        placement = std::move(there);
      } else if (auto reason = WaitForTie(draft, job, *tie, there.error())) {
        keep(job, tie);
        return Waits{std::move(*reason), false};
      }
    }
    if (!placement) placement = PlaceJob(draft.state(), job, *line, offered);
    if (!placement && !kept.empty()) {
      const std::vector<PlannerOffer> all = ForPlanner(offers, job.owner);
      auto otherwise = PlaceJob(draft.state(), job, *line, all);
      if (otherwise) return Waits{WaitsForKept(all, *otherwise, kept), true};
      placement = std::move(otherwise);
    }
    if (!placement) {
      WaitReason reason = placement.error().reason;
      if (reason.code.empty()) reason.code = "ReqNodeNotAvail";
      if (auto repair =
              WaitsForRepair(draft.state(), placement.error(), spec, *line, job.owner, offers)) {
        refusals.Note(job, *repair);
        return Waits{std::move(*repair), false};
      }
      if (!placement.error().closest_node.empty()) {
        reason.evidence += fmt::format("; closest is {}: {}", placement.error().closest_node,
                                       placement.error().missing);
      }
      const bool blocks = !placement.error().never && reason.code != "ReqNodeNotAvail";
      if (!blocks) refusals.Note(job, reason);
      return Waits{std::move(reason), blocks};
    }
    if (HighestAttempt(job) >= kMaxAttempts) {
      EndForAttempts(draft, job);
      return Waits{{"Ended", "no attempt is left"}, false};
    }
    if (live.holds.size() >= live.limits.planned_at_once) {
      live.waits_for_plans = true;
      return Waits{WaitsForPlans(live.holds.size()), true};
    }
    live.ties.erase(id);
    HoldAndPlan(draft, job, *placement, offers, histories);
    if (spec.element) ++running[spec.element->array];
    RemakeOffers(draft.state(), live.holds.at(id).nodes, offers);
    return std::nullopt;
  };
  QueueOutcome outcome = RunFifo(entries, start);
  for (QueueVerdict& verdict : outcome.verdicts) {
    live.reasons[verdict.job] = verdict.waits ? std::move(*verdict.waits) : Planning();
  }
  live.queue_head = outcome.blocked_by;
  // Also of those that were not tried: forecasts and updates ask.
  for (const QueueEntry& entry : entries) {
    if (!draft.state().queue.contains(entry.job)) continue;  // it ended here
    const SpecRecord& spec = draft.state().specs.at(entry.job);
    if (IsReadAtOnce(spec.spec, spec.context.files)) continue;
    if (draft.readings().Of(draft.state(), entry.job) == nullptr) break;
  }
  if (draft.readings().were_enough()) live.read_again = draft.now() + kReadAgain;
}

}  // namespace launch::controller
