#include "controller/diagnosis_worker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>

#include "common/quoted.h"
#include "common/redaction.h"
#include "diagnosis/verdict.h"
#include "proto/convert_value.h"

namespace launch::controller {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t kThreads = 2;  // one node that does not answer must not hold up all others
constexpr Millis kOfOneRank{4'000};
constexpr Millis kOfAll{10'000};  // less than the core waits (kDiagnosisLimit)
// Of a log beyond it the beginning and the end are read: what failed first is often said before
// dumps without end, and what a rank said last names its end. Of one that comes too slowly only the
// end is.
constexpr std::uint64_t kWholeLog = 64 << 20;
constexpr std::uint64_t kHead = 8 << 20;
constexpr std::uint32_t kTailLines = 100'000;
constexpr std::uint32_t kShortTail = 2'000;
constexpr Millis kStopWithin{200};
constexpr Millis kAwaited{5'000};  // with the reading itself, what the core waits
constexpr std::size_t kMostWaiting = 1024;

// What wakes a reader; outlives the call that waits, because a wake may be under way at its end.
struct Bell {
  Mutex mutex;
  std::condition_variable changed;
  bool rung = false;

  void Ring() {
    const MutexLock lock(mutex);
    rung = true;
    changed.notify_all();
  }
  void Await(Millis at_most) {
    MutexLock lock(mutex);
    if (!rung) changed.wait_for(lock.native(), at_most);
    rung = false;
  }
};

// Text of a log may hold numbers that no store takes ("Tried to allocate 1e999 GiB").
std::optional<Verdict> Storable(Verdict verdict) {
  if (FromProto(ToProto(verdict))) return verdict;
  verdict.numbers.clear();
  verdict.changes.clear();
  auto again = FromProto(ToProto(verdict));
  if (again) return *again;
  spdlog::error("diagnosis.dropped label={} why={}", verdict.label, Quoted(again.error().message));
  return std::nullopt;
}

void RemoveSecrets(const effect::DiagnosisWanted& wanted, Verdict& verdict) {
  Redaction::Variables known = wanted.env;
  std::vector<std::string> names;
  for (const auto& [name, value] : wanted.secrets) {
    names.push_back(name);
    known[name] = value;
  }
  const Redaction redaction(std::move(names), known);
  verdict.cause = redaction.Clean(verdict.cause);
  verdict.remedy = redaction.Clean(verdict.remedy);
  for (std::string& line : verdict.evidence) line = redaction.Clean(line);
}

}  // namespace

bool ReadLog(LogRelay& relay, const LogsCall& call, Millis at_most, const LogFeed& feed) {
  const Steady::time_point until = Steady::now() + at_most;
  const auto bell = std::make_shared<Bell>();
  const LogRelay::FollowerId follower =
      relay.Open({Caller{UserName{"launch-diagnosis"}, true}, call}, [bell] { bell->Ring(); });
  bool all = false;
  bool wanted = true;
  while (wanted && !all && Steady::now() < until) {
    const LogPull pulled = relay.Pull(follower);
    if (std::holds_alternative<LogFinished>(pulled)) {
      all = true;
    } else if (const auto* piece = std::get_if<LogPiece>(&pulled)) {
      if (const auto* chunk = std::get_if<LogChunk>(piece)) wanted = feed(chunk->data);
    } else {
      bell->Await(kStopWithin);
      wanted = feed({});
    }
  }
  relay.Close(follower);
  return all;
}

event::Diagnosed Diagnose(const effect::DiagnosisWanted& wanted, const LogReader& read,
                          const CompiledSignatures& signatures) {
  const Steady::time_point until = Steady::now() + kOfAll;
  std::vector<Verdict> verdicts;
  for (const FailedRank& rank : wanted.ranks) {
    LogsCall call;
    call.job = wanted.key.job;
    call.attempt = wanted.key.attempt;
    call.ranks = {rank.exit.rank};
    LogScanner scanner(signatures);
    const auto read_on = [&](std::uint64_t most) {
      const Millis left = std::chrono::duration_cast<Millis>(until - Steady::now());
      if (left <= Millis{0}) return true;
      std::uint64_t had = 0;
      return read(call, std::min(left, kOfOneRank), [&](std::string_view piece) {
        scanner.Feed(piece);
        had += piece.size();
        return had < most;
      });
    };
    if (rank.exit.log_end > kWholeLog) {
      read_on(kHead);
      scanner.Feed("\n");  // its last line is cut
      call.last_lines = kTailLines;
    }
    if (!read_on(rank.exit.log_end + kWholeLog)) {
      call.last_lines = kShortTail;
      read_on(kWholeLog);
    }
    verdicts.push_back(JudgeRank(scanner.Finish(), rank, signatures));
  }
  if (verdicts.empty()) return {wanted.key, std::nullopt};
  Verdict verdict = ChooseVerdict(verdicts);
  if (!IsFailure(verdict)) return {wanted.key, std::nullopt};
  for (std::string& line : TimeLine(wanted.ranks)) verdict.evidence.push_back(std::move(line));
  RemoveSecrets(wanted, verdict);
  return {wanted.key, Storable(std::move(verdict))};
}

DiagnosisWorker::DiagnosisWorker(LogReader read, std::function<void(event::Diagnosed)> answer)
    : read_(std::move(read)), answer_(std::move(answer)) {
  for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
}

DiagnosisWorker::~DiagnosisWorker() { Stop(); }

void DiagnosisWorker::Want(effect::DiagnosisWanted wanted) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  if (wanted_.size() == kMostWaiting) wanted_.pop_front();  // nobody waits for it any more
  wanted_.push_back({std::move(wanted), Steady::now()});
  changed_.notify_one();
}

void DiagnosisWorker::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    abandon_ = true;
    wanted_.clear();
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

// First the oldest of those that the core still waits for, so that a crowd of failures does not
// make every one of them late; then the newest of the late ones, for `why`.
effect::DiagnosisWanted DiagnosisWorker::TakeNext() {
  const Steady::time_point now = Steady::now();
  auto next = std::ranges::find_if(
      wanted_, [&](const Waiting& waiting) { return now - waiting.since < kAwaited; });
  if (next == wanted_.end()) next = std::prev(wanted_.end());
  effect::DiagnosisWanted wanted = std::move(next->wanted);
  wanted_.erase(next);
  return wanted;
}

void DiagnosisWorker::Run() {
  for (;;) {
    effect::DiagnosisWanted wanted;
    {
      MutexLock lock(mutex_);
      while (wanted_.empty() && !stopping_) changed_.wait(lock.native());
      if (stopping_) return;
      wanted = TakeNext();
    }
    const LogReader read = [this](const LogsCall& call, Millis at_most, const LogFeed& feed) {
      const bool all = abandon_ || read_(call, at_most, [&](std::string_view piece) {
                         return !abandon_ && feed(piece);
                       });
      return all || abandon_;
    };
    event::Diagnosed diagnosed = Diagnose(wanted, read, signatures_);
    if (!abandon_) answer_(std::move(diagnosed));
  }
}

}  // namespace launch::controller
