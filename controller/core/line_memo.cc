#include "controller/core/line_memo.h"

#include <iterator>

#include "controller/core/state.h"

namespace launch::controller {

bool IsReadAtOnce(const JobSpec& spec, const std::map<std::string, std::string>& files) {
  constexpr std::size_t kMost = std::size_t{4} << 10;
  std::size_t bytes = spec.run.size();
  for (const auto& [name, text] : files) bytes += text.size();
  return bytes <= kMost;
}

bool AsksForTheSame(const JobSpec& one, const JobSpec& other) {
  JobSpec like_other = one;
  like_other.name = other.name;
  like_other.element = other.element;
  return like_other == other;
}

const LineReading& LineMemo::Of(const State& state, JobId job) const {
  if (const auto known = read_.find(job); known != read_.end()) return known->second;
  LineReading line = OfNeighbour(state, job);
  if (!line) {
    const SpecRecord& spec = state.specs.at(job);
    line = ReadLineOf(spec.spec, spec.context.files);
  }
  return read_.emplace(job, std::move(line)).first->second;
}

// The elements of an array have numbers in a row and are read in that order. Null: there is none.
LineReading LineMemo::OfNeighbour(const State& state, JobId job) const {
  const auto behind = read_.lower_bound(job);
  if (behind == read_.begin()) return nullptr;
  const auto& [before, line] = *std::prev(behind);
  const SpecRecord& own = state.specs.at(job);
  const SpecRecord& other = state.specs.at(before);
  const bool same_array = own.spec.element && other.spec.element &&
                          own.spec.element->array == other.spec.element->array;
  if (!same_array || own.context.files != other.context.files) return nullptr;
  return AsksForTheSame(own.spec, other.spec) ? line : nullptr;
}

const LineReading& LineOf(const State& state, JobId job) { return state.lines.Of(state, job); }

}  // namespace launch::controller
