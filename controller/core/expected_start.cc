#include "controller/core/expected_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/bounded_number.h"
#include "common/hostlist.h"
#include "common/units.h"
#include "controller/core/offers.h"
#include "controller/core/queue_order.h"
#include "controller/core/views.h"
#include "planner/planner.h"

namespace launch::controller {
namespace {

// A placement looks at every node, on the loop: some milliseconds each with a thousand of them.
constexpr std::size_t kMostAhead = 32;
constexpr int kMostTries = 32;
constexpr std::size_t kMostHolders = 16;
constexpr int kSingleSteps = 8;

struct Asked {
  const JobSpec& spec;
  const std::map<std::string, std::string>& files;
  const Result<LineDemand>* line;  // null: not read yet
  const UserName& owner;
  std::optional<JobId> job;  // absent: not submitted yet
};

// What one job would give back, by the position of the node in the offers.
struct Part {
  std::size_t offer = 0;
  std::vector<int> gpus;
  int cpus = 0;
  std::uint64_t memory_bytes = 0;
};
struct End {
  std::optional<WallTime> at;
  StartForecast::Holder holder;
  std::vector<Part> parts;
};

// When the job ends, by the surest of what is known.
void SetEnd(const State& state, const JobRecord& job, const Now& now,
            StartForecast::Holder& holder) {
  const JobView view = ViewJob(state, job, false, now.boot);
  const auto limit = state.live.time_limits.find(job.id);
  std::optional<WallTime> latest;
  if (limit != state.live.time_limits.end()) {
    latest = now.wall + std::max(Millis{0}, limit->second - now.boot);
  } else if (const JobSpec& spec = state.specs.at(job.id).spec; spec.time_limit) {
    latest = now.wall + *spec.time_limit;  // it is only starting
  }
  const auto take = [&](WallTime at, std::string by) {
    if (latest && at > *latest) return;
    holder.ends = at;
    holder.ends_by = std::move(by);
  };
  if (latest) take(*latest, "its time limit, at the latest");
  if (view.state == JobState::kStopping) {
    return take(now.wall + state.specs.at(job.id).spec.stop_duration,
                "its stop_duration, at the latest");
  }
  if (view.eta_s) {
    return take(now.wall + MillisOf(*view.eta_s), "its ETA");
  }
  const auto plan = state.plans.find(Key{job.id, Attempt{job.attempts}});
  if (plan == state.plans.end() || ToMs(job.started) == 0) return;
  const auto& seconds = plan->second->plan.duration.seconds;
  if (!seconds) return;
  const WallTime end = job.started + MillisOf(*seconds);
  if (end > now.wall) take(end, "its predicted duration");
}

// The offers as they change while jobs end and start.
class Cluster {
 public:
  Cluster(const State& state, const Asked& asked)
      : state_(state), offers_(MakeOffers(state, asked.job.value_or(JobId{}))) {
    for (std::size_t i = 0; i < offers_.size(); ++i) at_[offers_[i].inventory->node] = i;
  }

  bool Starts(const JobSpec& spec, const Result<LineDemand>& line, const UserName& owner,
              std::optional<Placement>& placed) const {
    auto found = Place(spec, ForPlanner(offers_, owner), line);
    if (!found) return false;
    placed = std::move(*found);
    return true;
  }

  void Take(const JobSpec& spec, const Placement& placement) {
    for (std::size_t i = 0; i < placement.offers.size(); ++i) {
      effect::NodeOffer& offer = offers_[placement.offers[i]];
      for (const int gpu : placement.gpus[i]) std::erase(offer.free_gpus, gpu);
      offer.free_cpus -= placement.cpus.empty() ? 0 : placement.cpus[i];
      const std::uint64_t memory = spec.memory_bytes ? spec.memory_bytes->value : 0;
      offer.free_memory_bytes -= std::min(memory, offer.free_memory_bytes);
    }
  }

  void Free(const End& end) {
    for (const Part& part : end.parts) {
      effect::NodeOffer& offer = offers_[part.offer];
      offer.free_gpus.insert(offer.free_gpus.end(), part.gpus.begin(), part.gpus.end());
      std::ranges::sort(offer.free_gpus);
      offer.free_cpus = std::min(offer.free_cpus + part.cpus, offer.inventory->cores);
      offer.free_memory_bytes =
          std::min(offer.free_memory_bytes + part.memory_bytes, offer.inventory->memory_bytes);
    }
  }

