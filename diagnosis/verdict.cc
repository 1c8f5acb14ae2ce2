#include "diagnosis/verdict.h"

#include <algorithm>

#include "common/units.h"
#include "diagnosis/labels.h"
#include "diagnosis/rank_end.h"
#include "diagnosis/smi_table.h"
#include "diagnosis/suspects.h"

namespace launch {
namespace {

constexpr std::size_t kMostEvidence = 5;
constexpr std::uint64_t kBusyBefore = 2000;  // bytes: the last thing said before the timeout
constexpr int kNansThatStay = 2;

// Whether the node had no memory left, not the job. Counters of cgroups count both. mm/oom_kill.c
// names the constraint; without its lines a job well below its limit tells as much.
bool OfTheWholeNode(const NodeEvidence& node) {
  for (const std::string& line : node.kernel_lines) {
    if (line.find("constraint=CONSTRAINT_MEMCG") != std::string::npos) return false;
    if (line.find("Memory cgroup out of memory") != std::string::npos) return false;
    if (line.find("constraint=CONSTRAINT_NONE") != std::string::npos) return true;
    if (line.find("Out of memory: Killed process") != std::string::npos) return true;
  }
  return node.host_limit && node.host_peak && *node.host_peak < *node.host_limit / 10 * 9;
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
  void TellSlowFromDead();
  void Add(std::optional<Suspect> suspect);
  const Suspect* Best() const;
  bool Failed() const;
  void TakeSmi(const LogHit& hit);

  const NodeEvidence& node_;
  const CompiledSignatures& signatures_;
  std::vector<Suspect> suspects_;
  std::optional<Rank> root_rank_;  // as the launcher reports it
  std::vector<std::uint64_t> busy_;
  int nans_ = 0;
  const LogHit* last_nan_ = nullptr;
  bool wrapped_ = false;  // something says that something failed
};

void Case::TakeLog(const LogEvidence& log) {
  for (const LogHit& hit : log.hits) TakeHit(hit, log);
  if (nans_ >= kNansThatStay) suspects_.push_back(SuspectOf(*last_nan_));
  TellSlowFromDead();
}

void Case::Add(std::optional<Suspect> suspect) {
  if (suspect) suspects_.push_back(std::move(*suspect));
}

void Case::TakeHit(const LogHit& hit, const LogEvidence& log) {
  switch (hit.signature->reading) {
    case Reading::kLabel:
      suspects_.push_back(SuspectOf(hit));
      break;
    case Reading::kOom:
      Add(SuspectOfOom(hit, node_.expandable_segments));
      break;
    case Reading::kXid:
      Add(SuspectOfXid(hit));
      break;
    case Reading::kException:
    case Reading::kTraceback:
      wrapped_ = wrapped_ || IsException(hit);
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

void Case::TakeEnd(const LogHit& hit) {
  wrapped_ = true;
  if (hit.end->root && hit.end->rank) root_rank_ = hit.end->rank;
  Add(SuspectOfEnd(*hit.end, hit.offset, hit.text));
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
      suspects_[i].text = "kernel: " + suspects_[i].text;
    }
  }
  for (const int code : node_.xids) Add(SuspectOfXid(code, node_.rank));
  if (node_.oom_kills > 0) {
    const bool worker = std::any_of(suspects_.begin(), suspects_.end(), [](const Suspect& c) {
      return c.label == "dataloader_worker_killed";
    });
    Suspect c;
    c.label = worker ? "dataloader_worker_killed" : "host_oom_kill";
    c.tier = Tier::kAuthority;
    c.weight = 80;
    c.confidence = Confidence::kConfirmed;
    c.rank = node_.rank;
    c.offset = kOutside;
    c.text = "cgroup: oom_kill " + std::to_string(node_.oom_kills);
    if (OfTheWholeNode(node_)) {
      c.cause = "The node ran out of memory, and the kernel chose " +
                std::string(worker ? "a data loader worker" : "the process") +
                (node_.host_limit
                     ? "; the job was below its own limit of " + FormatBytes(*node_.host_limit)
                     : "");
    } else if (node_.host_limit)
      c.cause = "The job reached its memory limit of " + FormatBytes(*node_.host_limit) +
                ", and the kernel killed " + (worker ? "a data loader worker" : "the process");
    suspects_.push_back(std::move(c));
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
    if (c.tier == Tier::kNote && !Failed() && !c.tells_without_failure) continue;
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
    if (c.offset < best->offset) best = &c;
  }
  return best;
}

bool Case::Failed() const {
  return node_.signal.has_value() || (node_.exit_code && *node_.exit_code != 0) || wrapped_;
}

Verdict Case::Decide() {
  Verdict verdict;
  verdict.node = node_.node;
  verdict.rank = root_rank_ ? root_rank_ : node_.rank;
  const Suspect* best = Best();
  if (best == nullptr) {
    const LabelInfo& info = LabelInfoOf(Failed() ? "unknown" : "none");
    verdict.label = info.label;
    verdict.action = info.action;
    verdict.cause = info.cause;
    verdict.remedy = info.remedy;
    if (!node_.ended.empty()) verdict.evidence.push_back(node_.ended);
    if (Failed() && node_.ended.empty() && node_.exit_code)
      verdict.evidence.push_back("exit code " + std::to_string(*node_.exit_code));
    return verdict;
  }
  const LabelInfo& info = LabelInfoOf(best->label);
  verdict.label = best->label;
  verdict.confidence = best->confidence;
  if (best->tier == Tier::kSymptom && verdict.confidence == Confidence::kLikely)
    verdict.confidence = Confidence::kSymptom;
  if (best->rank) verdict.rank = best->rank;
  verdict.cause = best->cause.empty() ? std::string(info.cause) : best->cause;
  verdict.remedy = best->remedy.empty() ? std::string(info.remedy) : best->remedy;
  verdict.action = best->action.empty() ? std::string(info.action) : best->action;
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
  for (const Suspect& c : suspects_)
    if (c.label == best->label) add(c.text);
  for (const Suspect& c : suspects_)
    if (c.offset == kOutside) add(c.text);
  add(node_.ended);
  return verdict;
}

Verdict Simple(std::string_view label, Confidence confidence, std::string cause,
               const NodeEvidence& node) {
  const LabelInfo& info = LabelInfoOf(label);
  Verdict verdict;
  verdict.label = info.label;
  verdict.confidence = confidence;
  verdict.rank = node.rank;
  verdict.node = node.node;
  verdict.cause = std::move(cause);
  verdict.remedy = info.remedy;
  verdict.action = info.action;
  return verdict;
}

}  // namespace

Verdict Judge(const LogEvidence& log, const NodeEvidence& node,
              const CompiledSignatures& signatures) {
  switch (node.our_kill) {
    case OurKill::kCancel:
      return Simple("none", Confidence::kConfirmed, "The job was cancelled", node);
    case OurKill::kPeerFailed:
      return Simple("none", Confidence::kConfirmed,
                    "The rank was ended because another one had failed", node);
    case OurKill::kTimeLimit:
      return Simple("preempted_signal", Confidence::kConfirmed, "The job reached its time limit",
                    node);
    case OurKill::kPreempt:
      return Simple("preempted_signal", Confidence::kConfirmed,
                    "The job was preempted by one of higher priority", node);
    case OurKill::kNone:
      break;
  }
  if (!node.signal && node.exit_code && *node.exit_code == 0)
    return Simple("none", Confidence::kConfirmed, "The program ended with exit code 0", node);
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
