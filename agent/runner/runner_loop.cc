#include "agent/runner/runner_loop.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/runner/fence_file.h"

namespace launch::agent {
namespace {

constexpr std::size_t kTaskQueue = 4096;
constexpr std::size_t kTasksAtOnce = 64;
constexpr int kLookMs = 1000;      // logs, and what inotify may have missed
constexpr int kLadderPollMs = 20;  // a cgroup that empties is not announced at every level
constexpr int kTreePollMs = 100;   // there it costs a walk over all processes

}  // namespace

RunnerLoop::RunnerLoop(RunnerOptions options)
    : options_(std::move(options)),
      files_(*options_.files, options_.state_dir + "/reserve", options_.reserve_bytes),
      boot_id_(ReadBootId()),
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

AllocationRun& RunnerLoop::Make(const Key& key) {
  auto& run = runs_[key];
  run = std::make_unique<AllocationRun>(
      key, AttemptDir(AllocationPath(options_.state_dir, key), *options_.files), cgroups_);
  return *run;
}

void RunnerLoop::Notice(std::string kind, const AllocationRun* run, std::optional<Rank> rank,
                        std::string text) {
  from_node::Notice notice{.kind = std::move(kind), .rank = rank, .text = std::move(text)};
  if (run != nullptr) notice.key = run->key;
  Tell(told::NodeNotice{std::move(notice)});
}

void RunnerLoop::Drain() {
  alignas(inotify_event) char bytes[16384];
  while (::read(inotify_.get(), bytes, sizeof bytes) > 0) {
  }
}

int RunnerLoop::NextTimeoutMs() {
  int timeout = unrecorded_.empty() && unreadable_.empty() ? -1 : kLookMs;
  for (const auto& [key, run] : runs_) {
    const bool alive = std::ranges::any_of(
        run->ranks, [](const auto& entry) { return entry.second.spawned && !entry.second.end; });
    const bool logs = !run->logs.empty() && run->phase == RunPhase::kReleased;  // until forgotten
    if (alive || run->setup || run->commands_due || logs) timeout = kLookMs;
    if (run->stop && run->phase != RunPhase::kReleased) {
      return cgroups_.level == Containment::kTree ? kTreePollMs : kLadderPollMs;
    }
  }
  return timeout;
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
  workers_.push_back({std::thread(std::move(run)), state});
  return state;
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
    epoll_event events[32];
    (void)::epoll_wait(epoll_.get(), events, 32, NextTimeoutMs());
    Drain();
    for (RunnerTask& task : tasks_->TakeBatch(kTasksAtOnce, 0)) {
      std::visit([this](auto& what) { Do(what); }, task);
    }
    Sweep();
    LookAtLogs();
  }
}

}  // namespace launch::agent
