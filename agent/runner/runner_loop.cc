#include "agent/runner/runner_loop.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "agent/runner/fence_file.h"
#include "common/first_line.h"

namespace launch::agent {
namespace {

constexpr std::size_t kTaskQueue = 4096;
constexpr std::size_t kTasksAtOnce = 64;
constexpr Millis kLadderPoll{20};  // a cgroup that empties is not announced at every level
constexpr Millis kTreePoll{100};   // there it costs a walk over all processes

}  // namespace

RunnerLoop::RunnerLoop(RunnerOptions options)
    : options_(std::move(options)),
      files_(*options_.files, options_.state_dir + "/reserve", options_.reserve_bytes),
      boot_id_(KernelBootId()),
      tasks_(std::make_shared<Mailbox<RunnerTask>>(kTaskQueue)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      kernel_log_(options_.kernel_log),
      next_port_(options_.port_first) {
  options_.files = &files_;
  cgroups_ = SetUpCgroups({options_.cgroup_name, options_.containment, options_.cgroup_root});
  epoll_event event{.events = EPOLLIN, .data = {.fd = tasks_->fd()}};
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, tasks_->fd(), &event);
  if (inotify_) Watch(inotify_);
}

RunnerLoop::~RunnerLoop() {
  for (Worker& worker : workers_) {
    worker.state->cancel = true;
    if (worker.state->done) {
      worker.thread.join();
    } else {
      worker.thread.detach();  // it owns what it uses, and its answer goes nowhere
    }
  }
}

void RunnerLoop::Watch(const UniqueFd& fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd.get()}};
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event);
}

Result<void> RunnerLoop::SaveFence(const Fence& fence) {
  return WriteFence(files_, options_.state_dir, fence);
}

AllocationRun* RunnerLoop::Find(const Key& key) {
  const auto found = runs_.find(key);
  return found == runs_.end() ? nullptr : found->second.get();
}

AllocationRun& RunnerLoop::Make(const Key& key, const CgroupHost& cgroups) {
  auto& run = runs_[key];
  run = std::make_unique<AllocationRun>(
      key, AttemptDir(AllocationPath(options_.state_dir, key), *options_.files), cgroups);
  return *run;
}

void RunnerLoop::Notice(std::string kind, const AllocationRun* run, std::optional<Rank> rank,
                        std::string text) {
  from_node::Notice notice{.kind = std::move(kind), .rank = rank, .text = std::move(text)};
  if (run != nullptr) notice.key = run->key;
  Tell(told::NodeNotice{std::move(notice)});
}

void RunnerLoop::WatchRank(const AllocationRun& run, Rank rank) {
  if (!inotify_) return;
  const int watch = ::inotify_add_watch(inotify_.get(), run.dir.RankPath(rank).c_str(),
                                        IN_CLOSE_WRITE | IN_ONLYDIR);
  if (watch >= 0) watched_[watch] = {run.key, rank};
}

RankRun* RunnerLoop::FindRank(const Key& key, Rank rank) {
  AllocationRun* run = Find(key);
  if (run == nullptr) return nullptr;
  if (rank == kSetupRank) return run->setup ? &*run->setup : nullptr;
  const auto found = run->ranks.find(rank);
  return found == run->ranks.end() ? nullptr : &found->second;
}

// True when a shim closed a record. In the same directories a rank closes its progress file once a
// second, and our own index is written: those are nobody's end.
bool RunnerLoop::TakeChanges() {
  bool changed = false;
  alignas(inotify_event) char bytes[16384];
  for (ssize_t got = 0; (got = ::read(inotify_.get(), bytes, sizeof bytes)) > 0;) {
    for (ssize_t at = 0; at < got;) {
      inotify_event event{};
      std::memcpy(&event, bytes + at, sizeof event);
      const char* const name = bytes + at + sizeof event;
      at += static_cast<ssize_t>(sizeof event + event.len);
      const auto watched = watched_.find(event.wd);
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        next_full_sweep_ = {};
        changed = true;
      } else if (watched == watched_.end()) {
        continue;
      } else if ((event.mask & IN_IGNORED) != 0) {
        watched_.erase(watched);
      } else if (event.len > 0 &&
                 (std::strcmp(name, "start") == 0 || std::strcmp(name, "exit") == 0)) {
        const auto [key, number] = watched->second;
        if (RankRun* rank = FindRank(key, number)) rank->changed = changed = true;
      }
    }
  }
  return changed;
}

