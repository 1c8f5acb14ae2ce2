#include "agent/runner/checkpoint_loose.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "agent/runner/checkpoint_names.h"

namespace launch::agent {
namespace {

// Nodes that wrote one after the other may each have used their own clock, and a copy takes no
// longer from one small file to the next.
constexpr Millis kSameTime{5000};

struct Candidate {
  CheckpointFound found;
  std::uint64_t bytes = 0;
  NamedStep step;
  FileRole role = FileRole::kResume;
  std::string series;
  std::string bare;  // the series without its numbers

  bool numbered() const { return step.counted != Counted::kNothing; }
};
using Candidates = std::vector<Candidate>;

Candidate Named(LooseFile file) {
  const std::string stem = StemOf(file.found.path);
  Candidate named{.found = std::move(file.found), .bytes = file.bytes};
  named.step = StepNamedBy(stem);
  named.role = RoleNamedBy(stem);
  named.series = SeriesNamedBy(stem);
  std::ranges::copy_if(named.series, std::back_inserter(named.bare),
                       [](char c) { return c == '=' || (c >= 'a' && c <= 'z'); });
  return named;
}

std::map<std::string, std::vector<Candidate*>> BySeries(Candidates& all) {
  std::map<std::string, std::vector<Candidate*>> series;
  for (Candidate& one : all) series[one.series].push_back(&one);
  return series;
}

void Forget(const std::vector<Candidate*>& files) {
  for (Candidate* const one : files) one->step = {};
}

void GoByTime(const std::vector<Candidate*>& files) {
  Forget(files);
  for (Candidate* const one : files) {
    if (one->role == FileRole::kResume) one->role = FileRole::kLast;
  }
}

// "100, 200, 300": as a loop saves them.
bool IsEvenlySpaced(const std::set<std::int64_t>& values) {
  std::int64_t gap = 0;
  for (const std::int64_t value : values) gap = std::gcd(gap, value - *values.begin());
  if (gap == 0) return true;
  const std::int64_t most = (*values.rbegin() - *values.begin()) / gap + 1;
  return *values.begin() % gap == 0 && 2 * std::ssize(values) >= most;
}

// Smaller numbers were saved later: they count something else than the training, as a loss does.
bool GoAgainstTime(std::vector<Candidate*> files) {
  std::ranges::sort(files, {}, [](const Candidate* one) { return one->step.value; });
  WallTime latest{};
  std::int64_t latest_of = 0;
  for (const Candidate* const one : files) {
    if (one->step.value > latest_of && one->found.modified + kSameTime < latest) return true;
    if (one->found.modified > latest) {
      latest = one->found.modified;
      latest_of = one->step.value;
    }
  }
  return false;
}

bool IsResumedFrom(const Candidate& one) {
  return one.role == FileRole::kResume || one.role == FileRole::kLast;
}

// Takes the steps away from those whose names do not tell them.
void DoubtNumbers(Candidates& all) {
  for (const auto& [name, files] : BySeries(all)) {
    std::set<std::int64_t> values;
    for (const Candidate* const one : files) values.insert(one->step.value);
    const Counted counted = files.front()->step.counted;
    if (counted == Counted::kAttached && values.size() < 2) Forget(files);
    const bool told = counted > Counted::kNumber || IsEvenlySpaced(values);  // a copy has new times
    if (!told && GoAgainstTime(files)) GoByTime(files);
  }
  // Epochs and steps cannot be compared.
  Counted surest = Counted::kNothing;
  for (const Candidate& one : all) {
    if (IsResumedFrom(one)) surest = std::max(surest, one.step.counted);
  }
  if (surest == Counted::kNothing) return;
  for (Candidate& one : all) {
    if (one.step.counted != surest && one.numbered()) GoByTime({&one});
  }
}

using Ranks = std::map<std::int64_t, Candidate>;

// The first one stands for all: torn is it where one is, or where one is missing.
Candidate FirstOf(Ranks ranks) {
  std::string why;
  WallTime modified{};
  for (const auto& [rank, one] : ranks) {
    modified = std::max(modified, one.found.modified);
    if (why.empty()) why = one.found.why;
  }
  const bool gap = ranks.rbegin()->first + 1 != std::ssize(ranks);
  Candidate first = std::move(ranks.begin()->second);
  first.found.modified = modified;
  first.found.why = why.empty() && gap ? "the file of a rank is missing" : why;
  first.found.complete = first.found.why.empty();
  return first;
}

// Of fewer ranks than the job and the save before it have, the last one was cut off; where the one
// before is as short, the job had fewer ranks then.
void DoubtTheLast(std::vector<std::pair<Candidate, std::size_t>>& saves, int world) {
  std::ranges::sort(saves, {}, [](const auto& save) { return save.first.found.modified; });
  if (saves.size() < 2) return;
  auto& [last, ranks] = saves.back();
  const bool few = std::cmp_less(ranks, world) && ranks < saves[saves.size() - 2].second;
  if (!few || !last.found.complete) return;
  last.found.complete = false;
  last.found.why = "the files of the last ranks are missing";
}

// Of what each rank wrote one file of, one is left. A rank that never is 0 is not of a process.
Candidates OneForAllRanks(Candidates all, int world) {
  std::map<std::string, std::map<std::string, Ranks>> series;
  Candidates left;
  for (Candidate& one : all) {
    const auto named = RankNamedBy(StemOf(one.found.path));
    if (!named) {
      left.push_back(std::move(one));
    } else {
      const std::string name = one.series;
      series[name][named->save].emplace(named->rank, std::move(one));
    }
  }
  for (auto& [name, saves] : series) {
    const bool processes =
        std::ranges::any_of(saves, [](const auto& save) { return save.second.contains(0); });
    std::vector<std::pair<Candidate, std::size_t>> firsts;
    for (auto& [save, ranks] : saves) {
      const std::size_t count = ranks.size();
      if (processes) {
        firsts.emplace_back(FirstOf(std::move(ranks)), count);
      } else {
        for (auto& [rank, one] : ranks) left.push_back(std::move(one));
      }
    }
    DoubtTheLast(firsts, world);
    for (auto& [first, count] : firsts) left.push_back(std::move(first));
  }
  return left;
}

constexpr int kPartTier = 4;

// The less a script resumes from it, the higher.
int TierOf(const Candidate& one, const std::set<std::string>& numbered) {
  if (one.role == FileRole::kPart) return kPartTier;
  if (one.role == FileRole::kResult) return one.numbered() ? 1 : 3;
  const bool known = one.numbered() || one.role == FileRole::kLast || numbered.contains(one.bare);
  return known ? 0 : 2;
}

// Those that a script resumes from, and further ones only where none of these is complete.
Candidates Foremost(Candidates all) {
  std::set<std::string> numbered;
  for (const Candidate& one : all) {
    if (one.numbered() && one.role == FileRole::kResume) numbered.insert(one.bare);
  }
  std::map<int, Candidates> tiers;
  for (Candidate& one : all) tiers[TierOf(one, numbered)].push_back(std::move(one));
  Candidates kept;
  for (auto& [tier, files] : tiers) {
    const bool complete =
        std::ranges::any_of(kept, [](const Candidate& one) { return one.found.complete; });
    if (complete || (tier == kPartTier && !kept.empty())) break;
    std::ranges::move(files, std::back_inserter(kept));
  }
  return kept;
}

struct Kind {  // of file, of which there is one a step
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  WallTime modified{};
  std::string series;
  std::set<std::int64_t> steps;
};

std::vector<Kind> KindsOf(Candidates& all) {
  std::vector<Kind> kinds;
  for (const auto& [name, files] : BySeries(all)) {
    Kind kind{.count = files.size(), .series = name};
    for (const Candidate* const one : files) {
      if (one->found.complete) kind.bytes = std::max(kind.bytes, one->bytes);
      kind.modified = std::max(kind.modified, one->found.modified);
      if (one->numbered()) kind.steps.insert(one->step.value);
    }
    kinds.push_back(std::move(kind));
  }
  std::ranges::sort(kinds, [](const Kind& a, const Kind& b) {
    return std::tie(b.bytes, b.count, b.modified, a.series) <
           std::tie(a.bytes, a.count, a.modified, b.series);
  });
  return kinds;
}

// Of the kinds that have a step in common, one.
void LeaveOneKind(Candidates& all) {
  std::set<std::int64_t> kept;  // steps; the names of a directory may be of as many kinds as files
  std::set<std::string> left_out;
  for (Kind& kind : KindsOf(all)) {
    const bool beside =
        std::ranges::any_of(kind.steps, [&kept](std::int64_t step) { return kept.contains(step); });
    if (beside) {
      left_out.insert(kind.series);
    } else {
      kept.merge(kind.steps);
    }
  }
  std::erase_if(all, [&](const Candidate& one) { return left_out.contains(one.series); });
}

// last.ckpt: of the step of the newest file with a number that it is not older than.
void PlaceUnnumbered(Candidates& all) {
  std::map<WallTime, std::int64_t> reached;  // by then
  for (const Candidate& one : all) {
    std::int64_t& step = reached[one.found.modified];
    step = std::max(step, one.step.value);
  }
  std::int64_t most = 0;
  for (auto& [when, step] : reached) step = most = std::max(most, step);
  for (Candidate& one : all) {
    one.found.step = one.numbered() ? one.step.value : reached[one.found.modified];
  }
}

}  // namespace

std::vector<CheckpointFound> ChooseLoose(std::vector<LooseFile> files, int world) {
  Candidates all;
  for (LooseFile& file : files) {
    all.push_back(Named(std::move(file)));
    if (all.back().role == FileRole::kState) all.pop_back();
  }
  all = OneForAllRanks(std::move(all), world);
  DoubtNumbers(all);
  all = Foremost(std::move(all));
  LeaveOneKind(all);
  PlaceUnnumbered(all);
  std::vector<CheckpointFound> found;
  for (Candidate& one : all) found.push_back(std::move(one.found));
  return found;
}

}  // namespace launch::agent
