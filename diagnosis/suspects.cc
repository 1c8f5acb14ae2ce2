#include "diagnosis/suspects.h"

#include <algorithm>

#include "common/units.h"
#include "diagnosis/cuda_oom.h"
#include "diagnosis/in_passing.h"
#include "diagnosis/xid.h"

namespace launch {
namespace {

constexpr std::size_t kWrappedAt = 40;   // a shorter line was not wrapped
constexpr std::size_t kPrefixRoom = 24;  // a rank's prefix in front of the line

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
                                        "TaskFailedError",        "UnexpectedStatusException",
                                        "ExecuteUserScriptError", "AlgorithmError",
                                        "GetTimeoutError"};

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

// What torch's allocator and its sockets print of the very error.
bool IsOfItsLibrary(std::string_view text) {
  return text.find("Tried to allocate") != std::string_view::npos ||
         text.find("[c10d]") != std::string_view::npos;
}

}  // namespace

Suspect SuspectOf(const LogHit& hit) {
  Suspect c;
  c.label = hit.signature->label;
  c.tier = hit.signature->tier;
  c.weight = hit.signature->weight;
  c.confidence = hit.signature->confidence;
  c.offset = hit.offset;
  c.rank = hit.rank;
  c.text = hit.text;
  c.cause = Filled(hit.signature->cause, hit);
  c.action = hit.signature->action;
  c.remedy = hit.signature->remedy;
  const bool of_log = c.tier != Tier::kHardware && c.tier < Tier::kWrapper;
  // A scheduler's word stands, whatever it calls it.
  if (hit.warns && c.tier > Tier::kHardware && c.tier < Tier::kWrapper &&
      IsMeantByWarning(c.label) && !IsOfItsLibrary(hit.text)) {
    c.tier = Tier::kNote;
    c.confidence = Confidence::kSymptom;
  }
  if (of_log && hit.signature->reading != Reading::kNan &&
      (hit.is_caught || IsInPassing(hit.text, c.label)) && !hit.is_unproven)
    c.tier = Tier::kNote;
  c.tells_without_failure = c.label == "gpu_remap_pending";
  c.is_caught = hit.is_caught;
  c.is_unproven = hit.is_unproven;
  c.of_script = hit.of_script;
  c.of_compiler = hit.signature->reading == Reading::kCompiler;
  c.only_warns = hit.text.starts_with("[W");  // c10's logging
  return c;
}

Suspect SuspectOfRetry(const LogHit& hit) {
  Suspect c = SuspectOf(hit);
  c.only_warns = true;
  const bool is_last = hit.first == hit.second;
  c.tier = is_last ? hit.signature->tier : Tier::kNote;
  c.confidence = Confidence::kSymptom;
  return c;
}

Suspect SuspectOfOom(const LogHit& hit, bool expandable_segments) {
  const auto known = [](const OomNumbers& n) {
    return (n.tried ? 1 : 0) + (n.total ? 1 : 0) + (n.free ? 1 : 0) + (n.allocated ? 1 : 0) +
           (n.unallocated ? 1 : 0) + (n.process ? 1 : 0);
  };
  OomNumbers numbers = ReadOomNumbers(hit.context);
  const OomNumbers glued = ReadOomNumbers(hit.second);
  if (known(glued) > known(numbers)) numbers = glued;
  if (known(numbers) == 0) numbers = ReadOomNumbers(hit.first);
  const OomVerdict oom = JudgeOom(numbers, PhaseOfOom(hit.frames), expandable_segments);
  Suspect c = SuspectOf(hit);
  c.label = oom.label;
  c.cause = oom.cause;
  c.remedy = oom.remedy;
  c.numbers = oom.numbers;
  c.changes = oom.changes;
  // Remedies that fit neither: Apple's GPUs, where DeepSpeed does not run, and vLLM's cache.
  if (hit.text.find("MPS backend") != std::string::npos ||
      hit.text.find("[METAL]") != std::string::npos) {
    c.remedy =
        "halve the micro-batch and double gradient accumulation; 16-bit precision, activation "
        "checkpointing; other programs share this memory: close them";
  } else if (hit.text.find("for the cache blocks") != std::string::npos) {
    c.remedy =
        "raise gpu_memory_utilization of vLLM, or leave it more of the GPU (trainer and vLLM "
        "share it), a shorter max_model_len, more tensor parallelism";
    c.changes.clear();
  }
  // torch/_inductor/select_algorithm.py leaves out what does not fit while it tunes; finders of
  // batch sizes go on with a smaller one.
  for (const std::string_view mark :
       {"gnoring this choice", "Finished batch size finder", "trying batch size ",
        "Decreasing batch size to", "microbatch size will be decreased"})
    if (hit.context.find(mark) != std::string::npos) c.tier = Tier::kNote;
  // The message with its numbers tells more than an echo of it without.
  c.weight += std::min(known(numbers), 4);
  // cudaHostAlloc says the same of the host's memory, and never any numbers.
  const auto pins = [](const std::string& text) {
    return text.find("pin_memory") != std::string::npos ||
           text.find("pin memory thread") != std::string::npos ||
           text.find("bytes on host: CUDA_ERROR") != std::string::npos;  // TensorFlow's pool
  };
  if (known(numbers) == 0 && (pins(hit.frames) || pins(hit.text))) {
    c.label = "host_oom_kill";
    c.cause = "The host could not give the process page-locked (pinned) memory";
    c.remedy.clear();
    c.changes.clear();
  }
  return c;
}

