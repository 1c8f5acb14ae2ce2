// RunnerLoop: in place or in a copy of workdir, then setup, then the checks.
#include <utility>

#include "agent/runner/runner_loop.h"
#include "agent/runner/staging.h"
#include "agent/runner/workdir_copy.h"

namespace launch::agent {

void RunnerLoop::BeginStaging(AllocationRun& run) {
  // With a copy to fall back on, nothing runs in a directory that is another one here.
  const bool may_copy = !run.spec->snapshot.empty() && !run.in_copy;
  if (run.spec->setup.empty() || (may_copy && !SeesWorkdir(*run.spec, run.account))) {
    return StartStaging(run, std::nullopt, {});
  }
  Tell(told::StageProgress{.key = run.key, .step = "setup", .line = "running setup"});
  StartSetup(run);
}

// On a thread of its own, as StartStaging.
void RunnerLoop::StartFetch(AllocationRun& run) {
  CopyWish wish{.state_dir = options_.state_dir,
                .key = run.key,
                .user = run.spec->user,
                .root = run.spec->snapshot,
                .live_jobs = {},
                .account = run.account};
  for (const auto& [key, other] : runs_) wish.live_jobs.push_back(key.job);
  auto state = std::make_shared<WorkerState>();
  run.staging_number = ++stagings_;
  run.staging_cancel = std::shared_ptr<std::atomic<bool>>(state, &state->cancel);
  Tell(told::StageProgress{.key = run.key, .step = "copy", .line = "fetching a copy of workdir"});
  auto work = [tasks = tasks_, wish = std::move(wish), state, fetch = options_.fetch_chunks,
               number = run.staging_number] {
    tasks->PushAlways(CopyOutcome{wish.key, number, MakeCopy(wish, fetch, state->cancel)});
    state->done = true;
  };
  workers_.push_back({std::thread(std::move(work)), state});
}

void RunnerLoop::Do(CopyOutcome& outcome) {
  AllocationRun* run = Find(outcome.key);
  if (run == nullptr || !run->staging || run->staging_number != outcome.number) return;
  run->staging_cancel.reset();
  Result<void> entered;
  if (outcome.directory) {
    entered = options_.files->WriteDurable(run->dir.CopyNotePath(), *outcome.directory);
  } else {
    entered = Unexpected(outcome.directory.error());
  }
  if (!entered) {
    run->staging.reset();
    StagingFacts facts;
    facts.from_snapshot = true;
    facts.wall = options_.clock->WallNow();
    facts.paths.push_back({.what = "workdir",
                           .path = run->spec->workdir,
                           .ok = false,
                           .why = "no copy of it could be made: " + entered.error().message,
                           .inode = 0});
    return Tell(told::StageDone{.key = outcome.key, .facts = std::move(facts)});
  }
  // Left by a staging in place.
  RemoveMarker(*run);
  run->setup.reset();
  (void)options_.files->RemoveTree(run->dir.RankPath(kSetupRank));
  EnterCopy(*run, *outcome.directory);
  BeginStaging(*run);
}

void RunnerLoop::EnterCopy(AllocationRun& run, const std::string& directory) {
  run.spec = InCopy(std::move(*run.spec), directory);
  run.in_copy = true;
}

// After an agent restart: the note tells where the allocation was staged.
void RunnerLoop::LookForCopy(AllocationRun& run) {
  if (const auto directory = options_.files->Read(run.dir.CopyNotePath(), 4096)) {
    EnterCopy(run, *directory);
  }
}

}  // namespace launch::agent
