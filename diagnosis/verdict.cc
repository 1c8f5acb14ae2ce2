#include "diagnosis/verdict.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/units.h"
#include "diagnosis/cuda_oom.h"
#include "diagnosis/labels.h"
#include "diagnosis/rank_end.h"
#include "diagnosis/smi_table.h"
#include "diagnosis/xid.h"

namespace launch {
namespace {

constexpr std::size_t kMostEvidence = 5;
constexpr std::uint64_t kBusyBefore = 2000;  // bytes: the last thing said before the timeout
constexpr int kNansThatStay = 2;
constexpr std::size_t kWrappedAt = 40;   // a shorter line was not wrapped
constexpr std::size_t kPrefixRoom = 24;  // a rank's prefix in front of the line
constexpr std::uint64_t kOutside = std::numeric_limits<std::uint64_t>::max();

struct Candidate {
  std::string label;
  Tier tier = Tier::kWrapper;
  int weight = 0;
  Confidence confidence = Confidence::kLikely;
  std::uint64_t offset = 0;
  std::optional<Rank> rank;
  std::string text;
  std::string cause;
  std::string remedy;
  std::string action;
  bool tells_without_failure = false;
  std::map<std::string, double> numbers;
  std::vector<std::string> changes;
};

// Exceptions that only pass on that something else failed.
constexpr std::string_view kEchoes[] = {"ChildFailedError",       "CalledProcessError",
                                        "SignalException",        "ProcessRaisedException",
                                        "ProcessExitedException", "BrokenPipeError",
                                        "ConnectionResetError",   "EOFError",
                                        "KeyboardInterrupt",      "SystemExit",
                                        "DistBackendError",       "DistNetworkError",
                                        "DistStoreError",         "ConnectionRefusedError",
                                        "ConnectionAbortedError", "RayTaskError",
                                        "WorkerCrashedError",     "RayActorError",
                                        "ActorDiedError",         "CancelledError",
                                        "TaskFailedError"};

// Classes whose name is the cause, for a traceback without a text of the table.
struct ClassLabel {
  std::string_view name;
  std::string_view label;
};
constexpr ClassLabel kClasses[] = {{"ModuleNotFoundError", "python_import"},
                                   {"ImportError", "python_import"},
                                   {"FileNotFoundError", "file_not_found"},
                                   {"NotADirectoryError", "file_not_found"},
                                   {"PermissionError", "permission"},
                                   {"MemoryError", "host_oom_kill"},
                                   {"UnpicklingError", "checkpoint_corrupt"},
                                   {"BadZipFile", "checkpoint_corrupt"},
                                   {"CUDAMismatchException", "toolkit_mismatch"}};

std::string_view LastName(std::string_view qualified) {
  const std::size_t dot = qualified.rfind('.');
  return dot == std::string_view::npos ? qualified : qualified.substr(dot + 1);
}

bool IsEcho(std::string_view name) {
  return std::find(std::begin(kEchoes), std::end(kEchoes), name) != std::end(kEchoes);
}

// "\1" and "\2" in a cause.
std::string Filled(std::string_view cause, const LogHit& hit) {
  std::string text;
  for (std::size_t i = 0; i < cause.size(); ++i) {
    if (cause[i] == '\\' && i + 1 < cause.size() && (cause[i + 1] == '1' || cause[i + 1] == '2')) {
      text += cause[++i] == '1' ? hit.first : hit.second;
    } else {
      text += cause[i];
    }
  }
  return text;
}

Candidate Of(const LogHit& hit) {
  Candidate c;
  c.label = hit.signature->label;
  c.tier = hit.signature->tier;
  c.weight = hit.signature->weight;
  c.confidence = hit.signature->confidence;
  c.offset = hit.offset;
  c.rank = hit.rank;
  c.text = hit.text;
  c.cause = Filled(hit.signature->cause, hit);
  c.action = hit.signature->action;
  c.tells_without_failure = c.label == "gpu_remap_pending";
  return c;
}

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
  void TakeOom(const LogHit& hit);
  void TakeXid(const LogHit& hit);
  void TakeException(const LogHit& hit, const LogEvidence& log);
  void TakeEnd(const LogHit& hit);
  void TellSlowFromDead();
  void AddEnd(const RankEnd& end, std::uint64_t offset, const std::string& text);
  const Candidate* Best() const;
  bool Failed() const;
  void TakeSmi(const LogHit& hit);