std::optional<Suspect> SuspectOfXid(const LogHit& hit) {
  const bool kernel = !hit.second.empty();  // captures: PCI address, number
  const auto code = ParseInt(kernel ? hit.second : hit.first);
  if (!code) return std::nullopt;
  const XidMeaning meaning = MeaningOfXid(static_cast<int>(*code));
  if (meaning.label.empty()) return std::nullopt;
  Suspect c = SuspectOf(hit);
  c.label = meaning.label;
  c.cause = "Xid " + std::to_string(*code) + ": " + std::string(meaning.says) +
            (kernel ? " (GPU " + hit.first + ")" : std::string());
  if (c.label == "gpu_remap_pending") c.tier = Tier::kNote, c.tells_without_failure = true;
  // The program's own error may be the cause of it, and a missing module or file surely is none of
  // it.
  if (c.label == "xid_app_fault") c.tier = Tier::kProgram, c.weight = 50;
  if (*code == 154) c.weight = 40;  // repeats what an earlier Xid said
  return c;
}

std::optional<Suspect> SuspectOfXid(int code, std::optional<Rank> rank) {
  const XidMeaning meaning = MeaningOfXid(code);
  if (meaning.label.empty()) return std::nullopt;
  Suspect c;
  c.label = meaning.label;
  c.tier = c.label == "xid_app_fault"       ? Tier::kProgram
           : c.label == "gpu_remap_pending" ? Tier::kNote
                                            : Tier::kHardware;
  c.weight = 50;
  c.tells_without_failure = c.tier == Tier::kNote;
  c.confidence = Confidence::kConfirmed;
  c.rank = rank;
  c.cause = "Xid " + std::to_string(code) + ": " + std::string(meaning.says);
  c.text = "NVML: Xid " + std::to_string(code);
  return c;
}

bool IsException(const LogHit& hit) {
  const std::string_view name = LastName(hit.first);
  return !name.empty() && !name.ends_with("Warning");
}

std::optional<Suspect> SuspectOfException(const LogHit& hit, const LogEvidence& log) {
  const std::string_view name = LastName(hit.first);
  // SageMaker's report of a job has no frames, a program's own class of that name has.
  const bool is_own = name == "AlgorithmError" && !hit.context.empty();
  if (!IsException(hit) || (IsEcho(name) && !is_own)) return std::nullopt;
  // The ValueError of SageMaker's SDK only repeats how the job ended.
  if (hit.second.starts_with("Error ") && hit.second.find(": Failed Reason:") != std::string::npos)
    return std::nullopt;
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
  if (read) return std::nullopt;
  Suspect c = SuspectOf(hit);
  // torch.load's own refusal says nothing about the file.
  const bool refused = hit.second.starts_with("Weights only load failed");
  for (const ClassLabel& known : kClasses)
    if (name == known.name && !refused) c.label = known.label, c.weight = 57;
  if (c.label == "python_import" && !hit.second.empty())
    c.cause = "A Python module could not be imported: " + hit.second.substr(0, 160);
  if (c.label == "python_exception") {
    c.cause = std::string(kEndedWith) + std::string(name);
    if (!hit.second.empty()) c.cause += ": " + hit.second.substr(0, 160);
    if (!hit.context.empty()) c.remedy = "correct the program at " + hit.context.substr(0, 200);
  }
  return c;
}

Suspect SuspectOfOomKills(const NodeEvidence& node, bool of_loader) {
  Suspect c;
  c.label = of_loader ? "dataloader_worker_killed" : "host_oom_kill";
  c.tier = Tier::kAuthority;
  c.weight = 80;
  c.confidence = Confidence::kConfirmed;
  c.rank = node.rank;
  c.offset = kOutside;
  c.text = "cgroup: oom_kill " + std::to_string(node.oom_kills);
  if (OfTheWholeNode(node)) {
    c.cause =
        "The node ran out of memory, and the kernel chose " +
        std::string(of_loader ? "a data loader worker" : "the process") +
        (node.host_limit ? "; the job was below its own limit of " + FormatBytes(*node.host_limit)
                         : "");
  } else if (node.host_limit) {
    c.cause = "The job reached its memory limit of " + FormatBytes(*node.host_limit) +
              ", and the kernel killed " + (of_loader ? "a data loader worker" : "the process");
  }
  return c;
}

std::optional<Suspect> SuspectOfEnd(const RankEnd& end, std::uint64_t offset,
                                    const std::string& text) {
  if (!end.signal && end.exit_code != 1) return std::nullopt;
  Suspect c;
  c.tier = Tier::kWrapper;
  c.offset = offset;
  c.rank = end.rank;
  c.text = text;
  c.weight = end.root ? 65 : 60;
  if (!end.signal) {
    // From a launcher's report only: a bare exit code 1 of the job says less.
    if (offset == kOutside) return std::nullopt;
    // torchrun starts Python, which exits so after an exception; others start whatever.
    c.label = end.root ? "python_exception" : "unknown";
    c.confidence = Confidence::kSymptom;
    c.cause = "A rank ended with exit code 1; its own traceback is not in this log";
    c.remedy =
        "look at the logs of all ranks for a traceback (torchrun --log-dir DIR --tee 3 keeps "
        "them), and put @record of torch.distributed.elastic on main()";
    c.weight = end.root ? 31 : 30;
    return c;
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
    case 4:
      c.label = "segfault";
      c.weight += 12;
      c.cause = "A native library uses instructions that this node's CPU does not have (SIGILL)";
      break;
    case 7:
      c.label = "shm_bus_error";
      c.cause =
          "The process got SIGBUS: most often /dev/shm was full, else a file that it maps was cut "
          "short";
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
      c.weight -= 31;  // most often the launcher's own cleaning up, so below any report of a code
      break;
    default:
      return std::nullopt;
  }
  return c;
}

}  // namespace launch
