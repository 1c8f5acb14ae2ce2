#include "diagnosis/verdict.h"

#include <algorithm>
#include <set>

#include "common/units.h"
#include "diagnosis/doubts.h"
#include "diagnosis/in_passing.h"
#include "diagnosis/labels.h"
#include "diagnosis/progress.h"
#include "diagnosis/rank_end.h"
#include "diagnosis/smi_table.h"
#include "diagnosis/suspects.h"

namespace launch {
namespace {

constexpr std::size_t kMostEvidence = 5;
constexpr std::uint64_t kBusyBefore = 2000;  // bytes: the last thing said before the timeout
constexpr int kNansThatStay = 2;
constexpr int kCaughtWeight = 35;  // above the report of an exit code, below that of a signal
constexpr int kOutageWeight = 75;  // above the timeouts of those that waited for it
constexpr std::size_t kRoomInFront = 24;          // in front of the line of an exception
constexpr std::string_view kKernel = "kernel: ";  // in front of its lines as evidence

// What a program ends with, if nothing outside ends it. A line of the driver is not the program's.
bool IsCause(const Suspect& c) {
  return c.offset != kOutside && !c.label.starts_with("xid_") &&
         (c.tier == Tier::kRoot || c.tier == Tier::kProgram);
}

// Whether the line tells of a failure, and is not of the server itself.
bool TellsOfFailure(const LogHit& hit) {
  switch (hit.signature->reading) {
    case Reading::kLabel:
      return hit.signature->tier != Tier::kNote && !hit.text.starts_with("[W") &&
             hit.text.find("nfs: server ") == std::string::npos;
    case Reading::kCompiler:
    case Reading::kOom:
    case Reading::kXid:
    case Reading::kRankEnd:
      return true;
    case Reading::kException:
    case Reading::kTraceback:
      return IsException(hit) && !hit.is_caught;
    default:
      return false;
  }
}

// An NFS server that did not respond and answered later on, and nothing failed in between. Who was
// told that it timed out got an error, which no answer mends.
bool IsHealed(const LogHit& hit, const LogEvidence& log) {
  if (hit.text.find("nfs: server ") == std::string::npos ||
      hit.text.find("still trying") == std::string::npos)
    return false;
  const auto answer = std::ranges::find_if(log.hits, [&](const LogHit& later) {
    return later.signature->reading == Reading::kHealed && later.offset > hit.offset &&
           hit.text.find("server " + later.first + " not responding") != std::string::npos;
  });
  return answer != log.hits.end() && std::none_of(log.hits.begin(), answer, [&](const LogHit& h) {
           return h.offset > hit.offset && TellsOfFailure(h);
         });
}

// DeepSpeed tells of an overflow at each step, others of a loss now and then.
bool IsOfEachStep(const LogHit& nan) {
  return nan.text.find("Attempted loss scale") != std::string::npos;
}

// "run.sh: line 31:  4121 Killed   tensorboard": bash, of a command of its script.
bool IsOfShellLine(std::string_view text) {
  const std::size_t at = text.find(": line ");
  return at != std::string_view::npos && text.find(": ", at + 2) != std::string_view::npos;
}

// The signals that a launcher or a script sends to what it no longer needs.
bool IsCleaningUp(const RankEnd& end) {
  return end.signal == 15 || end.signal == 1 || end.signal == 2;
}

// Below whatever else tells of the end, but for a launcher's report of an exit code.
void Weaken(Suspect& c) {
  c.tier = Tier::kWrapper;
  c.weight = kCaughtWeight;
  c.confidence = Confidence::kSymptom;
}

class Case {
 public:
  Case(const NodeEvidence& node, const CompiledSignatures& signatures)
      : node_(node), signatures_(signatures) {}

  void TakeLog(const LogEvidence& log);
  void TakeNode();
  Verdict Decide();

