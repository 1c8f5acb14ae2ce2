#include "diagnosis/hang.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "common/units.h"
#include "diagnosis/labels.h"
#include "diagnosis/standing_place.h"

namespace launch {
namespace {

constexpr std::size_t kMostNamed = 8;   // ranks in one sentence
constexpr std::size_t kMostCalls = 12;  // of a stack shown as evidence
constexpr std::size_t kMostPlaces = 8;

std::string Ranks(const std::vector<const StandingRank*>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kMostNamed; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]->rank);
  }
  if (ranks.size() > kMostNamed) {
    text += " and " + std::to_string(ranks.size() - kMostNamed) + " more";
  }
  return text;
}

std::string Capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

struct Group {  // ranks at one place
  StandingPlace place;
  std::vector<const StandingRank*> ranks;
};

std::vector<Group> GroupsOf(const HangFacts& facts) {
  std::vector<Group> groups;
  for (const StandingRank& rank : facts.ranks) {
    StandingPlace place = PlaceOf(rank);
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.place.kind == place.kind && group.place.call == place.call &&
             group.place.at == place.at;
    });
    if (same != groups.end()) {
      same->ranks.push_back(&rank);
    } else {
      groups.push_back({std::move(place), {&rank}});
    }
  }
  // The largest first: who is elsewhere than most is the odd one.
  std::ranges::stable_sort(groups, std::greater{}, [](const Group& g) { return g.ranks.size(); });
  return groups;
}

std::vector<const Group*> OfKind(const std::vector<Group>& groups, auto predicate) {
  std::vector<const Group*> found;
  for (const Group& group : groups) {
    if (predicate(group.place.kind)) found.push_back(&group);
  }
  return found;
}

std::vector<const StandingRank*> RanksOf(const std::vector<const Group*>& groups) {
  std::vector<const StandingRank*> ranks;
  for (const Group* group : groups) {
    ranks.insert(ranks.end(), group->ranks.begin(), group->ranks.end());
  }
  std::ranges::sort(ranks, {}, [](const StandingRank* rank) { return rank->rank; });
  return ranks;
}

// One who is in the kernel for a device before one who sleeps, then one who is steps behind.
const StandingRank* MostStuck(const std::vector<const StandingRank*>& ranks) {
  const auto key = [](const StandingRank* rank) {
    const ProcessStack* trainer = TrainerOf(*rank);
    const bool device = trainer != nullptr && trainer->state == "D";
    return std::tuple(device ? 0 : 1, rank->step.value_or(INT64_MAX), rank->rank);
  };
  return *std::ranges::min_element(ranks, {}, key);
}

void Name(Verdict& verdict, const StandingRank& rank) {
  verdict.rank = rank.rank;
  verdict.node = rank.node;
}

void AddEvidence(const HangFacts& facts, const std::vector<Group>& groups, Verdict& verdict) {
  verdict.evidence.push_back("no output, no step and no use of a GPU for " +
                             FormatDurationShort(facts.silent));
  for (std::size_t i = 0; i < groups.size() && i < kMostPlaces; ++i) {
    verdict.evidence.push_back(Ranks(groups[i].ranks) + ": " + InWords(groups[i].place) +
                               OnDevice(groups[i].place));
  }
  for (const StandingRank& rank : facts.ranks) {
    if (verdict.rank && *verdict.rank != rank.rank) continue;
    const ProcessStack* trainer = TrainerOf(rank);
    if (trainer == nullptr) continue;
    for (std::size_t i = 0; i < trainer->frames.size() && i < kMostCalls; ++i) {
      verdict.evidence.push_back("rank " + std::to_string(rank.rank) + " #" + std::to_string(i) +
                                 " " + FrameText(trainer->frames[i]));
    }
    if (!trainer->kernel.empty()) {
      verdict.evidence.push_back("rank " + std::to_string(rank.rank) + " kernel " +
                                 trainer->kernel.front());
    }
    break;
  }
  for (const StandingRank& rank : facts.ranks) {
    if (rank.why.empty()) continue;
    verdict.evidence.push_back("rank " + std::to_string(rank.rank) + " on " + rank.node.value +
                               ": " + rank.why);
  }
}

// "is at train.py:31 (step)"
std::string Predicate(const StandingPlace& place) {
  const bool verb = place.kind == StandingKind::kLoader || place.kind == StandingKind::kGpu;
  return (verb ? "" : "is ") + InWords(place) + OnDevice(place);
}

// Ranks that wait for each other in different calls.
Verdict Mismatch(const std::vector<const Group*>& waiting) {
  Verdict verdict = VerdictOfLabel("collective_mismatch", Confidence::kLikely);
  const Group& odd = *waiting.back();
  verdict.cause = Capital(Ranks(odd.ranks)) +
                  " and the others wait for each other in different "
                  "calls:";
  for (std::size_t i = 0; i < waiting.size() && i < 3; ++i) {
    const Group& group = *waiting[i];
    verdict.cause += std::string(i > 0 ? ";" : "") + " " + Ranks(group.ranks) + " in " +
                     group.place.call + " (" + WithoutDirectory(group.place.at) + ")";
  }
  Name(verdict, *MostStuck(odd.ranks));
  return verdict;
}

