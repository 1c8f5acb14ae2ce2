#include "controller/core/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "controller/core/views.h"

namespace launch::controller {
namespace {

using Targets = std::vector<const JobRecord*>;

// The job itself, or all elements of an array; none: not known.
Targets TargetsOf(const State& state, JobId id) {
  Targets targets;
  if (const auto job = state.jobs.find(id); job != state.jobs.end()) {
    targets.push_back(&job->second);
  } else if (const auto array = state.arrays.find(id); array != state.arrays.end()) {
    for (const JobId element : array->second) targets.push_back(&state.jobs.at(element));
  }
  return targets;
}

bool IsDone(const JobRecord& job) { return job.phase == JobPhase::kDone; }
bool Succeeded(const JobRecord& job) { return job.outcome == JobState::kSucceeded; }

std::string Says(const State& state, const JobRecord& job) {
  return fmt::format("job {} is {}", job.id.value, ToString(ShownState(state, job)));
}

// Of several the first that is not there yet speaks, and how many others there are.
std::string Waits(const State& state, const Targets& missing, const Dependency& on) {
  std::string text = fmt::format("{}: {}", ToString(on), Says(state, *missing.front()));
  if (missing.size() > 1) text += fmt::format(", and {} more", missing.size() - 1);
  return text;
}

Targets Where(const Targets& targets, auto predicate) {
  Targets some;
  std::copy_if(targets.begin(), targets.end(), std::back_inserter(some),
               [&](const JobRecord* job) { return predicate(*job); });
  return some;
}

// What to write in place of one that can never be met.
std::string OtherKinds(const Dependency& on) {
  const std::string any = fmt::format("afterany:{} starts after any end", on.job.value);
  if (on.kind == DependencyKind::kAfterNotOk) return any;
  return fmt::format("{}, afternotok:{} after one without success", any, on.job.value);
}

DependencyLook LookAt(const State& state, const Targets& targets, const Dependency& on) {
  if (targets.empty())
    return {"", fmt::format("{}: job {} is not known", ToString(on), on.job.value)};
  const Targets running = Where(targets, [](const JobRecord& t) { return !IsDone(t); });
  const Targets failed =
      Where(targets, [](const JobRecord& t) { return IsDone(t) && !Succeeded(t); });
  switch (on.kind) {
    case DependencyKind::kAfter: {
      const Targets waiting =
          Where(running, [](const JobRecord& t) { return t.started == WallTime{}; });
      return {waiting.empty() ? "" : Waits(state, waiting, on), ""};
    }
    case DependencyKind::kAfterAny:
      return {running.empty() ? "" : Waits(state, running, on), ""};
    case DependencyKind::kAfterOk:
    case DependencyKind::kAfterCorr:
      if (!failed.empty()) {
        return {"",
                fmt::format("{} can never be met: {}", ToString(on), Says(state, *failed.front()))};
      }
      return {running.empty() ? "" : Waits(state, running, on), ""};
    case DependencyKind::kAfterNotOk:
      if (!running.empty()) return {Waits(state, running, on), ""};
      if (failed.empty()) {
        return {"", fmt::format("{} can never be met: {}", ToString(on),
                                Says(state, *targets.front()))};
      }
      return {};
    case DependencyKind::kSingleton:
      break;
  }
  return {};
}

}  // namespace

DependencyLook DependencyLooks::Twins(const JobRecord& job, const Dependency& on) {
  const auto [names, fresh] = oldest_.try_emplace(job.owner);
  if (const auto open = state_.open.find(job.owner); fresh && open != state_.open.end()) {
    for (const JobId id : open->second) names->second.try_emplace(state_.jobs.at(id).name, id);
  }
  const auto oldest = names->second.find(job.name);
  if (oldest == names->second.end() || !(oldest->second < job.id)) return {};
  return {Waits(state_, {&state_.jobs.at(oldest->second)}, on), ""};
}

const std::map<int, const JobRecord*>& DependencyLooks::ByIndex(JobId array) {
  const auto [known, fresh] = by_index_.try_emplace(array);
  if (const auto found = state_.arrays.find(array); fresh && found != state_.arrays.end()) {
    for (const JobId id : found->second) {
      const JobRecord& element = state_.jobs.at(id);
      known->second.emplace(element.array_index, &element);
    }
  }
  return known->second;
}

const DependencyLook& DependencyLooks::At(const JobRecord& job, const Dependency& on) {
  const JobRecord* same = nullptr;  // the element that this one goes with
  if (on.kind == DependencyKind::kAfterCorr && job.array) {
    const auto& elements = ByIndex(on.job);
    if (const auto found = elements.find(job.array_index); found != elements.end()) {
      same = found->second;
    }
  }
  const auto [look, fresh] =
      known_.try_emplace({on.kind, on.job, same == nullptr ? -1 : job.array_index});
  if (fresh) {
    look->second = LookAt(state_, same == nullptr ? TargetsOf(state_, on.job) : Targets{same}, on);
  }
  return look->second;
}

DependencyLook DependencyLooks::Of(const JobRecord& job) {
  DependencyLook all;
  for (const Dependency& on : state_.specs.at(job.id).spec.depends_on) {
    const DependencyLook one = on.kind == DependencyKind::kSingleton ? Twins(job, on) : At(job, on);
    if (!one.never.empty()) return one;
    if (all.waits.empty()) all = one;
  }
  return all;
}

Result<void> CheckDependencies(const State& state, const JobSpec& spec) {
  for (const Dependency& on : spec.depends_on) {
    if (on.kind == DependencyKind::kSingleton) continue;
    const Targets targets = TargetsOf(state, on.job);
    if (targets.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("depends_on: there is no job {}", on.job.value),
                  "`launch queue -a` lists all jobs");
    }
    // Of two arrays only the elements whose own counterpart failed never run.
    const bool by_element =
        on.kind == DependencyKind::kAfterCorr && spec.array && state.arrays.contains(on.job);
    if (by_element) continue;
    if (const std::string never = LookAt(state, targets, on).never; !never.empty())
      return Fail(ErrorCode::kCannotFit, "depends_on: " + never, OtherKinds(on));
  }
  return {};
}

}  // namespace launch::controller
