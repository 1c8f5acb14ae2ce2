#include "diagnosis/doubts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
#include <string>

#include "common/counted_limits.h"
#include "common/text.h"
#include "diagnosis/in_passing.h"
#include "diagnosis/labels.h"
#include "diagnosis/progress.h"
#include "diagnosis/xid.h"

namespace launch {
namespace {

// Classes of errors that no GPU and no link makes.
constexpr std::string_view kOfTheCode[] = {
    "KeyError",          "TypeError",           "AttributeError",
    "NameError",         "IndexError",          "ZeroDivisionError",
    "UnboundLocalError", "NotImplementedError", "ModuleNotFoundError",
    "ImportError",       "FileNotFoundError",   "SyntaxError",
    "JSONDecodeError"};

// What a program runs into behind a file system that is gone.
constexpr std::string_view kOfLostFiles[] = {"ModuleNotFoundError", "ImportError",
                                             "FileNotFoundError", "JSONDecodeError"};

// Of the card: what may differ between two messages, which are not of the same moment.
constexpr double kSameShare = 0.05;

using Numbers = std::map<std::string, double>;

bool HoldWhatTheOtherMisses(const Numbers& one, const Numbers& other) {
  const auto near = [&](const char* a, const char* b) {
    const auto left = one.find(a);
    const auto right = other.find(b);
    const auto total = one.find("total");
    return left != one.end() && right != other.end() && total != one.end() &&
           std::abs(left->second - right->second) <= kSameShare * total->second;
  };
  return near("total", "total") && near("others", "process") && near("process", "others");
}

constexpr std::string_view kForeign = "cuda_oom_foreign_process";

// `Found`: Suspect or Verdict.
template <class Found, class MayBe>
void TellShared(std::vector<Found>& found, MayBe may_be) {
  for (Found& one : found) {
    for (Found& other : found) {
      if (!one.rank || !other.rank || *one.rank >= *other.rank || !may_be(one, other)) continue;
      if (!one.label.starts_with("cuda_oom") || !other.label.starts_with("cuda_oom")) continue;
      if (one.label != kForeign && other.label != kForeign) continue;
      if (!HoldWhatTheOtherMisses(one.numbers, other.numbers)) continue;
      const LabelInfo& info = LabelInfoOf("duplicate_gpu");
      const std::string cause = "Rank " + std::to_string(*one.rank) + " and rank " +
                                std::to_string(*other.rank) +
                                " use the same GPU: each takes the other for another process";
      for (Found* each : {&one, &other}) {
        each->label = info.label;
        each->action = info.action;
        each->cause = cause;
        each->remedy = info.remedy;
        each->changes.clear();
      }
    }
  }
}

}  // namespace

void TellSharedGpu(std::vector<Suspect>& suspects) {
  TellShared(suspects, [](const Suspect&, const Suspect&) { return true; });
}

void TellSharedGpu(std::vector<Verdict>& verdicts) {
  TellShared(verdicts, [](const Verdict& a, const Verdict& b) { return a.node == b.node; });
}

void TellMismatch(std::vector<Suspect>& suspects) {
  struct Call {
    Rank rank;
    std::string number;
    std::string kind;
  };
  const auto word = [](const std::string& text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    if (at == std::string::npos) return std::string();
    const std::size_t from = at + mark.size();
    return text.substr(from, text.find_first_of(",) ", from) - from);
  };
  std::vector<Call> calls;
  for (Suspect& c : suspects) {
    if (!c.label.starts_with("nccl_timeout") || !c.rank) continue;
    Call call{*c.rank, word(c.text, "SeqNum="), word(c.text, "OpType=")};
    if (call.number.empty() || call.kind.empty()) continue;
    for (const Call& other : calls) {
      if (other.rank == call.rank || other.number != call.number || other.kind == call.kind)
        continue;
      c.action = "no_retry";
      c.weight += 5;
      c.cause = "Rank " + std::to_string(other.rank) + " waits in " + other.kind + " and rank " +
                std::to_string(call.rank) + " in " + call.kind + ", both in collective number " +
                call.number + ": the program does not make the same collectives on every rank";
    }
    calls.push_back(std::move(call));
  }
  for (Suspect& c : suspects) {
    if (c.label == "nccl_timeout" && c.action == "no_retry")
      c.remedy = LabelInfoOf("collective_mismatch").remedy;
  }
}

namespace {

// What CUDA, NCCL or NVML returned to the program itself: nobody prints it for having read it in a
// kernel's log, and it stands whatever the program says behind it.
bool IsAnswerOfTheDriver(std::string_view text) {
  if (text.find("NVRM") != std::string_view::npos) return false;
  return std::ranges::any_of(
      std::array<std::string_view, 4>{"CUDA", "Cuda", "cuda", "NVML"},
      [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

}  // namespace

void DoubtHardware(std::vector<Suspect>& suspects, const NodeEvidence& node) {
  for (const std::string& line : node.kernel_lines)
    if (line.find("NVRM") != std::string::npos) return;
  for (Suspect& c : suspects) {
    if (c.tier != Tier::kHardware || IsAnswerOfTheDriver(c.text)) continue;
    c.tier = Tier::kNote;
    c.confidence = Confidence::kSymptom;
  }
}

void DoubtScheduler(std::vector<Suspect>& suspects) {
  for (Suspect& c : suspects) {
    if (c.tier != Tier::kAuthority || c.offset == kOutside) continue;
    if (c.label != "preempted_signal" && c.label != "host_oom_kill") continue;
    c.tier = Tier::kSymptom;
    c.confidence = Confidence::kSymptom;
  }
}

namespace {

// An exception of one of the classes.
template <class Classes>
bool IsAmong(const Suspect& c, const Classes& classes) {
  if (c.tier != Tier::kProgram || c.offset == kOutside) return false;
  const std::string_view text = c.text;
  const std::string_view name = text.substr(0, text.find(':'));
  return std::ranges::any_of(classes,
                             [&](std::string_view known) { return name.ends_with(known); });
}

// As a log holds it: of the driver, of the kernel, about whichever process.
bool IsWordOfKernel(const Suspect& c) {
  if (c.offset == kOutside || c.of_node) return false;
  if (IsAnswerOfTheDriver(c.text)) return false;
  if (c.tier == Tier::kHardware || c.label == "xid_app_fault") return true;
  if (c.tier == Tier::kAuthority) return c.label == "storage_io" || c.label == "host_oom_kill";
  return c.text.starts_with("kernel: ") || c.text.find("mlx5_core") != std::string::npos ||
         c.text.find("blocked for more than") != std::string::npos ||
         c.text.find("segfault at ") != std::string::npos;
}

}  // namespace

void DoubtPrintedKernelLines(std::vector<Suspect>& suspects) {
  struct OwnError {
    std::uint64_t offset;
    std::optional<Rank> rank;
    bool of_lost_files;
  };
  std::vector<OwnError> own;
  for (const Suspect& c : suspects)
    if (IsAmong(c, kOfTheCode)) own.push_back({c.offset, c.rank, IsAmong(c, kOfLostFiles)});
  for (Suspect& c : suspects) {
    if (!IsWordOfKernel(c)) continue;
    if (std::ranges::none_of(own, [&](const OwnError& end) {
          if (end.of_lost_files && c.label == "storage_io") return false;
          return end.offset > c.offset && (!end.rank || !c.rank || *end.rank == *c.rank);
        }))
      continue;
    c.tier = Tier::kNote;
    c.confidence = Confidence::kSymptom;
  }
}

namespace {

// The labels that a warning of the GPU's software is given.
constexpr std::string_view kOfGpuSoftware[] = {"cuda_driver_too_old", "driver_library_mismatch",
                                               "no_kernel_image"};

// What may follow from them, besides: the program gets no GPU, or none that computes.
constexpr std::string_view kOfUselessGpu[] = {
    "torch_cpu_only",   "precision_unsupported", "cuda_fabric_not_ready", "cuda_illegal_access",
    "toolkit_mismatch", "lib_abi_mismatch",      "deepspeed_op_build",    "unknown"};

bool HoldsAny(std::string_view text, std::initializer_list<std::string_view> marks) {
  return std::ranges::any_of(
      marks, [&](std::string_view mark) { return text.find(mark) != std::string_view::npos; });
}

bool IsGpuSoftware(const Suspect& c) {
  return std::ranges::find(kOfGpuSoftware, c.label) != std::end(kOfGpuSoftware);
}

// torch/cuda/__init__.py warns of what it finds, and goes on; so do others' loggers.
bool IsWarningOfGpuSoftware(const Suspect& c) {
  return c.tier == Tier::kRoot && c.offset != kOutside && IsGpuSoftware(c) &&
         (IsWarning(c.text) ||
          HoldsAny(c.text, {"Warning: CUDA initialization", "with the current PyTorch installation",
                            "current PyTorch install supports", "no longer supports this GPU"}));
}

// Whether the exception may come of a GPU that is of no use. A bare assertion may ask for one.
bool MayBeAboutGpu(const Suspect& c) {
  if (IsAmong(c, kOfTheCode)) return false;
  const std::string lower = Lower(c.text);
  return lower.ends_with("assertionerror") ||
         HoldsAny(lower, {"cuda",   "gpu",        "nvidia",      "nvml",    "device",
                          "triton", "ptx",        "sm_",         "cublas",  "cudnn",
                          "nccl",   "cpu",        "accelerator", "backend", "not implemented for",
                          "driver", "capability", "fp16",        "bf16",    "half"});
}

bool NamesAnotherCause(const Suspect& c) {
  if (c.offset == kOutside || c.is_caught || c.of_script || c.only_warns || IsWarning(c.text) ||
      (c.tier != Tier::kRoot && c.tier != Tier::kProgram) || IsGpuSoftware(c) ||
      c.label.starts_with("xid_") ||
      std::ranges::find(kOfUselessGpu, c.label) != std::end(kOfUselessGpu))
    return false;
  if (c.label == "invalid_device_ordinal")  // else: there is no GPU at all
    return c.text.find("ordinal") != std::string::npos;
  return c.label != "python_exception" || !MayBeAboutGpu(c);
}

}  // namespace

void DoubtWarningsOfGpuSoftware(std::vector<Suspect>& suspects) {
  struct End {
    std::uint64_t offset;
    std::optional<Rank> rank;
  };
  std::vector<End> ends;
  for (const Suspect& c : suspects)
    if (NamesAnotherCause(c)) ends.push_back({c.offset, c.rank});
  for (Suspect& c : suspects) {
    if (!IsWarningOfGpuSoftware(c)) continue;
    if (std::ranges::none_of(ends, [&](const End& end) {
          return end.offset > c.offset && MayBeOne(end.rank, c.rank);
        }))
      continue;
    c.tier = Tier::kNote;
    c.confidence = Confidence::kSymptom;
  }
}

void DoubtCompiler(std::vector<Suspect>& suspects) {
  for (Suspect& c : suspects) {
    if (!c.of_compiler) continue;
    const bool of_package = std::ranges::any_of(
        std::initializer_list<std::string_view>{"torch_extensions/", "-packages/", "torch/include/",
                                                "csrc/", "/pip-"},
        [&](std::string_view mark) { return c.text.find(mark) != std::string::npos; });
    const bool fails = std::ranges::any_of(suspects, [&](const Suspect& build) {
      return !build.of_compiler && build.label == c.label && build.offset > c.offset;
    });
    if (!of_package && !fails) c.tier = Tier::kNote;
  }
}

void DoubtCpuOnly(Suspect& suspect) {
  if (suspect.label != "torch_cpu_only" || !suspect.action.empty()) return;
  const LabelInfo& info = LabelInfoOf("python_exception");
  suspect.label = info.label;
  suspect.tier = Tier::kProgram;
  suspect.confidence = Confidence::kSymptom;
  suspect.cause = std::string(kEndedWith) + suspect.text +
                  ", although it saw a GPU before: another interpreter, or a torch without NCCL";
  suspect.remedy =
      "print sys.executable, torch.__version__ and torch.version.cuda where it fails; for gloo "
      "instead of NCCL name the backend in init_process_group";
}

bool NodeConfirms(const Suspect& suspect, const NodeEvidence& node) {
  const std::string& label = suspect.label;
  if (label == "ecc" && node.ecc_errors > 0) return true;
  // The label is that of open files, too.
  if (suspect.cause.find("pids.max") != std::string::npos &&
      std::ranges::any_of(node.kernel_lines,
                          [](const std::string& line) { return line.starts_with(kPidsMaxOf); }))
    return true;
  return std::any_of(node.xids.begin(), node.xids.end(), [&](int code) {
    const std::string_view meaning = MeaningOfXid(code).label;
    return meaning == label || (label == "cuda_illegal_access" && meaning == "xid_app_fault");
  });
}

}  // namespace launch
