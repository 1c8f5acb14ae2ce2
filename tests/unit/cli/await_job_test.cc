#include "cli/await_job.h"

#include <gtest/gtest.h>

#include <vector>

namespace launch {
namespace {

// A controller with events of job 7, which ends at the `end`th look.
struct Controller {
  explicit Controller(int last_look) : end(last_look) {}

  JobWatch Watch() {
    return {.look = [this]() -> Result<JobView> {
              JobView view;
              view.id = JobId{7};
              view.state = ++looks >= end ? JobState::kSucceeded : JobState::kRunning;
              return view;
            },
            .watch = [this](const WatchCall& call, Millis,
                            const std::function<bool(const EventView&)>& take) -> Result<void> {
              calls.push_back(call);
              if (refuses) return Fail(ErrorCode::kResourceExhausted, "watches 64 times already");
              for (std::uint64_t seq = call.after_seq + 1; seq <= events; ++seq) {
                ++sent;
                if (!take({seq, WallTime{}, "job.state", "job/7", {}})) return {};
              }
              return {};
            },
            .pause = [this](int failures) { pauses.push_back(failures); }};
  }

  int end = 1;
  int looks = 0;
  std::uint64_t events = 0;
  int sent = 0;
  bool refuses = false;
  std::vector<WatchCall> calls;
  std::vector<int> pauses;
};

TEST(AwaitJob, PassesOverWhatHappenedBeforeAtOnce) {
  Controller controller(3);
  controller.events = 1000;
  const auto view = AwaitJob(controller.Watch(), JobId{7}, std::nullopt, [](const JobView&) {});
  ASSERT_TRUE(view);
  ASSERT_EQ(controller.calls.size(), 2u);
  EXPECT_FALSE(controller.calls[0].follow);
  EXPECT_TRUE(controller.calls[1].follow);
  EXPECT_EQ(controller.calls[1].after_seq, 1000u);
  EXPECT_EQ(controller.sent, 1000);
}

TEST(AwaitJob, AsksEverMoreSeldomWhileItMayNotWatch) {
  Controller controller(6);
  controller.refuses = true;
  const auto view = AwaitJob(controller.Watch(), JobId{7}, std::nullopt, [](const JobView&) {});
  ASSERT_TRUE(view);
  EXPECT_EQ(controller.pauses, (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace launch