  // Of jobs that run or are about to, in the order of their ends; unknown ones last.
  std::vector<End> Ends(const Now& now) const {
    std::vector<End> ends;
    for (const JobId id : state_.active) {
      const JobRecord& job = state_.jobs.at(id);
      End& end = ends.emplace_back();
      end.holder = {id, job.name, job.owner.value, 0, {}, std::nullopt, {}};
      SetEnd(state_, job, now, end.holder);
      const auto allocs = state_.allocs.find(Key{id, Attempt{job.attempts}});
      if (allocs == state_.allocs.end()) continue;
      for (const auto& [node, alloc] : allocs->second) {
        if (!IsReleased(alloc)) AddPart(node, alloc.gpus, alloc.cpus, alloc.memory_bytes, end);
      }
    }
    for (const auto& [id, hold] : state_.live.holds) {
      const JobRecord& job = state_.jobs.at(id);
      End& end = ends.emplace_back();
      end.holder = {id, job.name, job.owner.value, 0, {}, std::nullopt, {}};
      SetEnd(state_, job, now, end.holder);
      for (std::size_t i = 0; i < hold.nodes.size(); ++i) {
        AddPart(hold.nodes[i], hold.gpus[i], hold.cpus[i], hold.memory_bytes, end);
      }
    }
    std::erase_if(ends, [](const End& end) { return end.parts.empty(); });
    for (End& end : ends) end.at = end.holder.ends;
    std::ranges::stable_sort(ends, [](const End& a, const End& b) {
      return a.at && b.at ? *a.at < *b.at : a.at.has_value() && !b.at;
    });
    return ends;
  }

  // Drained nodes serve again.
  std::vector<NodeId> Undrain() {
    std::vector<NodeId> nodes;
    for (effect::NodeOffer& offer : offers_) {
      const NodeId& node = offer.inventory->node;
      const auto live = state_.live.nodes.find(node);
      const auto record = state_.nodes.find(node);
      if (offer.schedulable || record == state_.nodes.end() || !record->second.drained) continue;
      if (live == state_.live.nodes.end() || live->second.silent) continue;
      offer.schedulable = true;
      nodes.push_back(node);
    }
    return nodes;
  }

  bool Uses(const End& end, const Placement& placement) const {
    return std::ranges::any_of(end.parts, [&](const Part& part) {
      return std::ranges::find(placement.offers, part.offer) != placement.offers.end();
    });
  }

 private:
  void AddPart(const NodeId& node, const std::vector<GpuUuid>& gpus, int cpus,
               std::uint64_t memory_bytes, End& end) const {
    const auto at = at_.find(node);
    if (at == at_.end()) return;
    Part part{at->second, {}, cpus, memory_bytes};
    const std::vector<GpuDevice>& devices = offers_[at->second].inventory->gpus;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (std::ranges::find(gpus, devices[i].uuid) == gpus.end()) continue;
      if (devices[i].health == Health::kBad || state_.quarantine.contains(devices[i].uuid))
        continue;
      part.gpus.push_back(static_cast<int>(i));
    }
    end.holder.gpus += static_cast<int>(gpus.size());
    end.holder.nodes.push_back(node);
    end.parts.push_back(std::move(part));
  }

