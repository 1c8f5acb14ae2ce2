// Where a job has its files no answer may come: of that the other jobs of the node notice nothing.
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>

#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

constexpr Key kKey{{41}, {1}};
constexpr const char* kMarker = ".launch-marker-41.1";

// Holds every worker that comes while it is dead, as a hard mounted network file system does.
class FileServer {
 public:
  std::function<void()> Hook() {
    return [state = state_] {
      std::unique_lock lock(state->mutex);
      ++state->waiting;
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return !state->dead; });
      --state->waiting;
    };
  }
  void Die() { Set(true); }
  void Revive() { Set(false); }
  int Waiting() {
    const std::lock_guard lock(state_->mutex);
    return state_->waiting;
  }
  bool AwaitVictim() {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, std::chrono::seconds(20),
                                    [&] { return state_->waiting > 0; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool dead = false;
    int waiting = 0;
  };
  void Set(bool dead) {
    const std::lock_guard lock(state_->mutex);
    state_->dead = dead;
    state_->changed.notify_all();
  }
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class JobFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    bench_.options().worker_begins = server_.Hook();
    bench_.Open();
  }
  void TearDown() override { server_.Revive(); }
  // The runner's thread is free: another job comes and goes.
  void ExpectOthersServed() {
    const Key other{{++last_other_}, {1}};
    EXPECT_TRUE(bench_.Accept(bench_.Spec(other, 1, {})));
    EXPECT_TRUE(bench_.Stop(other, Millis{0}));
  }

  FileServer server_;
  RunnerBench bench_;
  std::uint64_t last_other_ = 41;
};

TEST_F(JobFilesTest, AStartThatFindsNoProgramsIsStoppedAndFailed) {
  ASSERT_TRUE(bench_.Accept(bench_.Spec(kKey, 1, {})));
  server_.Die();
  order::Start start;
  start.go.key = kKey;
  bench_.runner().Start(start);
  ASSERT_TRUE(server_.AwaitVictim());
  ExpectOthersServed();
  EXPECT_TRUE(bench_.Stop(kKey, Millis{0}));
  const auto told = bench_.told().Last<told::StartDone>();
  ASSERT_TRUE(told && told->failed);
  EXPECT_EQ(told->failed->text, "it was stopped before it began");
  server_.Revive();
  ExpectOthersServed();
  EXPECT_EQ(bench_.CountLedger("start"), 0) << "the answer came too late";
}

TEST_F(JobFilesTest, AMarkerThatCannotBeRemovedHoldsNoRelease) {
  ASSERT_TRUE(bench_.Accept(bench_.Spec(kKey, 1, {})));
  bench_.runner().Stage({to_node::Stage{.key = kKey, .write_marker = true, .marker = kMarker}});
  ASSERT_TRUE(bench_.told().Await<told::StageDone>([](const auto&) { return true; }));
  const std::string marker = bench_.Path(std::string("work/") + kMarker);
  ASSERT_TRUE(std::filesystem::exists(marker));
  server_.Die();
  EXPECT_TRUE(bench_.Stop(kKey, Millis{0}));
  ASSERT_TRUE(server_.AwaitVictim());
  EXPECT_TRUE(std::filesystem::exists(marker));
  server_.Revive();
  EXPECT_TRUE(bench_.Eventually([&] { return !std::filesystem::exists(marker); }));
}

TEST_F(JobFilesTest, ASetupIsLookedForBesideTheRest) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.setup = "touch ran";
  ASSERT_TRUE(bench_.Accept(spec));
  server_.Die();
  bench_.runner().Stage({to_node::Stage{.key = kKey}});
  ASSERT_TRUE(server_.AwaitVictim());
  ExpectOthersServed();
  EXPECT_TRUE(bench_.Stop(kKey, Millis{0}));
  server_.Revive();
  ExpectOthersServed();
  EXPECT_FALSE(std::filesystem::exists(bench_.Path("work/ran")));
}

// As jobs of many files do on a slow disk.
TEST_F(JobFilesTest, ForgottenAttemptsAreRemovedByOneThread) {
  constexpr int kAttempts = 200;
  const std::string allocations = bench_.Path("state/allocations/");
  for (int i = 1; i <= kAttempts; ++i)
    std::filesystem::create_directories(allocations + "40." + std::to_string(i) + "/files");
  server_.Die();
  for (std::uint32_t i = 1; i <= kAttempts; ++i) bench_.runner().Forget({{{40}, {i}}});
  EXPECT_TRUE(bench_.Eventually([&] { return std::filesystem::is_empty(allocations); }));
  ASSERT_TRUE(server_.AwaitVictim());
  EXPECT_LE(server_.Waiting(), 2) << "it and, when the runner begins, a sweep of logs";
  server_.Revive();
  EXPECT_TRUE(
      bench_.Eventually([&] { return std::filesystem::is_empty(bench_.Path("state/gone")); }));
  // And what comes after that.
  const std::string last = allocations + "40.999";
  std::filesystem::create_directories(last);
  bench_.runner().Forget({{{40}, {999}}});
  EXPECT_TRUE(bench_.Eventually([&] {
    return !std::filesystem::exists(last) && std::filesystem::is_empty(bench_.Path("state/gone"));
  }));
}

}  // namespace
}  // namespace launch::agent
