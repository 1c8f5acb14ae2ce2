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

// Scripts keep the name of their newest checkpoint in such a text too.
TEST_F(CheckpointTest, ATextThatNamesADirectoryOfAnotherFormatIsNotDeepSpeeds) {
  WriteDcp("step_50");
  WriteDcp("step_100");
  for (const std::string tag : {"step_100", "step_100\n", "step_150", "", "../step_100"}) {
    Write("latest", tag);
    for (const char* const format : {"auto", "dcp"}) {
      const auto found = FindOf(format);
      ASSERT_EQ(found.size(), 2u) << tag << format;
      EXPECT_EQ(NewestComplete(found)->path, dir_ + "/step_100") << tag << format;
    }
  }
  fs::create_directories(dir_ + "/step_150");  // made, and not written into yet
  Write("latest", "step_150");
  EXPECT_EQ(NewestComplete(Find())->step, 100);
}

TEST_F(CheckpointTest, ATextThatNamesAFileWithoutItsEndIsNotDeepSpeeds) {
  Write("ckpt_100.pt", Zip("m"));
  Write("latest", "ckpt_100");
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(NewestComplete(Find())->path, dir_ + "/ckpt_100.pt");
  EXPECT_EQ(NewestComplete(FindOf("torch"))->step, 100);
  fs::remove(dir_ + "/ckpt_100.pt");
  WriteHf(40);
  Write("latest", "checkpoint-40");
  EXPECT_EQ(NewestComplete(Find())->path, dir_ + "/checkpoint-40");
  fs::rename(dir_ + "/checkpoint-40", dir_ + "/run");
  WriteDeepSpeed("run", "global_step70");
  Write("latest", "run");  // of which this is one
  for (const char* const format : {"auto", "deepspeed"}) {
    ASSERT_NE(NewestComplete(FindOf(format)), nullptr) << format;
    EXPECT_EQ(NewestComplete(FindOf(format))->path, dir_ + "/run") << format;
  }
}

TEST_F(CheckpointTest, NoOlderTagIsTakenForTheOneThatDeepSpeedsLatestNames) {
  WriteDeepSpeed(".", "global_step10");
  Write("latest", "global_step20");
  const auto expect_none = [&](const char* what) {
    for (const char* const format : {"auto", "deepspeed", "torch", "dcp"}) {
      EXPECT_EQ(NewestComplete(FindOf(format)), nullptr) << what << format;
    }
    ASSERT_EQ(Find().size(), 1u) << what;
    EXPECT_EQ(Find()[0].why, "global_step20 has no model states") << what;
  };
  expect_none("never written");
  fs::create_directories(dir_ + "/global_step20");
  expect_none("made");
  Write("global_step20/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", Zip("o"));
  expect_none("without its model");
  fs::remove_all(dir_ + "/global_step20");
  fs::remove_all(dir_ + "/global_step10");
  EXPECT_EQ(Find().at(0).format, "deepspeed") << "there is nothing else";
  // What its script made of a checkpoint is no state to go on from.
  Write("zero_to_fp32.py", "#!");
  Write("pytorch_model.bin", Zip("w"));
  EXPECT_EQ(NewestComplete(Find()), nullptr);
}

TEST_F(CheckpointTest, ATrainersDirectoryWhoseTagIsLostIsTorn) {
  Write("run/checkpoint-80/trainer_state.json", R"({"global_step": 80})");
  Write("run/checkpoint-80/pytorch_model.bin", Zip("w"));
  Write("run/checkpoint-80/latest", "global_step80");
  for (const char* const in : {"/run", "/run/checkpoint-80"}) {
    const auto found = FindOf("auto", in);
    ASSERT_EQ(found.size(), 1u) << in;
    EXPECT_EQ(found[0].why, "global_step80 has no model states") << in;
  }
}

// A retry with another plan saves in another layout.
TEST_F(CheckpointTest, TheOptimizerMayBeOfAnotherLayoutThanItsSiblings) {
  for (const int step : {50, 100, 150, 200, 250}) WriteHf(step);
  const auto at = [&](int step) { return "checkpoint-" + std::to_string(step) + "/"; };
  for (const int step : {100, 150, 200, 250}) fs::remove(dir_ + "/" + at(step) + "optimizer.pt");
  Write(at(50) + "scheduler.pt", Zip("s"));
  Write(at(100) + "scheduler.pt", Zip("s"));
  Write(at(150) + "scheduler.pt", Zip("s"));
  Write(at(100) + "optimizer.bin", Zip("o"));
  WriteDcp(at(150) + "optimizer_0");
  WriteDeepSpeed(at(200), "global_step200");  // its scheduler is in the tag
  const auto found = Find();
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].why, "optimizer.bin is missing, checkpoint-100 has it");
  for (std::size_t i = 1; i < found.size(); ++i) EXPECT_EQ(found[i].why, "") << found[i].path;
  EXPECT_EQ(NewestComplete(found)->step, 200);
  fs::remove(dir_ + "/" + at(100) + "scheduler.pt");
  EXPECT_FALSE(Find()[3].complete) << "only DeepSpeed's may be elsewhere";
  for (const int step : {50, 100, 150})
    fs::remove_all(dir_ + "/checkpoint-" + std::to_string(step));
  EXPECT_EQ(Find()[0].why, "latest is missing, checkpoint-200 has it");
}