  const State& state_;
  std::vector<effect::NodeOffer> offers_;
  std::map<NodeId, std::size_t> at_;
};

// Does the scheduler pass it over, so that it keeps nobody behind it waiting?
bool IsPassedOver(const State& state, const JobRecord& job, const Now& now) {
  if (job.held || job.keeps != 0 || state.live.holds.contains(job.id)) return true;
  const JobSpec& spec = state.specs.at(job.id).spec;
  if (spec.begin && *spec.begin > now.wall) return true;
  const auto reason = state.live.reasons.find(job.id);
  if (reason == state.live.reasons.end()) return !spec.depends_on.empty() && job.attempts == 0;
  static const std::set<std::string> blocking = {"Resources", "Priority"};
  return !blocking.contains(reason->second.code);
}

std::vector<JobId> Ahead(const State& state, const Asked& asked, const Now& now) {
  std::vector<JobId> ahead;
  for (const JobId id : QueueOrder(state)) {
    if (asked.job == id) break;
    if (!asked.job && state.specs.at(id).spec.priority < asked.spec.priority) break;
    if (!IsPassedOver(state, state.jobs.at(id), now)) ahead.push_back(id);
  }
  return ahead;
}

std::string Ids(const std::vector<JobId>& jobs) {
  std::string text;
  for (std::size_t i = 0; i < jobs.size() && i < 4; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(jobs[i].value);
  }
  if (jobs.size() > 4) text += fmt::format(" and {} more", jobs.size() - 4);
  return (jobs.size() == 1 ? "job " : "jobs ") + text;
}

// Ends what runs, one after the other, and serves the queue in between.
void Simulate(const State& state, const Asked& asked, const Now& now, StartForecast& forecast) {
  Cluster cluster(state, asked);
  std::vector<End> ends = cluster.Ends(now);
  const auto show = [&](const std::vector<End>& all, std::size_t count,
                        const std::optional<Placement>& placed) {
    for (std::size_t i = 0; i < count && forecast.holders.size() < kMostHolders; ++i) {
      if (!placed || cluster.Uses(all[i], *placed)) forecast.holders.push_back(all[i].holder);
    }
  };
  if (forecast.ahead.size() > kMostAhead) {
    forecast.basis = fmt::format("{} jobs are in front of it", forecast.ahead.size());
    return show(ends, ends.size(), std::nullopt);
  }
  std::size_t served = 0;  // of those ahead
  WallTime time = now.wall;
  std::string last;  // whose end made room
  for (std::size_t next = 0, tries = 0;;) {
    for (; tries < kMostTries; ++tries) {
      const bool own = served == forecast.ahead.size();
      std::optional<Placement> placed;
      if (own) {
        if (!cluster.Starts(asked.spec, *asked.line, asked.owner, placed)) break;
        forecast.start = std::max(time, asked.spec.begin.value_or(time));
        forecast.basis = last.empty() ? "what it needs is free" : last;
        return show(ends, next, placed);
      }
      const JobId id = forecast.ahead[served];
      const SpecRecord& spec = state.specs.at(id);
      const JobRecord& job = state.jobs.at(id);
      const Result<LineDemand>* line = state.lines.Find(state, id);
      if (line == nullptr || !cluster.Starts(spec.spec, *line, job.owner, placed)) break;
      cluster.Take(spec.spec, *placed);
      ++served;
    }
    if (next == ends.size() || !ends[next].at) break;
    time = std::max(time, *ends[next].at);
    last = fmt::format("job {} ends then by {}", ends[next].holder.job.value,
                       ends[next].holder.ends_by);
    cluster.Free(ends[next++]);
  }
  Cluster idle(state, asked);
  for (const End& end : ends) idle.Free(end);
  std::optional<Placement> placed;
  if (!idle.Starts(asked.spec, *asked.line, asked.owner, placed)) {
    forecast.basis = "it waits for nodes or GPUs that serve nobody now";
    return;
  }
  std::vector<JobId> unknown;
  for (const End& end : ends) {
    if (!end.at) unknown.push_back(end.holder.job);
  }
  if (!unknown.empty()) {
    forecast.basis =
        fmt::format("nothing says when {} {}", Ids(unknown), unknown.size() == 1 ? "ends" : "end");
  } else {
    forecast.basis = fmt::format("it depends on how long {} will run", Ids(forecast.ahead));
  }
  show(ends, ends.size(), placed);
}

// Changes of the job that fit what is free now, and what somebody else could do.
void AddChanges(const State& state, const Asked& asked, StartForecast& forecast) {
  Cluster cluster(state, asked);
  std::optional<Placement> placed;
  const auto fits = [&](const JobSpec& spec) {
    return cluster.Starts(spec, *asked.line, asked.owner, placed);
  };
  // With other numbers the line may ask for something else; what a long script then asks for is
  // seen when somebody tries.
  const bool is_short = IsReadAtOnce(asked.spec, asked.files);
  int tries = 0;
  const auto fits_anew = [&](const JobSpec& spec) {
    if (!is_short) return fits(spec);
    const Result<LineDemand> line = DemandIn(ReadLineOf(spec, asked.files));
    return cluster.Starts(spec, line, asked.owner, placed);
  };
  // Each number is a look at all nodes: the next ones below, then in larger steps.
  const auto next = [&](int number) { return ++tries < kSingleSteps ? number - 1 : number / 2; };
  const std::string id = asked.job ? std::to_string(asked.job->value) : "JOB";
  const std::string first = forecast.ahead.empty() ? "" : ", with a priority above those in front";
  if (fits(asked.spec)) {  // nothing of the job itself stands in the way
    if (forecast.ahead.empty()) return;
    int highest = 0;
    for (const JobId job : forecast.ahead) {
      highest = std::max(highest, state.specs.at(job).spec.priority);
    }
    if (highest < 100) {
      forecast.sooner.push_back(asked.job
                                    ? fmt::format("launch update {} priority={}", id, highest + 1)
                                    : fmt::format("priority: {}", highest + 1));
    }
    return;
  }
  for (int nodes = asked.spec.nodes.min - 1; nodes >= 1 && !asked.spec.total_gpus;
       nodes = next(nodes)) {
    JobSpec less = asked.spec;
    less.nodes = {nodes, nodes};
    if (!fits_anew(less)) continue;
    const std::string how = asked.job ? fmt::format("launch update {} nodes={}", id, nodes)
                                      : fmt::format("nodes: {}", nodes);
    forecast.sooner.push_back(
        fmt::format("{} (instead of {}){}", how, asked.spec.nodes.min, first));
    break;
  }
  int most = 0;
  for (const GpuRequest& gpus : asked.spec.gpus) most = std::max(most, gpus.count);
  tries = 0;
  for (int count = most - 1; count >= 1 && asked.spec.gpu_ids.empty(); count = next(count)) {
    JobSpec less = asked.spec;
    for (GpuRequest& gpus : less.gpus) gpus.count = std::min(gpus.count, count);
    if (!fits_anew(less)) continue;
    forecast.sooner.push_back(fmt::format("{} per node instead of {}{}",
                                          count == 1 ? "1 GPU" : fmt::format("{} GPUs", count),
                                          most, first));
    break;
  }
  const auto without = [&](bool has, const char* what, auto change) {
    if (!has) return;
    JobSpec other = asked.spec;
    change(other);
    const bool other_ids = other.gpu_ids != asked.spec.gpu_ids;  // which the line may speak of
    if (other_ids ? fits_anew(other) : fits(other)) forecast.sooner.push_back(what + first);
  };
  const bool model =
      std::ranges::any_of(asked.spec.gpus, [](const GpuRequest& g) { return !g.model.empty(); });
  without(model, "a GPU of any model", [](JobSpec& s) {
    for (GpuRequest& gpus : s.gpus) gpus.model.clear();
  });
  without(!asked.spec.gpu_ids.empty(), "other GPUs than those of gpu_ids", [](JobSpec& s) {
    s.gpus = {{"", static_cast<int>(s.gpu_ids.size())}};
    s.gpus_written = true;
    s.gpu_ids.clear();
  });
  without(!asked.spec.constraints.empty(), "without `constraints`",
          [](JobSpec& s) { s.constraints.clear(); });
  without(!asked.spec.nodelist.empty(), "without `nodelist`",
          [](JobSpec& s) { s.nodelist.clear(); });
  without(!asked.spec.exclude_nodes.empty(), "without `exclude_nodes`",
          [](JobSpec& s) { s.exclude_nodes.clear(); });
  without(asked.spec.cpus.has_value(), "without `cpus`", [](JobSpec& s) { s.cpus.reset(); });
  without(asked.spec.memory_bytes.has_value(), "without `memory`",
          [](JobSpec& s) { s.memory_bytes.reset(); });
  if (const std::vector<NodeId> drained = cluster.Undrain(); !drained.empty() && fits(asked.spec)) {
    std::string names;
    for (const std::size_t offer : placed->offers) {
      const NodeId& node =
          std::next(state.inventories.begin(), static_cast<std::ptrdiff_t>(offer))->first;
      if (std::ranges::find(drained, node) != drained.end()) names += " " + node.value;
    }
    if (!names.empty()) {
      forecast.sooner.push_back(fmt::format("an operator's launch undrain{}{}", names, first));
    }
  }
}

StartForecast Forecast(const State& state, const Asked& asked, const Now& now) {
  StartForecast forecast;
  forecast.ahead = Ahead(state, asked, now);
  if (asked.line == nullptr) {
    forecast.basis = "what its script starts is not read yet";
    return forecast;
  }
  Simulate(state, asked, now, forecast);
  if (!forecast.start || *forecast.start > now.wall) AddChanges(state, asked, forecast);
  return forecast;
}

}  // namespace

