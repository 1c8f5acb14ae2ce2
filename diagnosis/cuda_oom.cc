#include "diagnosis/cuda_oom.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "common/text.h"
#include "common/units.h"
#include "diagnosis/bounded_pattern.h"

namespace launch {
namespace {

constexpr double kGiBf = 1024.0 * 1024.0 * 1024.0;

// A size as torch prints it: "2.00 GiB", "512.00 MiB", "8 bytes", "0 bytes".
// XLA writes "6.48G".
#define LAUNCH_SIZE R"(([\d.]+) ?([KMGT]i?B|[Bb]ytes|B|[KMG])\b)"

double UnitBytes(std::string_view unit) {
  switch (unit.empty() ? 'b' : std::toupper(static_cast<unsigned char>(unit[0]))) {
    case 'K':
      return 1024.0;
    case 'M':
      return 1024.0 * 1024.0;
    case 'G':
      return kGiBf;
    case 'T':
      return 1024.0 * kGiBf;
    default:
      return 1.0;
  }
}

std::optional<double> Bytes(std::string_view number, std::string_view unit) {
  while (!number.empty() && number.back() == '.') number.remove_suffix(1);
  const auto value = ParseDouble(number);
  if (!value || *value < 0) return std::nullopt;
  return *value * UnitBytes(unit);
}

// The first size that `pattern` captures; it holds LAUNCH_SIZE once.
std::optional<double> First(std::string_view text, const BoundedPattern& pattern) {
  std::string number;
  std::string unit;
  if (!RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), pattern, &number, &unit))
    return std::nullopt;
  return Bytes(number, unit);
}

std::string Gib(double bytes) {
  char text[32];
  if (bytes < 0.1 * kGiBf) {
    std::snprintf(text, sizeof(text), "%.0f MiB", bytes / (1024.0 * 1024.0));
  } else {
    std::snprintf(text, sizeof(text), "%.2f GiB", bytes / kGiBf);
  }
  return text;
}

std::string Percent(double share) {
  char text[16];
  std::snprintf(text, sizeof(text), "%.1f %%", 100.0 * share);
  return text;
}

}  // namespace