 private:
  void TakeHit(const LogHit& hit, const LogEvidence& log);
  void TakeEnd(const LogHit& hit);
  void TakeEnds();
  void TellSlowFromDead();
  void ForgetWhatWasSurvived();
  void BelieveWhatGoesOn();
  bool IsSurvived(const Suspect& c) const;
  std::optional<Rank> RankOf(const Suspect& best) const;
  void Add(std::optional<Suspect> suspect);
  const Suspect* Best() const;
  bool EndsBadly() const;  // whoever says so: the node, or a launcher in the log
  bool Failed() const;
  void TakeSmi(const LogHit& hit);

  const NodeEvidence& node_;
  const CompiledSignatures& signatures_;
  std::vector<Suspect> suspects_;
  std::vector<std::string> last_lines_;
  std::optional<Rank> root_rank_;    // as the launcher reports it
  std::optional<Rank> only_end_;     // the one rank whose end is told
  std::vector<const LogHit*> ends_;  // of the log
  std::vector<std::uint64_t> busy_;
  struct Place {
    std::uint64_t offset;
    std::optional<Rank> rank;
  };
  Progress progress_;
  std::vector<Place> gpu_seen_;
  std::vector<Place> exceptions_;  // that were not survived, as far as is known
  bool survives_ = false;          // the program is one that goes on after some of its errors
  int nans_ = 0;
  const LogHit* last_nan_ = nullptr;
  bool wrapped_ = false;  // something says that something failed
};

void Case::TakeLog(const LogEvidence& log) {
  last_lines_ = log.last_lines;
  for (const LogHit& hit : log.hits) TakeHit(hit, log);
  TakeEnds();
  const bool came_back = last_nan_ != nullptr && (!EndsBadly() || IsOfEachStep(*last_nan_)) &&
                         progress_.GoesOnAt(last_nan_->offset, last_nan_->rank) < Progress::kNever;
  if (nans_ >= kNansThatStay && !came_back) suspects_.push_back(SuspectOf(*last_nan_));
  TellSlowFromDead();
  TellMismatch(suspects_);
  std::set<Rank> seen;
  for (const LogHit& hit : log.hits)
    if (hit.rank) seen.insert(*hit.rank);
  TellLate(suspects_, seen);
  TellSharedGpu(suspects_);
  DoubtCompiler(suspects_);
  BelieveWhatGoesOn();
  ForgetWhatWasSurvived();
  if (node_.driver_saw_nothing) DoubtHardware(suspects_, node_);
  if (node_.ended_by_itself) DoubtScheduler(suspects_);
  DoubtPrintedKernelLines(suspects_);
  DoubtWarningsOfGpuSoftware(suspects_);
  for (Suspect& c : suspects_) {
    // Where the run failed, and nothing but a launcher's report of an exit code tells of what, the
    // program may have been wrong in saying that it goes on.
    if (c.is_caught && c.tier == Tier::kNote && EndsBadly()) Weaken(c);
    // A script goes on behind a command that failed, unless something says that it did not.
    if (c.of_script && !EndsBadly()) c.tier = Tier::kNote;
    const bool saw_gpu = std::ranges::any_of(gpu_seen_, [&](const Place& place) {
      return place.offset < c.offset && c.offset != kOutside && MayBeOne(place.rank, c.rank);
    });
    if (saw_gpu) DoubtCpuOnly(c);
  }
}

// An error that the program caught did not end it: steps follow, and later another one. Where the
// end is not known, steps alone tell as much, and so does the end of training. A fault of the
// hardware may show in one rank while others go on printing; that and what a scheduler says are of
// an earlier attempt only where the run began again.
bool Case::IsSurvived(const Suspect& c) const {
  if (c.offset == kOutside || c.tier > Tier::kWrapper) return false;
  const std::uint64_t goes_on = progress_.GoesOnAt(c.offset, c.rank);
  const std::uint64_t anew = progress_.StartsAnewAt(c.offset);
  if (!EndsBadly()) {
    const bool of_program = c.tier >= Tier::kRoot;
    if ((of_program && goes_on < Progress::kNever) || anew < Progress::kNever) return true;
    if (progress_.IsDoneBehind(c.offset, c.rank)) return true;
    if (c.tier == Tier::kSymptom && exceptions_.empty() && progress_.IsDoneBefore(c.offset))
      return true;
  }
  const bool may_go_on = IsCause(c) || c.tier == Tier::kAuthority || c.tier == Tier::kSymptom;
  const std::uint64_t until = may_go_on ? std::min(goes_on, anew) : anew;
  if (until == Progress::kNever) return false;
  return std::ranges::any_of(suspects_, [&](const Suspect& later) {
    if (later.offset == kOutside || later.offset <= until) return false;
    if (!IsCause(later) && later.tier != Tier::kHardware) return false;
    return later.offset > anew || MayBeOne(later.rank, c.rank);
  });
}

// Of an exception the program says that it goes on, and nothing of its rank stands behind it that
// shows that it did: another exception does, and a signal that no exception ends with.
void Case::BelieveWhatGoesOn() {
  std::optional<int> signal = node_.signal;
  if (!signal && node_.exit_code) signal = DecodeExitCode(*node_.exit_code).signal;
  const bool is_killed = signal == 9 || signal == 11 || signal == 7 || signal == 4;
  for (Suspect& c : suspects_) {
    // A command that a script does not find kills nobody.
    if (is_killed && c.tier == Tier::kProgram && (c.of_script || IsOfShellLine(c.text))) Weaken(c);
    if (!c.is_unproven || c.tier >= Tier::kWrapper) continue;
    const std::uint64_t behind = c.offset + c.text.size() + kRoomInFront;
    if (std::ranges::any_of(exceptions_, [&](const Place& later) {
          return later.offset > behind && later.rank == c.rank;
        }))
      c.tier = Tier::kNote;
    else if (is_killed)
      Weaken(c);
  }
}

void Case::ForgetWhatWasSurvived() {
  std::erase_if(exceptions_, [&](const Place& e) {
    Suspect exception;
    exception.tier = Tier::kProgram;
    exception.offset = e.offset;
    exception.rank = e.rank;
    return IsSurvived(exception);
  });
  std::vector<bool> gone;
  gone.reserve(suspects_.size());
  for (const Suspect& c : suspects_) gone.push_back(IsSurvived(c));
  survives_ = std::find(gone.begin(), gone.end(), true) != gone.end();
  std::vector<Suspect> left;
  for (std::size_t i = 0; i < suspects_.size(); ++i)
    if (!gone[i]) left.push_back(std::move(suspects_[i]));
  suspects_ = std::move(left);
}

void Case::Add(std::optional<Suspect> suspect) {
  if (suspect) suspects_.push_back(std::move(*suspect));
}

void Case::TakeHit(const LogHit& hit, const LogEvidence& log) {
  switch (hit.signature->reading) {
    case Reading::kLabel:
    case Reading::kCompiler:
      suspects_.push_back(SuspectOf(hit));
      if (IsHealed(hit, log)) {
        suspects_.back().tier = Tier::kNote;
        suspects_.back().is_over = true;
      }
      break;
    case Reading::kHealed:
      break;
    case Reading::kRetry:
      suspects_.push_back(SuspectOfRetry(hit));
      break;
    case Reading::kStep:
      progress_.AddStep(hit.offset, hit.rank);
      break;
    case Reading::kRestart:
      progress_.AddRestart(hit.offset);
      break;
    case Reading::kGpuSeen:
      gpu_seen_.push_back({hit.offset, hit.rank});
      break;
    case Reading::kDone:
      progress_.AddDone(hit.offset, hit.rank);
      break;
    case Reading::kOom:
      Add(SuspectOfOom(hit, node_.expandable_segments));
      break;
    case Reading::kXid:
      Add(SuspectOfXid(hit));
      break;
    case Reading::kException:
    case Reading::kTraceback:
      if (IsException(hit) && (hit.is_unproven || (!hit.is_caught && !SaysItGoesOn(hit.text))))
        exceptions_.push_back({hit.offset, hit.rank});
      Add(SuspectOfException(hit, log));
      break;
    case Reading::kRankEnd:
      TakeEnd(hit);
      break;
    case Reading::kSmi:
      TakeSmi(hit);
      break;
    case Reading::kBusy:
      busy_.push_back(hit.offset);
      break;
    case Reading::kNan:
      ++nans_;
      last_nan_ = &hit;
      break;
  }
}

// nvidia-smi in the log: much memory used, nothing computes, and no process of ours is listed.
void Case::TakeSmi(const LogHit& hit) {
  const SmiReading smi = ReadSmi(hit.context);
  if (!smi.held_by_nobody) return;
  Suspect c = SuspectOf(hit);
  c.text = smi.line;
  c.tells_without_failure = true;
  suspects_.push_back(std::move(c));
}

void Case::TakeEnd(const LogHit& hit) { ends_.push_back(&hit); }

// Once a launcher says who failed first, the ends of the others are its own doing: torchrun sends
// SIGTERM to those that are well. Ends of an attempt that was followed by another one, and what is
// stopped behind the end of training, are no end of this run; nor is what a script started beside
// the training, which goes on.
void Case::TakeEnds() {
  const bool told = node_.signal.has_value() || (node_.exit_code && *node_.exit_code != 0);
  std::erase_if(ends_, [&](const LogHit* hit) {
    return progress_.StartsAnewAt(hit->offset) < Progress::kNever ||
           (!told && IsCleaningUp(*hit->end) && progress_.IsDoneBefore(hit->offset)) ||
           (!told && IsOfShellLine(hit->text) &&
            progress_.GoesOnAt(hit->offset, hit->rank) < Progress::kNever);
  });
  wrapped_ = !ends_.empty();
  std::set<Rank> named;
  for (const LogHit* hit : ends_) {
    if (hit->end->root && hit->end->rank) root_rank_ = hit->end->rank;
    if (hit->end->rank) named.insert(*hit->end->rank);
  }
  if (named.size() == 1) only_end_ = *named.begin();
  for (const LogHit* hit : ends_) {
    if (root_rank_ && hit->end->rank && hit->end->rank != root_rank_) continue;
    Add(SuspectOfEnd(*hit->end, hit->offset, hit->text));
  }
  ends_.clear();
}

// A collective that timed out while a rank was busy in front of it.
void Case::TellSlowFromDead() {
  for (Suspect& c : suspects_) {
    if (c.label != "nccl_timeout" || c.tier != Tier::kSymptom) continue;
    if (std::none_of(busy_.begin(), busy_.end(), [&](std::uint64_t at) {
          return at <= c.offset && c.offset - at <= kBusyBefore;
        }))
      continue;
    c.label = "nccl_timeout_slow_rank";
    c.weight += 1;
  }
}

void Case::TakeNode() {
  std::string kernel;
  for (const std::string& line : node_.kernel_lines) kernel += line + "\n";
  if (!kernel.empty()) {
    LogScanner scanner(signatures_);
    scanner.Feed(kernel);
    const LogEvidence lines = scanner.Finish();
    const std::size_t before = suspects_.size();
    for (const LogHit& hit : lines.hits)
      if (hit.signature->tier <= Tier::kRoot || hit.signature->tier == Tier::kNote)
        TakeHit(hit, lines);
    for (std::size_t i = before; i < suspects_.size(); ++i) {
      suspects_[i].confidence = Confidence::kConfirmed;
      suspects_[i].rank = node_.rank;
      suspects_[i].of_node = true;
      suspects_[i].text = std::string(kKernel) + suspects_[i].text;
      // The kernel's lines do not say whether the program failed before the server answered.
      if (!suspects_[i].is_over) continue;
      suspects_[i].confidence = Confidence::kSymptom;
      suspects_[i].tier = EndsBadly() ? Tier::kSymptom : Tier::kNote;
      suspects_[i].weight = kOutageWeight;
    }
  }
  for (const int code : node_.xids) Add(SuspectOfXid(code, node_.rank));
  if (node_.oom_kills > 0) {
    const bool worker = std::any_of(suspects_.begin(), suspects_.end(), [](const Suspect& c) {
      return c.label == "dataloader_worker_killed";
    });
    suspects_.push_back(SuspectOfOomKills(node_, worker));
  }
  if (node_.gpu_foreign && node_.gpu_total && *node_.gpu_foreign > *node_.gpu_total / 4) {
    for (Suspect& c : suspects_) {
      if (c.label != "cuda_oom" && c.label != "cuda_oom_foreign_process") continue;
      c.label = "cuda_oom_foreign_process";
      c.confidence = Confidence::kConfirmed;
      c.cause = "Other processes hold " + FormatBytes(*node_.gpu_foreign) + " of the GPU's " +
                FormatBytes(*node_.gpu_total);
      c.remedy.clear();
    }
  }
  std::optional<int> signal = node_.signal;
  RankEnd end;
  if (signal) end.signal = signal;
  if (!signal && node_.exit_code) end = DecodeExitCode(*node_.exit_code);
  end.rank = node_.rank;
  if (end.signal) {
    Add(SuspectOfEnd(end, kOutside, "ended by signal " + std::to_string(*end.signal)));
  }
}

const Suspect* Case::Best() const {
  const Suspect* best = nullptr;
  for (const Suspect& c : suspects_) {
    // A note is a verdict only where something failed, or where it is about the GPU's health.
    const bool is_note = c.tier == Tier::kNote || (c.tier >= Tier::kSymptom && c.only_warns);
    if (is_note && !Failed() && !c.tells_without_failure) continue;
    if (best == nullptr) {
      best = &c;
      continue;
    }
    if (c.tier != best->tier) {
      if (c.tier < best->tier) best = &c;
      continue;
    }
    const bool root = root_rank_ && c.rank == root_rank_;
    const bool best_root = root_rank_ && best->rank == root_rank_;
    if (c.tier == Tier::kProgram && root != best_root) {
      if (root) best = &c;
      continue;
    }
    if (c.weight != best->weight) {
      if (c.weight > best->weight) best = &c;
      continue;
    }
    // Between ranks the first to fail is the cause; a program that went on after its errors ended
    // with the last one.
    const bool last = survives_ && c.tier == Tier::kProgram && MayBeOne(c.rank, best->rank);
    if (last ? c.offset > best->offset : c.offset < best->offset) best = &c;
  }
  return best;
}

bool Case::EndsBadly() const {
  return node_.signal.has_value() || (node_.exit_code && *node_.exit_code != 0) || wrapped_;
}

// A message without a rank is of the one whose causes the rest of the log tells, if there is but
// one, or of the one whose end is told. srun counts its tasks, which may be launchers.
std::optional<Rank> Case::RankOf(const Suspect& best) const {
  if (best.rank && !(root_rank_ && best.text.starts_with("srun: "))) return best.rank;
  if (root_rank_) return root_rank_;
  if (node_.rank) return node_.rank;
  std::set<Rank> ranks;
  for (const Suspect& c : suspects_)
    if (c.rank && c.offset != kOutside && c.tier <= Tier::kProgram) ranks.insert(*c.rank);
  if (ranks.size() == 1) return *ranks.begin();
  return ranks.empty() ? only_end_ : std::nullopt;
}

bool Case::Failed() const { return EndsBadly() || !exceptions_.empty(); }

Verdict Case::Decide() {
  const Suspect* best = Best();
  Verdict verdict = best != nullptr ? VerdictOfLabel(best->label, best->confidence)
                                    : VerdictOfLabel(Failed() ? "unknown" : "none", {});
  verdict.node = node_.node;
  verdict.rank = root_rank_ ? root_rank_ : node_.rank;
  if (best == nullptr) {
    if (!node_.ended.empty()) verdict.evidence.push_back(node_.ended);
    if (Failed() && node_.ended.empty() && node_.exit_code)
      verdict.evidence.push_back("exit code " + std::to_string(*node_.exit_code));
    if (Failed())
      for (const std::string& line : last_lines_)
        verdict.evidence.push_back("last output: " + line);
    return verdict;
  }
  if (best->tier == Tier::kSymptom && verdict.confidence == Confidence::kLikely)
    verdict.confidence = Confidence::kSymptom;
  const bool kernel_too = std::ranges::any_of(
      suspects_, [&](const Suspect& c) { return c.label == best->label && c.of_node; });
  if (verdict.confidence == Confidence::kLikely && (kernel_too || NodeConfirms(*best, node_)))
    verdict.confidence = Confidence::kConfirmed;
  verdict.rank = RankOf(*best);
  if (!best->cause.empty()) verdict.cause = best->cause;
  // Of a chain of exceptions the first is the better cause, but not what the program ended with.
  const bool chained = std::any_of(suspects_.begin(), suspects_.end(), [&](const Suspect& c) {
    return c.label == "python_exception" && c.offset != kOutside && c.offset > best->offset &&
           c.rank == best->rank && c.text != best->text;
  });
  if (chained && verdict.cause.starts_with(kEndedWith) && best->label == "python_exception")
    verdict.cause.replace(0, kEndedWith.size(), "Its first exception was ");
  if (!best->remedy.empty()) verdict.remedy = best->remedy;
  if (!best->action.empty()) verdict.action = best->action;
  verdict.numbers = best->numbers;
  verdict.changes = best->changes;
  if (best->label == "dataloader_worker_killed" || best->label == "host_oom_kill")
    verdict.changes = {"num_workers: at most 2", "pin_memory: false"};
  // The line itself, then other lines of the same label, then how the rank ended.
  verdict.evidence.push_back(best->text);
  const auto add = [&](const std::string& text) {
    if (verdict.evidence.size() >= kMostEvidence || text.empty()) return;
    if (std::find(verdict.evidence.begin(), verdict.evidence.end(), text) == verdict.evidence.end())
      verdict.evidence.push_back(text);
  };
  if (best->label == "activation_failed") {
    for (const std::string& line : last_lines_)
      if (line != best->text) add("last output: " + line);
  }
  for (const Suspect& c : suspects_)
    if (c.label == best->label) add(c.text);
  for (const Suspect& c : suspects_)
    if (c.offset == kOutside) add(c.text);
  add(node_.ended);
  return verdict;
}

// Of what we know from outside the log.
Verdict Sure(std::string_view label, std::string cause, const NodeEvidence& node) {
  Verdict verdict = VerdictOfLabel(label, Confidence::kConfirmed);
  verdict.rank = node.rank;
  verdict.node = node.node;
  verdict.cause = std::move(cause);
  return verdict;
}

}  // namespace

std::optional<Verdict> VerdictOfOurKill(OurKill kill) {
  const auto verdict = [](std::string_view label, std::string cause) {
    return Sure(label, std::move(cause), NodeEvidence());
  };
  switch (kill) {
    case OurKill::kCancel:
      return verdict("none", "The job was cancelled");
    case OurKill::kPeerFailed:
      return verdict("none", "The rank was ended because another one had failed");
    case OurKill::kTimeLimit:
      return verdict("time_limit", "The job reached its time limit");
    case OurKill::kPreempt:
      return verdict("preempted_signal",
                     "The job was preempted or requeued: it was stopped to run again");
    case OurKill::kNone:
      break;
  }
  return std::nullopt;
}

Verdict Judge(const LogEvidence& log, const NodeEvidence& node,
              const CompiledSignatures& signatures) {
  if (auto ours = VerdictOfOurKill(node.our_kill)) {
    ours->rank = node.rank;
    ours->node = node.node;
    return *std::move(ours);
  }
  if (!node.signal && node.exit_code && *node.exit_code == 0)
    return Sure("none", std::string(kEndedWith) + "exit code 0", node);
  Case the_case(node, signatures);
  the_case.TakeLog(log);
  the_case.TakeNode();
  return the_case.Decide();
}

Verdict Diagnose(std::string_view log, const NodeEvidence& node,
                 const CompiledSignatures& signatures) {
  LogScanner scanner(signatures);
  scanner.Feed(log);
  return Judge(scanner.Finish(), node, signatures);
}

bool IsFailure(const Verdict& verdict) { return verdict.label != "none"; }

}  // namespace launch