// When a sweep is due though nothing is announced.
BootTime RunnerLoop::NextSweep(BootTime now) const {
  BootTime next = now + kIdleLook;
  const auto at = [&](BootTime time) { next = std::min(next, time); };
  // Nothing else tells their end.
  if (!unrecorded_.empty() || !unreadable_.empty() || !waiting_.empty() || !unforgotten_.empty())
    at(now + kLook);
  for (const auto& [key, run] : runs_) {
    const auto alive = [](const RankRun& rank) { return rank.spawned && !rank.end; };
    const bool any =
        std::ranges::any_of(run->ranks, [&](const auto& entry) { return alive(entry.second); });
    const bool logs = !run->logs.empty() && run->phase == RunPhase::kReleased;  // until forgotten
    if (any || run->setup || run->commands_due || logs) at(now + kLook);
    if (!run->stop || run->phase == RunPhase::kReleased) continue;
    // Ends are announced until the kill. What it leaves is not at every level, and a shim that was
    // not ready to listen must be told again.
    const bool untold = std::ranges::any_of(run->ranks, [&](const auto& entry) {
      return alive(entry.second) && entry.second.signal_sent == 0;
    });
    const bool proves = run->stop->step >= StopStep::kKill && !run->stop->told_held;
    if (proves || untold) {
      at(now + (run->cgroup.level() == Containment::kTree ? kTreePoll : kLadderPoll));
    } else if (run->stop->step < StopStep::kKill) {
      at(std::min(now + kLook, run->stop->deadline));
    } else {
      at(now + kLook);
    }
  }
  return next;
}

void RunnerLoop::CancelStaging(AllocationRun& run) {
  if (run.staging_cancel) *run.staging_cancel = true;
  run.staging_cancel.reset();
  run.staging.reset();
}

std::shared_ptr<RunnerLoop::WorkerState> RunnerLoop::RunBeside(
    std::function<void(const std::atomic<bool>& cancel, Mailbox<RunnerTask>& tasks)> work) {
  auto state = std::make_shared<WorkerState>();
  auto run = [work = std::move(work), state, tasks = tasks_, begins = options_.worker_begins] {
    if (begins) begins();
    work(state->cancel, *tasks);
    state->done = true;
  };
  waiting_.push_back({std::move(run), state});
  StartWaiting();
  return state;
}

// A limit of processes, which ranks of the same account can reach, must not end the agent.
void RunnerLoop::StartWaiting() {
  while (!waiting_.empty()) {
    try {
      workers_.push_back({std::thread(waiting_.front().run), waiting_.front().state});
    } catch (const std::system_error&) {
      return;  // at the next sweep
    }
    waiting_.pop_front();
  }
}

void RunnerLoop::JoinFinished() {
  std::erase_if(workers_, [](Worker& worker) {
    if (!worker.state->done) return false;
    worker.thread.join();
    return true;
  });
}

void RunnerLoop::Run() {
  while (!quit_) {
    const std::int64_t wait = (next_sweep_ - options_.clock->Now()).count();
    const int timeout = static_cast<int>(std::clamp<std::int64_t>(wait, 0, kIdleLook.count()));
    epoll_event events[32];
    const int count = ::epoll_wait(epoll_.get(), events, 32, timeout);
    bool due = TakeChanges();
    for (int i = 0; i < count; ++i) due = due || events[i].data.fd != inotify_.get();
    for (RunnerTask& task : tasks_->TakeBatch(kTasksAtOnce, 0)) {
      std::visit([this](auto& what) { Do(what); }, task);
      due = true;
    }
    if (!due && options_.clock->Now() < next_sweep_) continue;
    Sweep();
    LookAtLogs();
    next_sweep_ = NextSweep(options_.clock->Now());
  }
}

}  // namespace launch::agent