namespace {

// One item of a list, "- Allocated by PyTorch: 36.78 GiB" or "* 3.56 GiB reserved": its words tell
// what its one number is.
void TakeItem(std::string_view item, OomNumbers& n) {
  static const BoundedPattern size("(?i)" LAUNCH_SIZE);
  const auto bytes = First(item, size);
  if (!bytes) return;
  const std::string words = Lower(item);
  const auto has = [&](std::string_view word) { return words.find(word) != std::string::npos; };
  std::optional<double>* field = nullptr;
  if (has("tried") || has("asked") || has("request") || has("to allocate")) {
    field = &n.tried;
  } else if (has("unallocated") || has("unused") || (has("reserved") && !has("total"))) {
    field = &n.unallocated;
  } else if (has("other process")) {
    field = &n.others;
  } else if (has("process") || has("in use")) {
    field = &n.process;
  } else if (has("allocated")) {
    field = &n.allocated;
  } else if (has("free")) {
    field = &n.free;
  } else if (has("total") || has("capacity")) {
    field = &n.total;
  }
  if (field != nullptr && !*field) *field = bytes;
}

// The items of a list, whose marks stayed when its lines were joined; fewer than two: none.
OomNumbers ReadList(std::string_view text) {
  static const BoundedPattern mark("(?:^|[\\s:])(?:[-*]|\u2022|\\d+\\.)\\s+");
  static const BoundedPattern size("(?i)" LAUNCH_SIZE);
  OomNumbers n;
  std::size_t items = 0;
  re2::StringPiece rest(text.data(), text.size());
  while (RE2::FindAndConsume(&rest, mark)) {
    re2::StringPiece ahead = rest;
    const char* end = rest.data() + rest.size();
    if (RE2::FindAndConsume(&ahead, mark)) end = ahead.data();
    const std::string_view item(rest.data(), static_cast<std::size_t>(end - rest.data()));
    if (RE2::PartialMatch(re2::StringPiece(item.data(), item.size()), size)) {
      ++items;
      TakeItem(item, n);
    }
  }
  return items >= 2 ? n : OomNumbers();
}

// Of one message.
struct OomPatterns {
  BoundedPattern tried{
      "(?i)(?:tried to allocate:?|cannot allocate|requested *:?|asked(?: for)?:?|to allocate:?|to "
      "reserve) " LAUNCH_SIZE};
  BoundedPattern tried_before{"(?i)" LAUNCH_SIZE " (?:asked|requested|tried)"};
  BoundedPattern total{
      "(?i)(?:capac?i?ty of|total capacity:?|device limit *:|max allowed:|total(?: "
      "memory)?:) " LAUNCH_SIZE};
  BoundedPattern total_before{"(?i)" LAUNCH_SIZE " total(?: capacity)?"};
  BoundedPattern free_after{
      "(?i)(?:of which|free[^:;,.]{0,24}:|available memory is only) " LAUNCH_SIZE};
  // cudaMallocAsync's report: "Free (according to CUDA): 1.00 GiB" behind another number.
  BoundedPattern free_of_cuda{"(?i)free \\(according to cuda\\): *" LAUNCH_SIZE};
  BoundedPattern free_before{"(?i)" LAUNCH_SIZE "(?: is)? free\\b"};
  BoundedPattern hbm{"(?i)used " LAUNCH_SIZE " of ([\\d.]+)([KMGT]) hbm"};
  BoundedPattern allowed{"(?i)" LAUNCH_SIZE " allowed;"};
  BoundedPattern allowed_async{"(?i)memory fraction\\) *: " LAUNCH_SIZE};
  BoundedPattern process{"(?i)this process has " LAUNCH_SIZE " memory in use"};
  BoundedPattern process_before{"(?i)" LAUNCH_SIZE " (?:in use by this process|process)"};
  BoundedPattern allocated{"(?i)of the allocated memory " LAUNCH_SIZE " is allocated"};
  BoundedPattern allocated_before{"(?i)" LAUNCH_SIZE " (?:already |memory has been )?allocated"};
  BoundedPattern allocated_async{"(?i)currently allocated *: " LAUNCH_SIZE};
  BoundedPattern allocated_mps{"(?i)allocated: " LAUNCH_SIZE};
  BoundedPattern unallocated{"(?i)" LAUNCH_SIZE " is reserved by pytorch but unallocated"};
  BoundedPattern reserved_total{"(?i)" LAUNCH_SIZE " reserved in total"};
  BoundedPattern cached{"(?i)" LAUNCH_SIZE " cached"};
  BoundedPattern reserved_plain{"(?i)" LAUNCH_SIZE " reserved"};
  BoundedPattern gpu{R"((?i)\bGPU (\d+))"};
  BoundedPattern other{"(?i)process \\d+ has " LAUNCH_SIZE " memory in use"};
};

const OomPatterns& PatternsOfOom() {
  static const OomPatterns patterns;
  return patterns;
}

}  // namespace

OomNumbers ReadOomNumbers(std::string_view text) {
  const OomNumbers list = ReadList(text);
  if (list.tried || (list.process && list.allocated)) return list;
  const OomPatterns& p = PatternsOfOom();
  OomNumbers n;
  n.tried = First(text, p.tried);
  if (!n.tried) n.tried = First(text, p.tried_before);
  n.total = First(text, p.total);
  if (!n.total) n.total = First(text, p.total_before);
  n.free = First(text, p.free_of_cuda);
  if (!n.free) n.free = First(text, p.free_before);
  if (!n.free) n.free = First(text, p.free_after);
  n.process = First(text, p.process);
  if (!n.process) n.process = First(text, p.process_before);
  n.allocated = First(text, p.allocated);
  if (!n.allocated) n.allocated = First(text, p.allocated_async);
  if (!n.allocated) n.allocated = First(text, p.allocated_before);
  if (!n.allocated) n.allocated = First(text, p.allocated_mps);
  n.unallocated = First(text, p.unallocated);

  n.allowed = First(text, p.allowed);
  if (!n.allowed) n.allowed = First(text, p.allowed_async);
  if (n.allowed && n.total && *n.allowed >= *n.total) n.allowed.reset();  // no limit was set

  re2::StringPiece rest(text.data(), text.size());
  std::string number;
  std::string unit;
  while (RE2::FindAndConsume(&rest, p.other, &number, &unit))
    if (const auto bytes = Bytes(number, unit)) n.others = n.others.value_or(0) + *bytes;

  const auto old_reserved = First(text, p.reserved_total);
  if (!n.unallocated && old_reserved) {
    n.old_form = true;
    if (n.allocated) n.unallocated = std::max(0.0, *old_reserved - *n.allocated);
    if (!n.process) n.process = old_reserved;
  }
  // torch up to 1.3 counts only what is cached beyond what is allocated.
  if (const auto spare = First(text, p.cached); spare && !n.unallocated) {
    n.old_form = true;
    const double sum = *spare + n.allocated.value_or(0) + n.free.value_or(0);
    const bool is_total = n.allocated && n.total && sum > 1.02 * *n.total;
    n.unallocated = is_total ? std::max(0.0, *spare - *n.allocated) : *spare;
  }
  if (!n.unallocated) n.unallocated = First(text, p.reserved_plain);
  std::string used[4];
  if (!n.tried && RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), p.hbm, &used[0],
                                    &used[1], &used[2], &used[3])) {
    n.tried = Bytes(used[0], used[1]);
    n.total = Bytes(used[2], used[3]);
  }
  // torch's user text of 1.0: allocated and free only.
  if (!n.process && n.allocated) n.process = *n.allocated + n.unallocated.value_or(0);
  int index = 0;
  if (RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), p.gpu, &index)) n.gpu = index;
  return n;
}

