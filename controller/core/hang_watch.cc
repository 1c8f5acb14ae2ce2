#include "controller/core/hang_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/units.h"

namespace launch::controller {
namespace {

constexpr double kGpuIdle = 0.02;  // utilization that is nobody's work
// A kernel that waits for other ranks keeps the GPU at 100 % and draws little power.
constexpr double kSpinning = 0.95;
constexpr double kSpinningPower = 0.35;  // of the power limit
constexpr int kIdleCore = 50;            // one part in so many of a core is housekeeping
constexpr Millis kCoreWindow{2'000};     // ticks of the kernel are too coarse for less
constexpr Millis kHeardLately{30'000};   // all nodes: silence of a node is not that of its ranks
constexpr Millis kStacksWithin{20'000};

const GpuDevice* DeviceOf(const State& state, const NodeId& node, const GpuUuid& uuid) {
  const NodeInventory* inventory = InventoryOf(state, node);
  if (inventory == nullptr) return nullptr;
  const auto device = std::ranges::find(inventory->gpus, uuid, &GpuDevice::uuid);
  return device == inventory->gpus.end() ? nullptr : &*device;
}

struct GpuUse {
  bool measured = false;
  bool used = false;
};

GpuUse UseOfGpus(const State& state, const AllocRecord& alloc, const HangWatch& watch,
                 const std::vector<GpuSample>& samples) {
  GpuUse use;
  for (const GpuSample& sample : samples) {
    if (!sample.utilization || std::ranges::find(alloc.gpus, sample.uuid) == alloc.gpus.end()) {
      continue;
    }
    use.measured = true;
    if (*sample.utilization <= kGpuIdle) continue;
    const GpuDevice* device = DeviceOf(state, alloc.node, sample.uuid);
    const bool limited = device != nullptr && device->power_limit_w.value_or(0) > 0;
    // A program that never named a step may well be a light load that prints nothing.
    const bool spins = watch.stepped && *sample.utilization >= kSpinning && sample.power_w &&
                       limited && *sample.power_w < kSpinningPower * *device->power_limit_w;
    use.used = use.used || !spins;
  }
  return use;
}

bool UsesCores(HangWatch& watch, const RankSample& sample, BootTime now, Millis window) {
  auto& [since, before] = watch.cores.try_emplace(sample.rank, now, sample.cpu_ms).first->second;
  const Millis passed = now - since;
  if (passed < window) return false;
  // Children that ended take theirs along.
  const std::uint64_t used = sample.cpu_ms - std::min(before, sample.cpu_ms);
  since = now;
  before = sample.cpu_ms;
  return used * kIdleCore > static_cast<std::uint64_t>(passed.count());
}

// When the ranks of one node last showed life, in our time.
BootTime LastLife(Draft& draft, const AllocRecord& alloc, LiveAttempt& live,
                  const from_node::Samples& said, Millis after) {
  HangWatch& watch = live.hang;
  const GpuUse gpus = UseOfGpus(draft.state(), alloc, watch, said.gpus);
  BootTime last = gpus.used ? draft.now() : BootTime{};
  for (const RankSample& sample : said.ranks) {
    if (sample.key != alloc.key) continue;
    last = std::max(last, draft.now() - Millis{sample.output_age_ms});
    const auto before = live.samples.find(sample.rank);
    if (before == live.samples.end()) continue;
    if (sample.step != before->second.step) {
      watch.stepped = true;
      last = draft.now();
    }
    // Without a GPU to look at, work shows in the cores.
    const Millis window = std::min(kCoreWindow, after / 2);
    if (!gpus.measured && UsesCores(watch, sample, draft.now(), window)) last = draft.now();
  }
  return last;
}

bool AllHeard(const Draft& draft, const AttemptRecord& attempt, const HangWatch& watch) {
  return std::ranges::all_of(attempt.nodes, [&](const NodeId& node) {
    const auto heard = watch.heard.find(node);
    return heard != watch.heard.end() && draft.now() - heard->second <= kHeardLately;
  });
}

std::string StandsStill(Millis silent) {
  return fmt::format("no output, no step and no use of a GPU for {}", FormatDurationShort(silent));
}

void AskWhereTheyStand(Draft& draft, const AttemptRecord& attempt, HangWatch& watch) {
  watch.found = draft.now();
  draft.Event("attempt.hang", Subject(attempt.key),
              StandsStill(draft.now() - *watch.active) + "; asking where each rank stands");
  for (const NodeId& node : attempt.nodes) draft.Send(node, to_node::CollectStacks{attempt.key});
}

void Recovered(Draft& draft, const AttemptRecord& found, HangWatch& watch) {
  const bool judged = watch.judged;
  watch.found.reset();
  watch.judged = false;
  watch.standing.clear();
  draft.Event("attempt.hang_over", Subject(found.key), "it goes on by itself");
  if (!judged || !found.verdict || !IsOfHang(*found.verdict)) return;
  AttemptRecord attempt = found;
  attempt.verdict.reset();
  draft.Put(attempt);
}

std::size_t RanksOf(const State& state, const Key& key) {
  std::size_t ranks = 0;
  for (const auto& [node, alloc] : state.allocs.at(key)) ranks += alloc.ranks.size();
  return ranks;
}

HangFacts FactsOf(const State& state, const AttemptRecord& attempt, const HangWatch& watch,
                  BootTime now) {
  HangFacts facts{.silent = now - *watch.active, .ranks = {}};
  for (const auto& [node, alloc] : state.allocs.at(attempt.key)) {
    for (const Rank rank : alloc.ranks) {
      const auto standing = watch.standing.find(rank);
      facts.ranks.push_back(standing != watch.standing.end()
                                ? standing->second
                                : StandingRank{.rank = rank,
                                               .node = node,
                                               .step = {},
                                               .processes = {},
                                               .why = "its node did not say where it stands"});
    }
  }
  std::ranges::sort(facts.ranks, {}, &StandingRank::rank);
  return facts;
}

void JudgeStanding(Draft& draft, const AttemptRecord& found, HangWatch& watch) {
  AttemptRecord attempt = found;
  attempt.verdict = JudgeHang(FactsOf(draft.state(), attempt, watch, draft.now()));
  watch.judged = true;
  watch.standing.clear();
  draft.Event("attempt.diagnosed", Subject(attempt.key), InWords(*attempt.verdict));
  draft.Put(attempt);
  draft.Touch(attempt.key.job);  // `hang.action: restart`
}

void WatchAttempt(Draft& draft, const AllocRecord& alloc, const from_node::Samples& said) {
  const AttemptRecord& attempt = draft.state().attempts.at(alloc.key);
  const HangSpec& hang = draft.state().specs.at(alloc.key.job).spec.hang;
  if (attempt.phase != AttemptPhase::kRunning || hang.action == HangAction::kNone) return;
  LiveAttempt& live = draft.live().attempts[alloc.key];
  HangWatch& watch = live.hang;
  const BootTime last = LastLife(draft, alloc, live, said, hang.after);
  watch.heard[alloc.node] = draft.now();
  // Of the time before the first look nothing is known but the outputs.
  if (!watch.active) watch.active = draft.now();
  watch.active = std::max(*watch.active, last);
  if (watch.found) {
    if (*watch.active > *watch.found) {
      Recovered(draft, attempt, watch);
    } else if (!watch.judged && draft.now() - *watch.found >= kStacksWithin) {
      JudgeStanding(draft, attempt, watch);
    }
    return;
  }
  if (draft.now() - *watch.active < hang.after || !AllHeard(draft, attempt, watch)) return;
  AskWhereTheyStand(draft, attempt, watch);
}

}  // namespace

bool IsOfHang(const Verdict& verdict) {
  return verdict.label == "hang" || verdict.label == "collective_mismatch";
}

void WatchHang(Draft& draft, const NodeId& node, const from_node::Samples& said) {
  const auto held = draft.state().held_by_node.find(node);
  if (held == draft.state().held_by_node.end()) return;
  for (const Key& key : held->second) {
    WatchAttempt(draft, draft.state().allocs.at(key).at(node), said);
  }
}

void NoteStacks(Draft& draft, const NodeId& node, const from_node::Stacks& said) {
  const RankStacks& stacks = said.stacks;
  const AllocRecord* alloc = FindAlloc(draft.state(), stacks.key, node);
  if (alloc == nullptr || !HasRank(*alloc, stacks.rank)) return;
  const auto live = draft.live().attempts.find(stacks.key);
  if (live == draft.live().attempts.end()) return;
  HangWatch& watch = live->second.hang;
  if (!watch.found || watch.judged || watch.standing.contains(stacks.rank)) return;
  StandingRank standing{.rank = stacks.rank,
                        .node = node,
                        .step = {},
                        .processes = stacks.processes,
                        .why = stacks.why};
  const auto sample = live->second.samples.find(stacks.rank);
  if (sample != live->second.samples.end()) standing.step = sample->second.step;
  draft.Event("rank.stands", Subject(stacks.key), DescribeStanding(standing));
  watch.standing.emplace(stacks.rank, std::move(standing));
  if (watch.standing.size() < RanksOf(draft.state(), stacks.key)) return;
  const AttemptRecord& attempt = draft.state().attempts.at(stacks.key);
  if (attempt.phase == AttemptPhase::kRunning) JudgeStanding(draft, attempt, watch);
}

std::vector<Finding> HangWarnings(const State& state, const Key& key) {
  const auto live = state.live.attempts.find(key);
  if (live == state.live.attempts.end() || !live->second.hang.found) return {};
  const HangWatch& watch = live->second.hang;
  BootTime newest = *watch.found;
  for (const auto& [node, heard] : watch.heard) newest = std::max(newest, heard);
  const Millis silent = newest - *watch.active;
  return {MakeFinding("hang", Severity::kWarning, StandsStill(silent),
                      fmt::format("launch why {}   # where each rank stands", key.job.value))};
}

}  // namespace launch::controller
