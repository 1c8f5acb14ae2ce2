#include "diagnosis/standing_place.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace launch {
namespace {

// Functions of torch.distributed (distributed_c10d.py, _functional_collectives.py, rendezvous.py)
// and deepspeed.comm that return only when other ranks do their part.
constexpr std::array kCollectives = {std::string_view("all_gather"),
                                     std::string_view("all_gather_coalesced"),
                                     std::string_view("all_gather_into_tensor"),
                                     std::string_view("all_gather_object"),
                                     std::string_view("all_reduce"),
                                     std::string_view("all_reduce_coalesced"),
                                     std::string_view("all_to_all"),
                                     std::string_view("all_to_all_single"),
                                     std::string_view("barrier"),
                                     std::string_view("batch_isend_irecv"),
                                     std::string_view("broadcast"),
                                     std::string_view("broadcast_object_list"),
                                     std::string_view("gather"),
                                     std::string_view("gather_object"),
                                     std::string_view("init_process_group"),
                                     std::string_view("monitored_barrier"),
                                     std::string_view("new_group"),
                                     std::string_view("recv"),
                                     std::string_view("recv_object_list"),
                                     std::string_view("reduce"),
                                     std::string_view("reduce_scatter"),
                                     std::string_view("reduce_scatter_tensor"),
                                     std::string_view("scatter"),
                                     std::string_view("scatter_object_list"),
                                     std::string_view("send"),
                                     std::string_view("send_object_list")};

bool EndsWith(std::string_view text, std::string_view end) { return text.ends_with(end); }

bool IsLibrary(const StackFrame& frame) {
  const std::string_view file = frame.file;
  return file.find("/site-packages/") != std::string_view::npos ||
         file.find("/dist-packages/") != std::string_view::npos ||
         file.find("/lib/python") != std::string_view::npos ||
         file.find("/lib64/python") != std::string_view::npos || file.starts_with("<frozen");
}

std::string CollectiveOf(const StackFrame& frame) {
  const bool distributed = EndsWith(frame.file, "torch/distributed/distributed_c10d.py") ||
                           EndsWith(frame.file, "torch/distributed/_functional_collectives.py") ||
                           EndsWith(frame.file, "torch/distributed/nn/functional.py") ||
                           EndsWith(frame.file, "deepspeed/comm/comm.py");
  if (distributed && std::ranges::find(kCollectives, frame.function) != kCollectives.end())
    return frame.function;
  if (EndsWith(frame.file, "torch/distributed/rendezvous.py")) return "init_process_group";
  const bool ddp = EndsWith(frame.file, "torch/nn/parallel/distributed.py");
  if (ddp && frame.function == "__init__") return "DistributedDataParallel()";
  if (ddp && frame.function == "_sync_buffers") return "forward() of DistributedDataParallel";
  const bool backward = EndsWith(frame.file, "torch/autograd/graph.py") ||
                        EndsWith(frame.file, "torch/autograd/__init__.py") ||
                        EndsWith(frame.file, "torch/_tensor.py");
  if (backward && (frame.function == "_engine_run_backward" || frame.function == "backward"))
    return "backward()";
  return {};
}

}  // namespace

std::string FrameText(const StackFrame& frame) {
  return frame.file + ":" + std::to_string(frame.line) +
         (frame.function.empty() ? "" : " (" + frame.function + ")");
}

std::string WithoutDirectory(const std::string& place) {
  const std::size_t end = place.find(':');
  const std::size_t slash = place.rfind('/', end);
  return slash == std::string::npos ? place : place.substr(slash + 1);
}

const ProcessStack* TrainerOf(const StandingRank& rank) {
  for (const ProcessStack& process : rank.processes) {
    if (!process.frames.empty()) return &process;
  }
  return rank.processes.empty() ? nullptr : &rank.processes.front();
}

StandingPlace PlaceOf(const StandingRank& rank) {
  StandingPlace place;
  const ProcessStack* trainer = TrainerOf(rank);
  if (trainer == nullptr) return place;
  place.state = trainer->state;
  if (trainer->frames.empty()) {
    if (!trainer->kernel.empty()) {
      place.at = "kernel function " + trainer->kernel.front();
    } else if (!trainer->syscall.empty()) {
      place.at = "system call " + trainer->syscall;
    }
    return place;
  }
  place.kind = StandingKind::kElsewhere;
  bool gpu = false;
  bool loader = false;
  const StackFrame* own = nullptr;
  // What the program called counts, not what that is made of: all_gather_object ends in all_gather.
  for (const StackFrame& frame : trainer->frames) {
    if (const std::string call = CollectiveOf(frame); !call.empty()) place.call = call;
    gpu =
        gpu || (EndsWith(frame.file, "torch/cuda/__init__.py") && frame.function == "synchronize");
    loader = loader || EndsWith(frame.file, "torch/utils/data/dataloader.py");
    if (own == nullptr && !IsLibrary(frame)) own = &frame;
  }
  if (own == nullptr) own = &trainer->frames.front();
  place.at = FrameText(*own);
  if (!place.call.empty()) {
    place.kind = StandingKind::kTogether;
  } else if (loader) {
    place.kind = StandingKind::kLoader;
  } else if (gpu) {
    place.kind = StandingKind::kGpu;
  }
  return place;
}

std::string InWords(const StandingPlace& place) {
  switch (place.kind) {
    case StandingKind::kUnseen:
      return place.at.empty() ? "not seen" : "in " + place.at + ", its Python side is not known";
    case StandingKind::kElsewhere:
      return "at " + place.at;
    case StandingKind::kLoader:
      return "waits for its data loader, called at " + place.at;
    case StandingKind::kGpu:
      return "waits for its GPU, called at " + place.at;
    case StandingKind::kTogether:
      return "in " + place.call + ", called at " + place.at;
  }
  return {};
}

std::string OnDevice(const StandingPlace& place) {
  return place.state == "D" ? ", in a system call that waits for a device or file system" : "";
}

}  // namespace launch