OomKind ClassifyOom(const OomNumbers& n) {
  if (!n.tried || !n.total || *n.total <= 0) {
    return n.others && n.process && *n.others > *n.process ? OomKind::kForeignProcess
                                                           : OomKind::kSize;
  }
  const double q = *n.tried;
  const double c = *n.total;
  if (q > c) return OomKind::kSize;
  if (n.free && n.process) {
    // Old forms do not count the CUDA context, about half a GiB; a foreign process is far larger.
    const double foreign = c - *n.free - *n.process;
    const double least = std::max(0.25 * c, (n.old_form ? 1.5 : 1.0) * kGiBf);
    if (foreign >= least && *n.process <= 0.5 * c && q + *n.process <= c) {
      return OomKind::kForeignProcess;
    }
  }
  if (n.unallocated) {
    const double r = *n.unallocated;
    double f = n.free.value_or(0);
    // What is free on the card is not the program's beyond its own limit.
    if (n.allowed) f = std::min(f, std::max(0.0, *n.allowed - n.allocated.value_or(0) - r));
    if (r >= 0.03 * c && r >= 0.25 * q && f + r >= q) return OomKind::kFragmentation;
  }
  return OomKind::kSize;
}

OomPhase PhaseOfOom(std::string_view frames) {
  struct Sign {
    std::string_view text;
    OomPhase phase;
  };
  // The innermost call decides; of several in one stack the later in this list is the inner one.
  constexpr Sign kSigns[] = {
      {"from_pretrained", OomPhase::kLoad},
      {"load_state_dict", OomPhase::kLoad},
      {"torch/serialization.py", OomPhase::kLoad},
      {"in initialize", OomPhase::kStart},
      {"in forward", OomPhase::kForward},
      {"in _call_impl", OomPhase::kForward},
      {"evaluation_loop", OomPhase::kEvaluation},
      {"in evaluate", OomPhase::kEvaluation},
      {"in validate", OomPhase::kEvaluation},
      {"in backward", OomPhase::kBackward},
      {"autograd/__init__.py", OomPhase::kBackward},
      {"torch/optim/", OomPhase::kOptimizer},
      {"torchao/optim/", OomPhase::kOptimizer},
      {"bitsandbytes/optim/", OomPhase::kOptimizer},
      {"in _init_group", OomPhase::kOptimizer},
      {"_take_model_step", OomPhase::kOptimizer},
  };
  OomPhase phase = OomPhase::kUnknown;
  for (const Sign& sign : kSigns) {
    if (frames.find(sign.text) == std::string_view::npos) continue;
    // An evaluation's forward is an evaluation; everything else: the inner sign wins.
    phase = sign.phase;
  }
  return phase;
}

std::string_view ToString(OomPhase phase) {
  switch (phase) {
    case OomPhase::kStart:
      return "while the engine was set up";
    case OomPhase::kForward:
      return "in the forward pass";
    case OomPhase::kBackward:
      return "in the backward pass";
    case OomPhase::kOptimizer:
      return "in the optimizer step";
    case OomPhase::kEvaluation:
      return "during evaluation";
    case OomPhase::kLoad:
      return "while weights were loaded";
    case OomPhase::kUnknown:
      break;
  }
  return "";
}