  const NodeEvidence& node_;
  const CompiledSignatures& signatures_;
  std::vector<Candidate> candidates_;
  std::optional<Rank> root_rank_;  // as the launcher reports it
  std::vector<std::uint64_t> busy_;
  int nans_ = 0;
  const LogHit* last_nan_ = nullptr;
  bool wrapped_ = false;  // something says that something failed
};

void Case::TakeLog(const LogEvidence& log) {
  for (const LogHit& hit : log.hits) TakeHit(hit, log);
  if (nans_ >= kNansThatStay) candidates_.push_back(Of(*last_nan_));
  TellSlowFromDead();
}

void Case::TakeHit(const LogHit& hit, const LogEvidence& log) {
  switch (hit.signature->reading) {
    case Reading::kLabel:
      candidates_.push_back(Of(hit));
      break;
    case Reading::kOom:
      TakeOom(hit);
      break;
    case Reading::kXid:
      TakeXid(hit);
      break;
    case Reading::kException:
    case Reading::kTraceback:
      TakeException(hit, log);
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

void Case::TakeOom(const LogHit& hit) {
  const auto known = [](const OomNumbers& n) {
    return (n.tried ? 1 : 0) + (n.total ? 1 : 0) + (n.free ? 1 : 0) + (n.allocated ? 1 : 0) +
           (n.unallocated ? 1 : 0) + (n.process ? 1 : 0);
  };
  OomNumbers numbers = ReadOomNumbers(hit.context);
  const OomNumbers glued = ReadOomNumbers(hit.second);
  if (known(glued) > known(numbers)) numbers = glued;
  const OomVerdict oom = JudgeOom(numbers, PhaseOfOom(hit.frames), node_.expandable_segments);
  Candidate c = Of(hit);
  c.label = oom.label;
  c.cause = oom.cause;
  c.remedy = oom.remedy;
  c.numbers = oom.numbers;
  c.changes = oom.changes;
  // The message with its numbers tells more than an echo of it without.
  c.weight += std::min(known(numbers), 4);
  candidates_.push_back(std::move(c));
}

void Case::TakeXid(const LogHit& hit) {
  const bool kernel = !hit.second.empty();  // captures: PCI address, number
  const auto code = ParseInt(kernel ? hit.second : hit.first);
  if (!code) return;
  const XidMeaning meaning = MeaningOfXid(static_cast<int>(*code));
  if (meaning.label.empty()) return;
  Candidate c = Of(hit);
  c.label = meaning.label;
  c.cause = "Xid " + std::to_string(*code) + ": " + std::string(meaning.says) +
            (kernel ? " (GPU " + hit.first + ")" : std::string());
  if (c.label == "gpu_remap_pending") c.tier = Tier::kNote, c.tells_without_failure = true;
  if (c.label == "xid_app_fault") c.tier = Tier::kRoot, c.weight = 50;
  if (*code == 154) c.weight = 40;  // repeats what an earlier Xid said
  candidates_.push_back(std::move(c));
}

// nvidia-smi in the log: much memory used, nothing computes, and no process of ours is listed.
void Case::TakeSmi(const LogHit& hit) {
  const SmiReading smi = ReadSmi(hit.context);
  if (!smi.held_by_nobody) return;
  Candidate c = Of(hit);
  c.text = smi.line;
  c.tells_without_failure = true;
  candidates_.push_back(std::move(c));
}

void Case::TakeException(const LogHit& hit, const LogEvidence& log) {
  const std::string_view name = LastName(hit.first);
  if (name.empty() || name == "Warning") return;
  const auto ends_with = [&](std::string_view tail) {
    return name.size() > tail.size() && name.substr(name.size() - tail.size()) == tail;
  };
  if (ends_with("Warning")) return;
  wrapped_ = true;
  if (IsEcho(name)) return;
  // A message that another row of the table reads is theirs, also where it was wrapped: the line
  // stops in the middle of its sentence and the next one goes on.
  const bool stops = hit.second.empty() ||
                     (hit.text.size() >= kWrappedAt &&
                      std::string_view(".!?)'\"").find(hit.text.back()) == std::string_view::npos);
  const std::uint64_t reach = stops ? hit.text.size() + kPrefixRoom : 0;
  const bool read = std::any_of(log.hits.begin(), log.hits.end(), [&](const LogHit& other) {
    return other.offset >= hit.offset && other.offset <= hit.offset + reach &&
           !other.signature->label.empty() && other.signature->label != "python_exception" &&
           other.signature->tier != Tier::kNote;
  });
  if (read) return;
  Candidate c = Of(hit);
  for (const ClassLabel& known : kClasses)
    if (name == known.name) c.label = known.label, c.weight = 57;
  if (c.label == "python_exception") {
    c.cause = "The program ended with " + std::string(name);
    if (!hit.second.empty()) c.cause += ": " + hit.second.substr(0, 160);
    if (!hit.context.empty()) c.remedy = "correct the program at " + hit.context.substr(0, 200);
  }
  candidates_.push_back(std::move(c));
}

void Case::TakeEnd(const LogHit& hit) {
  wrapped_ = true;
  if (hit.end->root && hit.end->rank) root_rank_ = hit.end->rank;
  AddEnd(*hit.end, hit.offset, hit.text);
}

// What an end alone tells; weaker than anything a log says about the cause.
void Case::AddEnd(const RankEnd& end, std::uint64_t offset, const std::string& text) {
  if (!end.signal && end.exit_code != 1) return;
  Candidate c;
  c.tier = Tier::kWrapper;
  c.offset = offset;
  c.rank = end.rank;
  c.text = text;
  c.weight = end.root ? 65 : 60;
  if (!end.signal) {
    // From a launcher's report only: a bare exit code 1 of the job says less.
    if (offset == kOutside) return;
    c.label = "python_exception";
    c.confidence = Confidence::kSymptom;
    c.cause = "A rank ended with exit code 1; its own traceback is not in this log";
    c.weight = 30;
    candidates_.push_back(std::move(c));
    return;
  }
  switch (*end.signal) {
    case 9:
      c.label = "sigkill_unknown";
      c.confidence = Confidence::kUnknown;
      c.weight += 10;
      break;
    case 11:
      c.label = "segfault";
      c.weight += 12;
      break;
    case 7:
      c.label = "shm_bus_error";
      c.weight += 12;
      break;
    case 1:
      c.label = "preempted_signal";
      c.cause = "The process got SIGHUP: its terminal was closed";
      break;
    case 2:
      c.label = "preempted_signal";
      c.cause = "The process was interrupted from the keyboard (SIGINT)";
      c.confidence = Confidence::kSymptom;
      break;
    case 15:
      c.label = "preempted_signal";
      c.cause = "The process got SIGTERM from outside";
      c.confidence = Confidence::kSymptom;
      c.weight -= 20;  // most often the launcher's own cleaning up
      break;
    default:
      return;
  }
  candidates_.push_back(std::move(c));
}

// A collective that timed out while a rank was busy in front of it.
void Case::TellSlowFromDead() {
  for (Candidate& c : candidates_) {
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
    const std::size_t before = candidates_.size();
    for (const LogHit& hit : lines.hits)
      if (hit.signature->tier <= Tier::kRoot || hit.signature->tier == Tier::kNote)
        TakeHit(hit, lines);
    for (std::size_t i = before; i < candidates_.size(); ++i) {
      candidates_[i].confidence = Confidence::kConfirmed;
      candidates_[i].rank = node_.rank;
      candidates_[i].text = "kernel: " + candidates_[i].text;
    }
  }
  for (const int code : node_.xids) {
    const XidMeaning meaning = MeaningOfXid(code);
    if (meaning.label.empty()) continue;
    Candidate c;
    c.label = meaning.label;
    c.tier = c.label == "xid_app_fault"       ? Tier::kRoot
             : c.label == "gpu_remap_pending" ? Tier::kNote
                                              : Tier::kHardware;
    c.weight = 50;
    c.tells_without_failure = c.tier == Tier::kNote;
    c.confidence = Confidence::kConfirmed;
    c.rank = node_.rank;
    c.cause = "Xid " + std::to_string(code) + ": " + std::string(meaning.says);
    c.text = "NVML: Xid " + std::to_string(code);
    candidates_.push_back(std::move(c));
  }
  if (node_.oom_kills > 0) {
    const bool worker = std::any_of(candidates_.begin(), candidates_.end(), [](const Candidate& c) {
      return c.label == "dataloader_worker_killed";
    });
    Candidate c;
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
    candidates_.push_back(std::move(c));
  }
  if (node_.gpu_foreign && node_.gpu_total && *node_.gpu_foreign > *node_.gpu_total / 4) {
    for (Candidate& c : candidates_) {
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
  if (end.signal) AddEnd(end, kOutside, "ended by signal " + std::to_string(*end.signal));
}

const Candidate* Case::Best() const {
  const Candidate* best = nullptr;
  for (const Candidate& c : candidates_) {
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
  const Candidate* best = Best();
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
  for (const Candidate& c : candidates_)
    if (c.label == best->label) add(c.text);
  for (const Candidate& c : candidates_)
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
