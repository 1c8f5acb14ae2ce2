// RunnerLoop: in place or in a copy of workdir, then setup, then the checks.
#include <utility>

#include "agent/runner/rank_env.h"
#include "agent/runner/runner_loop.h"
#include "agent/runner/staging.h"
#include "agent/runner/workdir_copy.h"

namespace launch::agent {

// A `setup` may have run in this attempt before, in place or under an agent before this one: its
// group was killed, and nothing may be born into it any more.
void RunnerLoop::BeginStaging(AllocationRun& run) {
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
      RunBeside([spec = *run.spec, account = run.account, may_copy, cgroup = run.cgroup,
                 number = run.staging_number, wish = WishOf(run, kSetupRank, std::move(shim))](
                    const std::atomic<bool>& cancel, auto& tasks) {
        if (cancel) return;  // a newer one may have begun in that group
        const Result<void> remade = cgroup.RemakeRank(kSetupRank);
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
  const auto enter = [&]() -> Result<void> {
    if (!outcome.directory) return Unexpected(outcome.directory.error());
    // What a `setup` in place left goes first: in a copy, an agent after this one would take its
    // end for that of the `setup` there.
    run->setup.reset();
    LAUNCH_RETURN_IF_ERROR(options_.files->RemoveTree(run->dir.RankPath(kSetupRank)));
    return options_.files->WriteDurable(run->dir.CopyNotePath(), *outcome.directory);
  };
  const Result<void> entered = enter();
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
  RemoveMarker(*run);  // left by a staging in place
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