namespace {

constexpr const char* kAllocatorChange = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
constexpr const char* kBatchChange = "batch.micro: the next smaller, batch.global kept";

std::map<std::string, double> InGib(const OomNumbers& n) {
  std::map<std::string, double> numbers;
  const auto add = [&](const char* name, const std::optional<double>& bytes) {
    if (bytes) numbers[name] = std::round(*bytes / kGiBf * 1000) / 1000;
  };
  add("asked", n.tried);
  add("total", n.total);
  add("free", n.free);
  add("process", n.process);
  add("allocated", n.allocated);
  add("unallocated", n.unallocated);
  add("allowed", n.allowed);
  if (n.total && n.free && n.process)
    add("others", std::max(0.0, *n.total - *n.free - *n.process));
  else
    add("others", n.others);
  if (n.unallocated && n.total && *n.total > 0)
    numbers["reserve_share"] = std::round(*n.unallocated / *n.total * 1000) / 1000;
  return numbers;
}

}  // namespace

OomVerdict JudgeOom(const OomNumbers& n, OomPhase phase, bool allocator_already_set) {
  OomVerdict verdict;
  verdict.numbers = InGib(n);
  const OomKind kind = ClassifyOom(n);
  const std::string where = n.gpu ? "GPU " + std::to_string(*n.gpu) : "the GPU";
  const std::string when = phase == OomPhase::kUnknown ? "" : " " + std::string(ToString(phase));
  std::string facts;
  if (n.tried) facts += " asked " + Gib(*n.tried);
  if (n.total) facts += (facts.empty() ? " of " : ", of ") + Gib(*n.total);
  if (n.free) facts += ", free " + Gib(*n.free);
  if (n.allocated) facts += ", allocated " + Gib(*n.allocated);
  if (n.unallocated) facts += ", reserved but unused " + Gib(*n.unallocated);
  if (!facts.empty()) facts = ":" + facts;

  const std::string smaller =
      "halve the micro-batch and double gradient accumulation (the effective batch stays); at "
      "micro-batch 1: 16-bit precision if the job runs fp32, activation checkpointing, a higher "
      "ZeRO or FSDP stage, offload";
  if (kind == OomKind::kForeignProcess) {
    verdict.label = "cuda_oom_foreign_process";
    const double foreign = n.total && n.free && n.process
                               ? std::max(0.0, *n.total - *n.free - *n.process)
                               : n.others.value_or(0);
    verdict.cause = "Other processes hold " + Gib(foreign) + " of " + where +
                    (n.process ? ", this one only " + Gib(*n.process) : std::string()) + facts;
    verdict.remedy =
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv   # whose it is; "
        "wait for them or use another GPU: a smaller batch does not help";
    return verdict;
  }
  if (kind == OomKind::kFragmentation) {
    verdict.label = "cuda_oom_fragmentation";
    const double share = *n.unallocated / *n.total;
    verdict.cause = "Memory of " + where + " is fragmented" + when +
                    ": enough is free and reserved (" + Percent(share) +
                    " of the card is reserved but unused), but not in one piece" + facts;
    verdict.remedy = allocator_already_set
                         ? "expandable segments are already on: " + smaller
                         : "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
    if (!allocator_already_set) verdict.changes.emplace_back(kAllocatorChange);
    if (allocator_already_set || share < 0.10) verdict.changes.emplace_back(kBatchChange);
    if (!allocator_already_set && share < 0.10) verdict.remedy += "; and " + smaller;
    if (!allocator_already_set && share >= 0.10)
      verdict.remedy += "; if it fails again: " + smaller;
    return verdict;
  }
  verdict.label = "cuda_oom";
  if (n.tried && n.total && *n.tried > *n.total) {
    verdict.cause = "One request of " + Gib(*n.tried) + " is larger than " + where + " (" +
                    Gib(*n.total) + "): no setting helps" + when;
    verdict.remedy =
        "shrink the single largest tensor (micro-batch, sequence length, logits) or "
        "split it over GPUs; allocator settings and accumulation alone do not help";
    return verdict;
  }
  if (n.allowed && n.free && *n.free >= n.tried.value_or(0)) {
    verdict.cause = "The program's own limit of " + Gib(*n.allowed) + " is reached" + when +
                    ", not " + "the memory of " + where + facts;
    verdict.remedy =
        "raise the limit (torch.cuda.set_per_process_memory_fraction, or "
        "per_process_memory_fraction "
        "in PYTORCH_CUDA_ALLOC_CONF) to what the job may take; within it: " +
        smaller;
    verdict.changes.emplace_back(kBatchChange);
    return verdict;
  }
  verdict.cause = "The job needs more memory than " + where + " has" + when + facts;
  verdict.remedy = smaller;
  verdict.changes.emplace_back(kBatchChange);
  return verdict;
}

#undef LAUNCH_SIZE

}  // namespace launch
