#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/units.h"
#include "diagnosis/bounded_pattern.h"
#include "diagnosis/doubts.h"

namespace launch {
namespace {

constexpr std::string_view kTimeout = "nccl_timeout";
constexpr std::int64_t kMostRanks = 1 << 20;

// As a watchdog of ProcessGroupNCCL.cpp tells of its rank.
struct Wait {
  Rank rank = 0;
  std::string group;
  std::int64_t at = 0;        // the collective that timed out
  std::int64_t enqueued = 0;  // the last one that the rank entered
};

std::optional<Wait> WaitOf(const std::string& text) {
  static const BoundedPattern pattern(
      R"(\[PG ([^\]]*?) ?Rank (\d+)\].* at (?:NCCL )?work(?: sequence id)?: (\d+),? (?:PG status: )?last )"
      R"(enqueued (?:NCCL )?work: (\d+))");
  Wait wait;
  int rank = 0;
  if (!RE2::PartialMatch(text, pattern, &wait.group, &rank, &wait.at, &wait.enqueued)) return {};
  wait.rank = rank;
  return wait;
}

void Name(std::vector<Suspect>& suspects, Rank late, const std::string& how) {
  for (Suspect& c : suspects) {
    if (c.label != kTimeout || c.action == "no_retry") continue;
    c.rank = late;
    c.cause = "A collective timed out: rank " + std::to_string(late) + " " + how;
    c.remedy = "look at the log of rank " + std::to_string(late) +
               " and at what it was doing then; run again with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 "
               "TORCH_NCCL_DUMP_ON_TIMEOUT=1";
  }
}

bool NameOfReport(std::vector<Suspect>& suspects) {
  static const BoundedPattern report(
      R"(caused the desync are:? ?\[(\d+)\]|missing ranks: ?[{\[](\d+)[}\]])");
  for (const Suspect& c : suspects) {
    std::string digits[2];
    if (c.label != kTimeout || !RE2::PartialMatch(c.text, report, &digits[0], &digits[1])) continue;
    const auto late = ParseInt(digits[0] + digits[1]);
    if (!late || *late > kMostRanks) continue;
    Name(suspects, static_cast<Rank>(*late), "did not take part, as torch's own report says");
    return true;
  }
  return false;
}

bool NameWhoIsBehind(std::vector<Suspect>& suspects) {
  std::map<std::string, std::vector<Wait>> groups;
  for (const Suspect& c : suspects)
    if (const auto wait = WaitOf(c.text)) groups[wait->group].push_back(*wait);
  for (const auto& [group, waits] : groups) {
    const auto behind = std::ranges::min_element(waits, {}, &Wait::enqueued);
    const auto ahead = std::ranges::max_element(waits, {}, &Wait::at);
    if (behind->rank == ahead->rank || behind->enqueued >= ahead->at) continue;
    Name(suspects, behind->rank,
         "is behind: it never entered collective number " + std::to_string(ahead->at) +
             ", in which rank " + std::to_string(ahead->rank) + " waits");
    return true;
  }
  return false;
}

}  // namespace

void TellLate(std::vector<Suspect>& suspects, const std::set<Rank>& seen) {
  if (NameOfReport(suspects) || NameWhoIsBehind(suspects)) return;
  std::set<Rank> waited;
  for (const Suspect& c : suspects)
    if (c.label.starts_with(kTimeout) && c.rank) waited.insert(*c.rank);
  if (waited.size() < 2) return;
  const Rank last = std::max(*waited.rbegin(), seen.empty() ? Rank{0} : *seen.rbegin());
  if (last != static_cast<Rank>(waited.size())) return;  // all of 0 to `last` but one
  Rank late = 0;
  while (waited.contains(late)) ++late;
  Name(suspects, late,
       "is the only one of 0 to " + std::to_string(last) + " in this log that did not time out");
}

void TellLate(std::vector<Verdict>& verdicts) {
  std::vector<const Verdict*> running;
  std::size_t waited = 0;
  for (const Verdict& verdict : verdicts) {
    waited += verdict.label == kTimeout ? 1 : 0;
    if (verdict.label == "none" && verdict.rank) running.push_back(&verdict);
  }
  if (running.size() != 1 || waited == 0 || waited + 1 != verdicts.size()) return;
  const std::string who = std::to_string(*running[0]->rank);
  for (Verdict& verdict : verdicts) {
    if (verdict.label != kTimeout || verdict.action == "no_retry") continue;
    verdict.cause = "A collective timed out, and rank " + who + " was still running then: it did " +
                    "not take part, or waited in another one";
    verdict.remedy = "launch logs JOB --rank " + who +
                     "   # what it was doing; hang: {after: 2m} takes the stacks of all ranks "
                     "before the timeout";
  }
}

}  // namespace launch
