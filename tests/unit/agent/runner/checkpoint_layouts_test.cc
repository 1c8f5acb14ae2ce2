// What real directories hold beside whole checkpoints, and where trainers put these.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/unit/agent/runner/checkpoint_bench.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

// TrainerState.save_to_json writes with json.dumps, which has bare words for such numbers.
TEST_F(CheckpointTest, OneBadNumberInTheHistoryOfATrainerSpoilsNoCheckpoint) {
  const std::string history =
      R"({"global_step": 20, "best_metric": -Infinity, "log_history": [{"grad_norm": NaN,
          "note": "\"NaN", "loss": Infinity, "step": 10}, {"grad_norm": 0.5, "step": 20}]})";
  WriteHf(10);
  WriteHf(20);
  Write("checkpoint-20/trainer_state.json", history);
  EXPECT_EQ(Find()[0].why, "");
  EXPECT_EQ(NewestComplete(Find())->step, 20);
  for (const std::size_t size : {history.find(": NaN") + 5, history.size() - 1}) {
    Write("checkpoint-20/trainer_state.json", history.substr(0, size));
    EXPECT_EQ(Find()[0].why, "trainer_state.json does not parse") << size;
  }
}

TEST_F(CheckpointTest, AnIndexOfShardsMayHoldWhatOnlyPythonReads) {
  WriteHf(10);
  fs::rename(dir_ + "/checkpoint-10/model.safetensors", dir_ + "/checkpoint-10/a.safetensors");
  Write("checkpoint-10/model.safetensors.index.json",
        R"({"metadata": {"mean": NaN}, "weight_map": {"w": "a.safetensors"}})");
  EXPECT_TRUE(Find()[0].complete) << Find()[0].why;
}

}  // namespace
}  // namespace launch::agent
