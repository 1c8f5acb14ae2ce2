// RunnerLoop: in place or in a copy of workdir, then setup, then the checks.
#include <utility>

#include "agent/runner/rank_env.h"
#include "agent/runner/runner_loop.h"
#include "agent/runner/staging.h"
#include "agent/runner/workdir_copy.h"

namespace launch::agent {

void RunnerLoop::BeginStaging(AllocationRun& run, bool anew) {
  if (run.spec->setup.empty()) return StartStaging(run, std::nullopt, {});
  // With a copy to fall back on, nothing runs in a directory that is another one here.
  const bool may_copy = !run.spec->snapshot.empty() && !run.in_copy;
  ShimWish shim;
  shim.argv = {"/bin/bash", "--noprofile", "--norc", "-e", "-c", run.spec->setup};
  shim.env = BuildRankEnv(SharedEnv(*run.spec), {}, {},
                          {.attempt = run.dir.path(),
                           .own = run.dir.OwnPath(run.spec->ranks.front().rank),
                           .account = run.account});
  run.staging_number = ++stagings_;
  const auto state =
      RunBeside([spec = *run.spec, account = run.account, may_copy, anew, cgroup = run.cgroup,
                 number = run.staging_number,
                 wish = WishOf(run, kSetupRank, std::move(shim))](const auto&, auto& tasks) {
        const Result<void> remade = anew ? cgroup.RemakeRank(kSetupRank) : Result<void>();
        const bool here = !may_copy || SeesWorkdir(spec, account);
        std::vector<FoundCommand> found = FindCommands(spec, account, {wish});
        if (!remade) found.front().shim = Unexpected(remade.error());
        tasks.PushAlways(SetupFound{spec.key, number, here, std::move(found.front())});
      });
  run.staging_cancel = std::shared_ptr<std::atomic<bool>>(state, &state->cancel);
}

void RunnerLoop::Do(SetupFound& found) {
  AllocationRun* run = Find(found.key);
  if (run == nullptr || !run->staging || run->staging_number != found.number) return;
  run->staging_cancel.reset();
  if (!found.here) return StartStaging(*run, std::nullopt, {});
  Tell(told::StageProgress{.key = run->key, .step = "setup", .line = "running setup"});
  StartSetup(*run, found.command);
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
  run.staging_number = ++stagings_;
  Tell(told::StageProgress{.key = run.key, .step = "copy", .line = "fetching a copy of workdir"});
  const auto state =
      RunBeside([wish = std::move(wish), fetch = options_.fetch_chunks,
                 number = run.staging_number](const std::atomic<bool>& cancel, auto& tasks) {
        tasks.PushAlways(CopyOutcome{wish.key, number, MakeCopy(wish, fetch, cancel)});
      });
  run.staging_cancel = std::shared_ptr<std::atomic<bool>>(state, &state->cancel);
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
    const bool full = entered.error().code == ErrorCode::kResourceExhausted;
    facts.paths.push_back(
        {.what = full ? "copy" : "workdir",
         .path = full ? options_.state_dir : run->spec->workdir,
         .ok = false,
         .why = (full ? "" : "no copy of it could be made: ") + entered.error().message +
                (full || entered.error().hint.empty() ? "" : " (" + entered.error().hint + ")"),
         .inode = 0});
    return Tell(told::StageDone{.key = outcome.key, .facts = std::move(facts)});
  }
  // Left by a staging in place.
  RemoveMarker(*run);
  run->setup.reset();
  (void)options_.files->RemoveTree(run->dir.RankPath(kSetupRank));
  EnterCopy(*run, *outcome.directory);
  BeginStaging(*run, true);
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
