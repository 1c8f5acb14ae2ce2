#include "controller/core/line_memo.h"

#include <iterator>

#include "controller/core/state.h"

namespace launch::controller {

bool IsReadAtOnce(const JobSpec& spec, const std::map<std::string, std::string>& files) {
  constexpr std::size_t kMost = 1024;
  std::size_t bytes = spec.run.size();
  for (const EnvEntry& entry : spec.env)
    bytes += entry.name.size() + entry.value.value_or("").size();
  return files.empty() && bytes <= kMost;
}

bool AsksForTheSame(const JobSpec& one, const JobSpec& other) {
  JobSpec like_other = one;
  like_other.name = other.name;
  like_other.element = other.element;
  return like_other == other;
}

const Result<LineDemand>* LineMemo::Find(const State& state, JobId job) const {
  if (const auto known = read_.find(job); known != read_.end()) return &known->second;
  const SpecRecord& spec = state.specs.at(job);
  if (const Result<LineDemand>* same = OfElementBefore(state, spec))
    return &read_.emplace(job, *same).first->second;
  return IsReadAtOnce(spec.spec, spec.context.files) ? &Read(state, job) : nullptr;
}

const Result<LineDemand>& LineMemo::Read(const State& state, JobId job) const {
  const SpecRecord& spec = state.specs.at(job);
  return read_.insert_or_assign(job, DemandIn(ReadLineOf(spec.spec, spec.context.files)))
      .first->second;
}

// The elements of an array have numbers in a row and are looked at in that order.
const Result<LineDemand>* LineMemo::OfElementBefore(const State& state,
                                                    const SpecRecord& spec) const {
  const auto behind = read_.lower_bound(spec.id);
  if (behind == read_.begin()) return nullptr;
  const auto& [before, line] = *std::prev(behind);
  const SpecRecord& other = state.specs.at(before);
  const bool same_array = spec.spec.element && other.spec.element &&
                          spec.spec.element->array == other.spec.element->array;
  if (!same_array || spec.context.files != other.context.files) return nullptr;
  return AsksForTheSame(spec.spec, other.spec) ? &line : nullptr;
}

const Result<LineDemand>* LineReadings::Of(const State& state, JobId job) {
  if (const Result<LineDemand>* known = state.lines.Find(state, job)) return known;
  if (!Take()) return nullptr;
  return &state.lines.Read(state, job);
}

}  // namespace launch::controller