StartForecast ForecastStart(const State& state, const JobRecord& job, const Now& now) {
  const SpecRecord& spec = state.specs.at(job.id);
  const std::string id = std::to_string(job.id.value);
  if (job.held) {
    StartForecast forecast;
    forecast.basis = "it is held";
    forecast.sooner.push_back("launch release " + id);
    return forecast;
  }
  const auto reason = state.live.reasons.find(job.id);
  const std::string code = reason == state.live.reasons.end() ? "" : reason->second.code;
  if (code == "Dependency" || code == "JobArrayTaskLimit") {
    StartForecast forecast;
    forecast.basis = "it follows from other jobs: " + reason->second.evidence;
    return forecast;
  }
  if (code == "Planning") {
    StartForecast forecast;
    forecast.start = now.wall;
    forecast.basis = "it is placed, and its plan is being made";
    return forecast;
  }
  const auto tie = state.live.ties.find(job.id);
  if (tie != state.live.ties.end() && !tie->second.over && reason != state.live.reasons.end()) {
    StartForecast forecast;
    forecast.basis = reason->second.evidence;
    return forecast;
  }
  StartForecast forecast = Forecast(
      state, {spec.spec, spec.context.files, state.lines.Find(state, job.id), job.owner, job.id},
      now);
  const auto backoff = state.live.not_before.find(job.id);
  if (forecast.start && backoff != state.live.not_before.end() && backoff->second > now.boot) {
    forecast.start = std::max(*forecast.start, now.wall + (backoff->second - now.boot));
  }
  if (spec.spec.begin && *spec.spec.begin > now.wall) {
    if (forecast.start == spec.spec.begin) forecast.basis = "`begin`";
    forecast.sooner.push_back(fmt::format("launch update {} begin=now", id));
  }
  return forecast;
}