// Somebody did not come to the call in which others wait.
Verdict Late(const std::vector<const Group*>& waiting, const std::vector<const Group*>& out) {
  Verdict verdict = VerdictOfLabel("hang", Confidence::kLikely);
  const StandingRank* late = MostStuck(RanksOf(out));
  const auto of = std::ranges::find_if(out, [&](const Group* group) {
    return std::ranges::find(group->ranks, late) != group->ranks.end();
  });
  const Group& group = **of;
  StandingPlace place = group.place;
  place.at = WithoutDirectory(place.at);
  verdict.cause = Capital(Ranks(group.ranks)) + " did not come to " + waiting.front()->place.call +
                  ", in which " + Ranks(RanksOf(waiting)) +
                  (RanksOf(waiting).size() == 1 ? " waits: " : " wait: ") +
                  (group.ranks.size() == 1 ? "it " : "each of them ") + Predicate(place);
  Name(verdict, *late);
  return verdict;
}

Verdict Judged(const std::vector<Group>& groups) {
  const auto waiting =
      OfKind(groups, [](StandingKind kind) { return kind == StandingKind::kTogether; });
  const auto out = OfKind(groups, [](StandingKind kind) {
    return kind == StandingKind::kElsewhere || kind == StandingKind::kLoader;
  });
  const auto unseen =
      OfKind(groups, [](StandingKind kind) { return kind == StandingKind::kUnseen; });
  if (!waiting.empty() && !out.empty()) return Late(waiting, out);
  if (waiting.size() > 1) return Mismatch(waiting);
  if (!waiting.empty() && !unseen.empty()) return Late(waiting, unseen);
  Verdict verdict = VerdictOfLabel("hang", Confidence::kLikely);
  const Group& first = groups.front();
  if (!waiting.empty()) {
    const auto ranks = RanksOf(waiting);
    verdict.cause = ranks.size() == 1
                        ? Capital(Ranks(ranks)) + " waits in " + first.place.call + " (" +
                              WithoutDirectory(first.place.at) + ")"
                        : "All ranks wait in " + waiting.front()->place.call + " (" +
                              WithoutDirectory(waiting.front()->place.at) +
                              "): none is behind, so the network or a GPU between them does not "
                              "move";
    return verdict;
  }
  if (groups.size() == unseen.size()) {
    verdict.confidence = Confidence::kSymptom;
    verdict.cause = "The ranks stand still, and no Python stack of them could be read";
    if (first.ranks.size() == 1 && groups.size() == 1) Name(verdict, *first.ranks.front());
    return verdict;
  }
  StandingPlace place = first.place;
  place.at = WithoutDirectory(place.at);
  if (groups.size() == 1) {
    verdict.cause = Capital(Ranks(first.ranks)) +
                    (first.ranks.size() == 1 ? " stands still, " : " stand still, ") +
                    InWords(place) + OnDevice(place);
    if (first.ranks.size() == 1) Name(verdict, *first.ranks.front());
    return verdict;
  }
  const StandingRank* stuck = MostStuck(RanksOf(OfKind(groups, [](StandingKind) { return true; })));
  StandingPlace its = PlaceOf(*stuck);
  its.at = WithoutDirectory(its.at);
  verdict.cause = "The ranks stand still at different places; rank " + std::to_string(stuck->rank) +
                  ", the furthest behind, " + Predicate(its);
  Name(verdict, *stuck);
  return verdict;
}

// Ranks that a launcher of the job's own started on a node, as ranks of their own.
std::vector<StandingRank> Unfolded(const std::vector<StandingRank>& ranks) {
  std::vector<StandingRank> all;
  for (const StandingRank& node : ranks) {
    std::map<Rank, std::vector<ProcessStack>> own;
    for (const ProcessStack& process : node.processes) {
      if (process.rank) own[*process.rank].push_back(process);
    }
    const bool one = own.empty() || (own.size() == 1 && own.begin()->first == node.rank);
    if (one) {
      all.push_back(node);
      continue;
    }
    for (auto& [rank, processes] : own) {
      all.push_back({rank, node.node, node.step, std::move(processes), node.why});
    }
  }
  std::ranges::sort(all, {}, &StandingRank::rank);
  return all;
}

}  // namespace

Verdict JudgeHang(const HangFacts& said) {
  const HangFacts facts{said.silent, Unfolded(said.ranks)};
  if (facts.ranks.empty()) {
    Verdict verdict = VerdictOfLabel("hang", Confidence::kLikely);
    verdict.confidence = Confidence::kSymptom;
    AddEvidence(facts, {}, verdict);
    return verdict;
  }
  const std::vector<Group> groups = GroupsOf(facts);
  Verdict verdict = Judged(groups);
  const bool all_seen = std::ranges::none_of(
      groups, [](const Group& group) { return group.place.kind == StandingKind::kUnseen; });
  if (all_seen && verdict.rank && verdict.confidence == Confidence::kLikely)
    verdict.confidence = Confidence::kConfirmed;
  AddEvidence(facts, groups, verdict);
  return verdict;
}

std::string DescribeStanding(const StandingRank& rank) {
  const StandingPlace place = PlaceOf(rank);
  return "rank " + std::to_string(rank.rank) + " on " + rank.node.value + ": " +
         (rank.why.empty() ? InWords(place) + OnDevice(place) : rank.why);
}

}  // namespace launch