// ProjectConfiguration(automatic_checkpoint_naming=True) of accelerate.
TEST_F(CheckpointTest, LooksIntoTheDirectoryThatAccelerateMakesInItsProject) {
  for (const std::string name : {"checkpoints/checkpoint_0/", "checkpoints/checkpoint_1/"}) {
    Write(name + "model.safetensors", Safetensors(8));
    Write(name + "random_states_0.pkl", "p");
  }
  Write("logs/events.1", "x");
  EXPECT_EQ(Find().size(), 2u);
  EXPECT_EQ(NewestComplete(Find())->path, dir_ + "/checkpoints/checkpoint_1");
  EXPECT_EQ(NewestComplete(FindOf("accelerate"))->step, 1);
  EXPECT_TRUE(FindOf("dcp").empty());
  Write("checkpoints/checkpoint_0/DONE", "");
  EXPECT_EQ(NewestComplete(Find("DONE"))->step, 0);
  Write("step_5.pt", Zip("m"));
  ASSERT_EQ(Find().size(), 1u) << "what is in the directory itself comes first";
  EXPECT_EQ(Find()[0].path, dir_ + "/step_5.pt");
}

TEST_F(CheckpointTest, LooksIntoTheVersionsThatLightningLogs) {
  const std::string logs = "lightning_logs/version_";
  Write(logs + "0/checkpoints/epoch=0-step=40.ckpt", Zip("x"));
  Write(logs + "2/checkpoints/epoch=1-step=80.ckpt", Zip("x"));
  Write(logs + "10/checkpoints/epoch=2-step=120.ckpt", "half");
  Write(logs + "11/hparams.yaml", "{}");
  Write(logs + "x/checkpoints/epoch=9-step=900.ckpt", Zip("x"));
  EXPECT_EQ(Find().size(), 3u);
  EXPECT_EQ(NewestComplete(Find())->path,
            dir_ + "/lightning_logs/version_2/checkpoints/epoch=1-step=80.ckpt");
  EXPECT_EQ(NewestComplete(FindOf("lightning"))->step, 80);
  // The versions of the last runs, of however many there are.
  for (int version = 12; version < 400; ++version)
    fs::create_directories(dir_ + "/" + logs + std::to_string(version));
  EXPECT_EQ(NewestComplete(Find()), nullptr);
  Write(logs + "399/checkpoints/last.ckpt", Zip("x"));
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(NewestComplete(Find())->path, dir_ + "/" + logs + "399/checkpoints/last.ckpt");
}

// The items of a shard are files of torch.save, one behind the other.
TEST_F(CheckpointTest, SeesShardsOfDcpThatWereCutShort) {
  const std::string items = Zip("first") + Zip("second");
  const std::string metadata = PickledShort("__0_0.distcp") + ".";
  Write("step-5/__0_0.distcp", items);
  Write("step-5/.metadata", metadata);
  EXPECT_EQ(Find()[0].why, "");
  for (std::size_t size = 4; size < items.size(); ++size) {
    if (size == Zip("first").size()) continue;  // not even its reader sees it before its last item
    Write("step-5/__0_0.distcp", items.substr(0, size));
    Write("step-5/.metadata", metadata);
    ASSERT_EQ(Find()[0].why, "__0_0.distcp has no end record: it is cut short") << size;
  }
  Write("step-5/__0_0.distcp", "\x28\xb5\x2f\xfd of another writer");
  Write("step-5/.metadata", metadata);
  EXPECT_EQ(Find()[0].why, "") << "compressed";
}

TEST_F(CheckpointTest, SeesMetadataOfDcpThatWasCutShort) {
  Write("step-5/__0_0.distcp", "x");
  Write("step-5/.metadata", PickledShort("__0_0.distcp"));
  EXPECT_EQ(Find()[0].why, ".metadata is cut short");
  fs::remove(dir_ + "/step-5/.metadata");
  Write("step-5/__0.metadata", PickledShort("__0_0.distcp"));
  EXPECT_EQ(Find()[0].why, "__0.metadata is cut short");
  Write("step-5/__0.metadata", PickledShort("__0_0.distcp") + ".");
  EXPECT_EQ(Find()[0].why, "");
}

TEST_F(CheckpointTest, ADirectoryThatOnlyBeginsLikeACheckpointHidesNone) {
  for (const std::string name : {"checkpoint_plots", "checkpoint-plots"}) {
    Write(name + "/a.png", "x");
    Write(name + "/more/b.png", "x");
    Write("step_50.pt", Zip("m"));
    ASSERT_EQ(Find().size(), 1u) << name;
    EXPECT_EQ(NewestComplete(Find())->path, dir_ + "/step_50.pt");
    // Weights make it one, where one may be without a number.
    Write(name + "/more/model.safetensors", Safetensors(8));
    ASSERT_EQ(Find().size(), 1u) << name;
    EXPECT_EQ(Find()[0].path, dir_ + "/" + name);
    fs::remove_all(dir_ + "/" + name);
    // A save that has just begun.
    fs::create_directories(dir_ + "/" + name + "_60");
    ASSERT_EQ(Find().size(), 1u) << name;
    EXPECT_EQ(Find()[0].step, 60);
    fs::remove_all(dir_ + "/" + name + "_60");
  }
}

}  // namespace
}  // namespace launch::agent
