#include "tests/sim/schedule.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "tests/sim/rng.h"

namespace launch::sim {
namespace {

// Passes that the adapters of the simulated processes report; see World::Pass.
constexpr std::array<const char*, 8> kControllerPoints = {
    "store.commit.before", "store.commit.after", "out.committed", "out.reply", "out.send",
    "out.close",           "out.plan",           "start.loaded"};
constexpr std::array<const char*, 22> kAgentPoints = {
    "send.before",  "send.after",   "fence.before",   "fence.after",   "accept.before",
    "accept.after", "stage.before", "stage.after",    "start.before",  "start.spawned",
    "start.after",  "stop.before",  "stop.tombstone", "stop.released", "stop.after",
    "drop.before",  "drop.after",   "acked.before",   "acked.after",   "forget.before",
    "forget.after", "recover"};

struct Weighted {
  FaultKind kind;
  int weight;
};
constexpr std::array<Weighted, 19> kWeights = {{
    {FaultKind::kKillController, 6},
    {FaultKind::kPowerController, 4},
    {FaultKind::kPauseController, 2},
    {FaultKind::kControllerClock, 4},
    {FaultKind::kStoreFull, 3},
    {FaultKind::kKillAgent, 8},
    {FaultKind::kPauseAgent, 3},
    {FaultKind::kPowerNode, 4},
    {FaultKind::kNodeDiskFull, 3},
    {FaultKind::kCut, 8},
    {FaultKind::kCutUp, 4},
    {FaultKind::kCutDown, 4},
    {FaultKind::kSlow, 4},
    {FaultKind::kReset, 4},
    {FaultKind::kCloneNode, 2},
    {FaultKind::kKillShim, 3},
    {FaultKind::kCrashPoint, 24},
    {FaultKind::kPauseShim, 3},
    {FaultKind::kRepeat, 4},
}};

constexpr std::array<Weighted, 6> kActWeights = {{
    {FaultKind::kRequeueJob, 6},
    {FaultKind::kHoldJob, 4},
    {FaultKind::kDrainNode, 3},
    {FaultKind::kFenceNode, 4},
    {FaultKind::kForgetNode, 4},
    {FaultKind::kQuarantine, 3},
}};

template <std::size_t N>
FaultKind DrawKind(Rng& rng, const std::array<Weighted, N>& kinds) {
  int total = 0;
  for (const Weighted& one : kinds) total += one.weight;
  std::int64_t left = rng.Between(1, total);
  for (const Weighted& one : kinds) {
    left -= one.weight;
    if (left <= 0) return one.kind;
  }
  return kinds.front().kind;
}

bool OfController(FaultKind kind) {
  return kind == FaultKind::kKillController || kind == FaultKind::kPowerController ||
         kind == FaultKind::kPauseController || kind == FaultKind::kControllerClock ||
         kind == FaultKind::kStoreFull;
}

Fault DrawFault(Rng& rng, const std::vector<std::string>& nodes) {
  Fault fault;
  fault.kind = DrawKind(rng, kWeights);
  fault.at = rng.Between(1'000, kFaultsEnd - 1'000);
  fault.lasts = rng.Between(100, rng.OneIn(3) ? 90'000 : 9'000);
  const std::string node =
      nodes[static_cast<std::size_t>(rng.Between(0, static_cast<std::int64_t>(nodes.size()) - 1))];
  if (!OfController(fault.kind)) fault.node = node;
  switch (fault.kind) {
    case FaultKind::kControllerClock: {
      constexpr std::int64_t kHour = 3'600'000;
      constexpr std::array<std::int64_t, 4> kJumps = {kHour, -kHour, 87'600 * kHour,
                                                      -87'600 * kHour};
      fault.amount = kJumps[static_cast<std::size_t>(rng.Between(0, 3))];
      break;
    }
    case FaultKind::kPowerNode:
      fault.amount = rng.OneIn(2) ? 1 : 0;  // fenced meanwhile
      break;
    case FaultKind::kSlow:
      fault.amount = rng.Between(200, 6'000);
      break;
    case FaultKind::kCloneNode:
      fault.amount = rng.OneIn(2) ? 1 : 0;  // of this machine
      break;
    case FaultKind::kRepeat:
      fault.amount = rng.Between(1, 20);
      break;
    case FaultKind::kCrashPoint:
      // Fixed draws whatever is chosen, so that the points do not depend on each other.
      fault.amount = rng.Between(1, rng.OneIn(2) ? 3 : 40);
      if (rng.OneIn(2)) {
        fault.node.clear();
        fault.point = kControllerPoints[static_cast<std::size_t>(
            rng.Between(0, static_cast<std::int64_t>(kControllerPoints.size()) - 1))];
      } else {
        fault.point = kAgentPoints[static_cast<std::size_t>(
            rng.Between(0, static_cast<std::int64_t>(kAgentPoints.size()) - 1))];
      }
      fault.lasts = rng.Between(50, rng.OneIn(4) ? 70'000 : 4'000);
      break;
    default:
      break;
  }
  return fault;
}

// What follows from these few numbers; all else of a specification is the same in every job.
JobSpec MakeSpec(const std::string& name, int nodes, int gpus) {
  JobSpec spec;
  spec.name = name;
  spec.nodes = {nodes, nodes, false};
  spec.gpus_written = true;
  spec.gpus = {{"", gpus}};
  spec.run = "python train.py";
  spec.workdir = "/proj";
  if (gpus == 0) {
    spec.device = DeviceChoice::kCpu;
    spec.procs_per_node = 1;
  }
  if (name.starts_with("recover")) spec.retry.recover_on_exit_codes = {33};
  return spec;
}

void Lease(PlannedJob& job, Millis lease) {
  job.spec.requeue_after = lease;
  if (!job.spec.name.ends_with("-leased")) job.spec.name += "-leased";
}

PlannedJob DrawJob(Rng& rng, std::size_t number, std::size_t nodes_there) {
  static constexpr std::array<const char*, 6> kNatures = {"ok",      "ok",      "crash",
                                                          "recover", "forever", "stuck"};
  const std::string nature = kNatures[static_cast<std::size_t>(rng.Between(0, 5))];
  PlannedJob job;
  job.key = "key" + std::to_string(number);
  const int nodes = static_cast<int>(rng.Between(1, static_cast<std::int64_t>(nodes_there) - 1));
  const int gpus = static_cast<int>(rng.Between(0, 2));
  job.spec = MakeSpec(nature + std::to_string(number), nodes, gpus);
  JobSpec& spec = job.spec;
  spec.stop_duration = Millis{rng.Between(500, 8'000)};
  spec.retry.max = static_cast<int>(rng.Between(0, 3));
  if (rng.OneIn(4)) spec.time_limit = Millis{rng.Between(2'000, 40'000)};
  const std::int64_t patience = rng.Between(0, 20'000);
  if (rng.OneIn(3)) job.cancel_after = patience;
  job.at = rng.Between(500, kFaultsEnd * 2 / 3);
  const Millis lease = 2 * spec.stop_duration + Millis{rng.Between(4'000, 20'000)};
  if (rng.OneIn(3)) Lease(job, lease);
  return job;
}

// The clock of the controller jumps while a node is cut off whose ranks have a lease.
void LapseLeases(std::uint64_t seed, const std::vector<std::string>& nodes, Schedule& schedule) {
  Rng rng(seed, "leases");
  const bool leased = std::ranges::any_of(
      schedule.jobs, [](const PlannedJob& job) { return job.spec.requeue_after.has_value(); });
  if (!leased || !rng.OneIn(3)) return;
  const std::int64_t begin = rng.Between(8'000, kFaultsEnd / 2);
  const std::int64_t lasts = rng.Between(8'000, 30'000);
  const std::int64_t jump = begin + rng.Between(4'500, lasts);
  for (const std::string& node : nodes) {
    schedule.faults.push_back({FaultKind::kCut, begin, lasts, node, 0, ""});
  }
  schedule.faults.push_back({FaultKind::kControllerClock, jump, 1'000, "", 3'600'000, ""});
}

// What the operator and the owners of jobs do, some of it aimed at what a job is at. From a stream
// of its own: the jobs and faults of a seed are the same without it.
void DrawActs(std::uint64_t seed, const std::vector<std::string>& nodes, Schedule& schedule) {
  Rng rng(seed, "acts");
  if (rng.OneIn(3)) return;
  const std::int64_t many = rng.Between(1, rng.OneIn(4) ? 12 : 4);
  for (std::int64_t i = 0; i < many; ++i) {
    Fault act;
    act.kind = DrawKind(rng, kActWeights);
    act.at = rng.Between(1'000, kFaultsEnd - 1'000);
    act.lasts = rng.Between(200, rng.OneIn(3) ? 60'000 : 12'000);
    const auto job = static_cast<std::size_t>(
        rng.Between(0, static_cast<std::int64_t>(schedule.jobs.size()) - 1));
    const auto node =
        static_cast<std::size_t>(rng.Between(0, static_cast<std::int64_t>(nodes.size()) - 1));
    const std::int64_t after = rng.Between(100, rng.OneIn(2) ? 5'000 : 40'000);
    act.amount = rng.Between(0, 5);
    if (act.kind == FaultKind::kRequeueJob || act.kind == FaultKind::kHoldJob) {
      act.point = schedule.jobs[job].key;
      act.at = std::min(schedule.jobs[job].at + after, kFaultsEnd - 1'000);
    } else {
      act.node = nodes[node];
    }
    if (act.kind != FaultKind::kForgetNode) act.amount %= 2;
    if (act.kind == FaultKind::kQuarantine) act.lasts = kFaultsEnd - act.at;  // rare: waited for
    schedule.faults.push_back(std::move(act));
  }
}

// A store that goes back: once in a run, as rare as it is in life.
bool DrawRegress(std::uint64_t seed, Schedule& schedule) {
  Rng rng(seed, "store");
  if (!rng.OneIn(5)) return false;
  Fault regress;
  regress.kind = rng.OneIn(3) ? FaultKind::kPutBack : FaultKind::kRestore;
  regress.at = rng.Between(5'000, kFaultsEnd / 2);
  regress.lasts = rng.Between(500, rng.OneIn(2) ? 10'000 : 60'000);
  regress.amount = rng.Between(0, 1);
  schedule.faults.push_back(std::move(regress));
  return true;
}

// Agents whose state is lost while a job is likely to run there. Not beside a store that goes back:
// what both have lost nobody can know.
void DrawReinstall(std::uint64_t seed, const std::vector<std::string>& nodes, Schedule& schedule) {
  Rng rng(seed, "installations");
  if (!rng.OneIn(4)) return;
  const std::int64_t many = rng.Between(1, 2);
  for (std::int64_t i = 0; i < many; ++i) {
    const auto job = static_cast<std::size_t>(
        rng.Between(0, static_cast<std::int64_t>(schedule.jobs.size()) - 1));
    const auto node =
        static_cast<std::size_t>(rng.Between(0, static_cast<std::int64_t>(nodes.size()) - 1));
    Fault fault;
    fault.kind = FaultKind::kReinstall;
    const std::int64_t after = rng.Between(20, rng.OneIn(2) ? 1'000 : 20'000);
    fault.at = std::min(schedule.jobs[job].at + after, kFaultsEnd - 1'000);
    fault.lasts = rng.Between(200, rng.OneIn(3) ? 60'000 : 6'000);
    fault.node = nodes[node];
    schedule.faults.push_back(std::move(fault));
  }
}

}  // namespace

Schedule Draw(std::uint64_t seed, const std::vector<std::string>& nodes) {
  Rng jobs(seed, "jobs");
  Rng faults(seed, "faults");
  Schedule schedule;
  const std::int64_t many = jobs.Between(2, 7);
  for (std::int64_t i = 0; i < many; ++i) {
    schedule.jobs.push_back(DrawJob(jobs, static_cast<std::size_t>(i), nodes.size()));
  }
  // Some seeds are storms: paths that are rare otherwise become common there.
  const bool storm = faults.OneIn(4);
  const std::int64_t hits = faults.Between(1, storm ? 40 : 12);
  for (std::int64_t i = 0; i < hits; ++i) schedule.faults.push_back(DrawFault(faults, nodes));
  LapseLeases(seed, nodes, schedule);
  // Swizzle: cut the nodes one after the other, heal them in another order.
  if (faults.OneIn(8)) {
    const std::int64_t begin = faults.Between(5'000, kFaultsEnd / 2);
    for (const std::string& node : nodes) {
      schedule.faults.push_back({FaultKind::kCut, begin + faults.Between(0, 8'000),
                                 faults.Between(6'000, 40'000), node, 0, ""});
    }
  }
  DrawActs(seed, nodes, schedule);
  if (!DrawRegress(seed, schedule)) DrawReinstall(seed, nodes, schedule);
  return schedule;
}

Schedule Keep(const Schedule& all, const std::optional<std::set<std::size_t>>& jobs,
              const std::optional<std::set<std::size_t>>& faults) {
  Schedule kept;
  for (std::size_t i = 0; i < all.jobs.size(); ++i) {
    if (!jobs || jobs->contains(i)) kept.jobs.push_back(all.jobs[i]);
  }
  for (std::size_t i = 0; i < all.faults.size(); ++i) {
    if (!faults || faults->contains(i)) kept.faults.push_back(all.faults[i]);
  }
  return kept;
}

std::string Format(const History& history) {
  std::ostringstream out;
  out << "seed " << history.seed << "\n";
  for (const PlannedJob& job : history.schedule.jobs) {
    out << "job " << job.key << ' ' << job.spec.name << ' ' << job.spec.nodes.min << ' '
        << job.spec.gpus.front().count << ' ' << job.at << ' ' << job.spec.stop_duration.count()
        << ' ' << job.spec.retry.max.value_or(0) << ' '
        << (job.spec.time_limit ? job.spec.time_limit->count() : -1) << ' '
        << job.cancel_after.value_or(-1) << ' '
        << (job.spec.requeue_after ? job.spec.requeue_after->count() : -1) << "\n";
  }
  for (const Fault& fault : history.schedule.faults) {
    out << "fault " << static_cast<int>(fault.kind) << ' ' << fault.at << ' ' << fault.lasts << ' '
        << (fault.node.empty() ? "-" : fault.node) << ' ' << fault.amount << ' '
        << (fault.point.empty() ? "-" : fault.point) << "   # " << NameOf(fault.kind) << "\n";
  }
  return out.str();
}

std::optional<History> ParseHistory(const std::string& text) {
  History history;
  std::istringstream lines(text);
  bool has_seed = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line.substr(0, line.find('#')));
    std::string what;
    if (!(in >> what)) continue;
    if (what == "seed") {
      has_seed = static_cast<bool>(in >> history.seed);
    } else if (what == "job") {
      PlannedJob job;
      std::string name;
      int nodes = 0, gpus = 0, retries = 0;
      std::int64_t grace = 0, limit = -1, cancel = -1;
      in >> job.key >> name >> nodes >> gpus >> job.at >> grace >> retries >> limit >> cancel;
      if (!in) return std::nullopt;
      std::int64_t lease = -1;
      in >> lease;  // older histories have none
      job.spec = MakeSpec(name, nodes, gpus);
      job.spec.stop_duration = Millis{grace};
      job.spec.retry.max = retries;
      if (limit >= 0) job.spec.time_limit = Millis{limit};
      if (cancel >= 0) job.cancel_after = cancel;
      if (lease >= 0) Lease(job, Millis{lease});
      history.schedule.jobs.push_back(std::move(job));
    } else if (what == "fault") {
      Fault fault;
      int kind = -1;
      in >> kind >> fault.at >> fault.lasts >> fault.node >> fault.amount >> fault.point;
      if (!in || kind < 0 || kind >= kFaultKinds) return std::nullopt;
      fault.kind = static_cast<FaultKind>(kind);
      if (fault.node == "-") fault.node.clear();
      if (fault.point == "-") fault.point.clear();
      history.schedule.faults.push_back(std::move(fault));
    } else {
      return std::nullopt;
    }
  }
  if (!has_seed) return std::nullopt;
  return history;
}

std::string NameOf(FaultKind kind) {
  static constexpr std::array<const char*, kFaultKinds> kNames = {"kill controller",
                                                                  "power loss of the controller",
                                                                  "pause controller",
                                                                  "clock of the controller jumps",
                                                                  "store full",
                                                                  "kill agent",
                                                                  "pause agent",
                                                                  "power loss of a node",
                                                                  "disk of a node full",
                                                                  "cut both ways",
                                                                  "cut to the controller",
                                                                  "cut to the node",
                                                                  "slow network",
                                                                  "reset stream",
                                                                  "clone says hello",
                                                                  "kill shim",
                                                                  "crash point",
                                                                  "pause shim",
                                                                  "repeated message",
                                                                  "requeue",
                                                                  "hold",
                                                                  "drain",
                                                                  "fence silent node",
                                                                  "forget node",
                                                                  "quarantine",
                                                                  "restore a backup",
                                                                  "store put back",
                                                                  "installed anew"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string Describe(const Fault& fault) {
  std::string text = std::to_string(fault.at) + " ms: " + NameOf(fault.kind);
  if (!fault.node.empty()) text += " " + fault.node;
  if (!fault.point.empty()) text += " " + fault.point;
  if (fault.amount != 0) text += " (" + std::to_string(fault.amount) + ")";
  return text + ", for " + std::to_string(fault.lasts) + " ms";
}

std::string Describe(const PlannedJob& job) {
  std::string text = std::to_string(job.at) + " ms: submit " + job.spec.name + ", " +
                     std::to_string(job.spec.nodes.min) + " nodes x " +
                     std::to_string(job.spec.gpus.front().count) + " GPUs, grace " +
                     std::to_string(job.spec.stop_duration.count()) + " ms";
  if (job.spec.time_limit) {
    text += ", limit " + std::to_string(job.spec.time_limit->count()) + " ms";
  }
  if (job.spec.requeue_after) {
    text += ", lease " + std::to_string(job.spec.requeue_after->count()) + " ms";
  }
  if (job.cancel_after) text += ", cancel after " + std::to_string(*job.cancel_after) + " ms";
  return text;
}

}  // namespace launch::sim
