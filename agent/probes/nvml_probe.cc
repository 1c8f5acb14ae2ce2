#include "agent/probes/nvml_probe.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "agent/probes/nvml_child.h"
#include "agent/probes/nvml_messages.h"
#include "common/account.h"
#include "common/first_line.h"

namespace launch::agent {
namespace {

constexpr Millis kKillWait{500};  // after that the child is stuck in the kernel
using Steady = std::chrono::steady_clock;
using Problem = tl::unexpected<std::string>;

int PollMs(Steady::time_point until) {
  const auto left = std::chrono::ceil<Millis>(until - Steady::now());
  return static_cast<int>(std::max<Millis::rep>(0, left.count()));
}

// State letter of a process ("D" = uninterruptible), or "?" when it is gone.
std::string StateOf(const std::string& proc_root, pid_t pid) {
  const std::string line = FirstLine(proc_root + "/" + std::to_string(pid) + "/stat");
  const auto name_end = line.rfind(')');  // the name may hold anything, also ") D"
  return name_end == std::string::npos || name_end + 2 >= line.size()
             ? "?"
             : line.substr(name_end + 2, 1);
}

std::string EndText(int status) {
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "exited with " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

std::vector<std::string> NvidiaPciFunctions(const std::string& sys_root) {
  std::vector<std::string> functions;
  const std::string root = sys_root + "/bus/pci/devices";
  DIR* directory = ::opendir(root.c_str());
  if (directory == nullptr) return functions;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string path = root + "/" + entry->d_name;
    if (FirstLine(path + "/vendor") != "0x10de") continue;
    const std::string kind = FirstLine(path + "/class");  // "0x030200"
    if (kind.starts_with("0x0300") || kind.starts_with("0x0302"))
      functions.emplace_back(entry->d_name);
  }
  ::closedir(directory);
  std::sort(functions.begin(), functions.end());
  return functions;
}

NvmlProbe::NvmlProbe(Options options, Clock& clock, const GpuCatalog& catalog)
    : options_(std::move(options)), clock_(clock), catalog_(catalog) {}

NvmlProbe::~NvmlProbe() {
  if (!child_) return;
  child_->CloseIn();  // it ends by itself then
  (void)child_->Reap(Millis{200});
}

std::string NvmlProbe::GiveUp(const std::string& what) {
  opened_ = false;
  problem_ = "driver_unresponsive: " + what;
  child_->Kill();
  if (child_->Reap(kKillWait)) {
    child_.reset();
  } else {
    stuck_ = std::move(child_);
  }
  return problem_;
}

tl::expected<std::string, std::string> NvmlProbe::Exchange(std::string_view verb, Millis deadline) {
  const Steady::time_point until = Steady::now() + deadline;
  const auto late = [&] {
    return Problem(GiveUp("NVML did not answer `" + std::string(verb) + "` within " +
                          std::to_string(deadline.count()) + " ms"));
  };
  const auto ended = [&] {
    const std::optional<int> status = child_->Reap(kKillWait);
    return Problem(GiveUp("the process that asks NVML " +
                          (status ? EndText(*status) : std::string("closed its pipe"))));
  };
  // A request fits the pipe's buffer, and there is never more than one.
  const std::string request = FrameOf(EncodeRequest(verb));
  if (::send(child_->in(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    return ended();
  std::string bytes;
  while (bytes.size() < kFrameHeader || bytes.size() < kFrameHeader + FrameLength(bytes)) {
    if (bytes.size() >= kFrameHeader && FrameLength(bytes) > kMaxFrame)
      return Problem(GiveUp("the process that asks NVML wrote a message of impossible size"));
    pollfd answer{child_->out(), POLLIN, 0};
    if (::poll(&answer, 1, PollMs(until)) == 0) return late();
    char buffer[65536];
    const ssize_t got = ::read(child_->out(), buffer, sizeof buffer);
    if (got == 0) return ended();
    if (got > 0) bytes.append(buffer, static_cast<std::size_t>(got));
    if (got < 0 && errno != EAGAIN && errno != EINTR) return ended();
    if (Steady::now() >= until) return late();
  }
  return bytes.substr(kFrameHeader);
}

tl::expected<void, std::string> NvmlProbe::Ready() {
  if (stuck_) {
    if (!stuck_->Reap(Millis{0})) {
      const std::string pid = std::to_string(stuck_->pid());
      return Problem("driver_unresponsive: process " + pid +
                     " that asked NVML cannot be killed (state " +
                     StateOf(options_.proc_root, stuck_->pid()) + "); reboot the node");
    }
    stuck_.reset();
  }
  if (child_ && opened_) return {};
  if (!child_) {
    const BootTime now = clock_.Now();
    if (spawned_ && now - *spawned_ < options_.respawn_after) return Problem(problem_);
    spawned_ = now;
    std::vector<std::string> argv = {options_.executable, kNvmlChildVerb};
    if (!options_.library.empty()) {
      argv.emplace_back("--library");
      argv.push_back(options_.library);
    }
    auto child = ChildProcess::Spawn({.argv = std::move(argv), .env = {}});
    if (!child) {
      problem_ = "driver_unresponsive: " + child.error().message;
      return Problem(problem_);
    }
    child_ = std::make_unique<ChildProcess>(std::move(*child));
  }
  const auto answer = Exchange(kAskOpen, options_.open_deadline);
  if (!answer) return Problem(answer.error());
  const Result<GpuFacts> facts = DecodeFacts(*answer);
  if (!facts) return Problem(GiveUp(facts.error().message));
  if (facts->problem.empty()) {
    opened_ = true;
    return {};
  }
  if (facts->problem.starts_with(kNoLibrary)) {
    // Nothing to ask: no child stays. The next one looks again.
    child_.reset();
    const std::vector<std::string> functions = NvidiaPciFunctions(options_.sys_root);
    const bool cpu_node = functions.empty() && options_.library.empty() && last_.gpus.empty();
    problem_ = cpu_node ? std::string{}
                        : "driver_missing: " +
                              (functions.empty()
                                   ? std::string{}
                                   : "an NVIDIA GPU is at PCI " + functions.front() + ", but ") +
                              facts->problem.substr(kNoLibrary.size()) +
                              "; install the NVIDIA driver's user-space package";
    return Problem(problem_);
  }
  return Problem(facts->problem);
}

tl::expected<std::string, std::string> NvmlProbe::Ask(std::string_view verb, Millis deadline) {
  if (const auto ready = Ready(); !ready) return Problem(ready.error());
  return Exchange(verb, deadline);
}

GpuFacts NvmlProbe::Unresponsive(const std::string& problem) const {
  GpuFacts facts = last_;
  facts.problem = problem;
  for (GpuDevice& gpu : facts.gpus) {
    gpu.health = Health::kBad;
    gpu.why = problem;
  }
  return facts;
}

GpuFacts NvmlProbe::List() {
  const auto answer = Ask(kAskList, options_.list_deadline);
  if (!answer) return Unresponsive(answer.error());
  Result<GpuFacts> facts = DecodeFacts(*answer);
  if (!facts) return Unresponsive(GiveUp(facts.error().message));
  if (!facts->problem.empty() && facts->gpus.empty()) {
    opened_ = false;
    return Unresponsive(facts->problem);
  }
  for (GpuDevice& gpu : facts->gpus)
    if (const GpuType* type = catalog_.TypeOf(gpu.model, gpu.memory_bytes)) gpu.type = type->name;
  last_ = *facts;
  return *std::move(facts);
}

std::vector<GpuSample> NvmlProbe::Sample() {
  const auto answer = Ask(kAskSample, options_.sample_deadline);
  if (!answer) return {};
  return DecodeSamples(*answer).value_or(std::vector<GpuSample>{});
}

std::optional<GpuProcessList> NvmlProbe::Processes() {
  const auto answer = Ask(kAskProcesses, options_.sample_deadline);
  if (!answer) return std::nullopt;
  Result<GpuProcessList> lists = DecodeProcesses(*answer);
  if (!lists) return std::nullopt;
  for (auto& [uuid, processes] : *lists) {
    for (GpuProcess& process : processes) {
      const std::string directory = options_.proc_root + "/" + std::to_string(process.pid);
      process.name = FirstLine(directory + "/comm");
      struct stat owner {};
      if (::stat(directory.c_str(), &owner) == 0) process.user = NameOfUser(owner.st_uid);
    }
  }
  return *std::move(lists);
}

std::string NvmlProbe::NameOfUser(unsigned uid) {
  if (const auto known = users_.find(uid); known != users_.end()) return known->second;
  return users_[uid] = launch::NameOfUser(uid).value_or(std::to_string(uid));
}

}  // namespace launch::agent