StartForecast ForecastStart(const State& state, const event::PlanQuery& query,
                            const Result<LineDemand>& line, const Now& now) {
  return Forecast(state, {query.spec, query.context.files, &line, query.caller.user, std::nullopt},
                  now);
}

std::string InWords(const StartForecast& start, const Now& now) {
  if (!start.start) return "not known: " + start.basis;
  if (*start.start <= now.wall) return "now (" + start.basis + ")";
  return fmt::format("in {} ({})", FormatDurationShort(*start.start - now.wall), start.basis);
}

Finding AsFinding(const StartForecast& start, const Now& now) {
  Finding finding;
  finding.code = "expected_start";
  finding.severity = Severity::kNotice;
  finding.says = "the expected start is " + InWords(start, now);
  const auto add = [](std::string& text, const std::string& line) {
    text += (text.empty() ? "" : "\n") + line;
  };
  if (!start.ahead.empty()) add(finding.evidence, "in front of it: " + Ids(start.ahead));
  for (const StartForecast::Holder& holder : start.holders) {
    std::vector<std::string> nodes;
    nodes.reserve(holder.nodes.size());
    for (const NodeId& node : holder.nodes) nodes.push_back(node.value);
    add(finding.evidence,
        fmt::format("job {} ({} of {}) {} {}, {}", holder.job.value, holder.name, holder.user,
                    holder.gpus > 0
                        ? fmt::format("has {} GPU{} on", holder.gpus, holder.gpus == 1 ? "" : "s")
                        : "runs on",
                    FoldHostlist(std::move(nodes)),
                    holder.ends ? fmt::format("ends in {} by {}",
                                              FormatDurationShort(
                                                  std::max(Millis{0}, *holder.ends - now.wall)),
                                              holder.ends_by)
                                : "no `time` and no progress tell when it ends"));
  }
  for (const std::string& change : start.sooner) add(finding.remedy, "sooner: " + change);
  return finding;
}

}  // namespace launch::controller
