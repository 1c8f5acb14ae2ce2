// Which checkpoints are complete: made small by hand, and one by torch itself where it is there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <thread>

#include "agent/runner/checkpoint_dcp.h"
#include "agent/runner/checkpoint_files.h"
#include "agent/runner/checkpoint_finder.h"
#include "agent/runner/checkpoint_loose.h"
#include "tests/unit/agent/runner/checkpoint_bench.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

TEST_F(CheckpointTest, TakesTheNewestCompleteOneByStepNotByName) {
  WriteHf(9);
  WriteHf(100);
  WriteHf(20);
  const auto found = Find();
  ASSERT_EQ(found.size(), 3u);
  ASSERT_NE(NewestComplete(found), nullptr);
  EXPECT_EQ(NewestComplete(found)->step, 100);
  EXPECT_EQ(NewestComplete(found)->format, "hf");
  EXPECT_EQ(NewestComplete(found)->path, dir_ + "/checkpoint-100");
}

TEST_F(CheckpointTest, OfVeryManyKeepsTheNewestAndTheNewestCompleteOne) {
  for (int step = 1; step <= kMaxCheckpoints + 50; ++step)
    Write("step" + std::to_string(step) + ".pt", step == 7 ? Zip("w") : "half");
  const auto found = Find();
  ASSERT_EQ(found.size(), static_cast<std::size_t>(kMaxCheckpoints));
  EXPECT_EQ(found.front().step, kMaxCheckpoints + 50);
  ASSERT_NE(NewestComplete(found), nullptr);
  EXPECT_EQ(NewestComplete(found)->step, 7);
}

TEST_F(CheckpointTest, SkipsAHalfWrittenOneAndSaysWhy) {
  WriteHf(10);
  WriteHf(20);
  fs::remove(dir_ + "/checkpoint-20/trainer_state.json");
  const auto found = Find();
  EXPECT_EQ(found[0].step, 20);
  EXPECT_FALSE(found[0].complete);
  EXPECT_EQ(found[0].why, "trainer_state.json is missing");
  EXPECT_EQ(NewestComplete(found)->step, 10);
}

TEST_F(CheckpointTest, SeesWeightsThatWereCutShort) {
  WriteHf(10);
  fs::resize_file(dir_ + "/checkpoint-10/model.safetensors", 100);
  EXPECT_EQ(Find()[0].why, "model.safetensors is cut short");
}

TEST_F(CheckpointTest, SeesAnOptimizerThatWasCutShort) {
  WriteHf(10);
  const std::string path = dir_ + "/checkpoint-10/optimizer.pt";
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_NE(Find()[0].why.find("optimizer.pt"), std::string::npos);
}

TEST_F(CheckpointTest, NeedsEveryShardOfTheIndex) {
  WriteHf(10);
  fs::remove(dir_ + "/checkpoint-10/model.safetensors");
  Write("checkpoint-10/model.safetensors.index.json",
        R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  Write("checkpoint-10/model-1.safetensors", Safetensors(8));
  EXPECT_EQ(Find()[0].why, "weights model-2.safetensors are missing");
  Write("checkpoint-10/model-2.safetensors", Safetensors(8));
  EXPECT_TRUE(Find()[0].complete);
}

TEST_F(CheckpointTest, NeedsWeightsAtAll) {
  WriteHf(10);
  fs::remove(dir_ + "/checkpoint-10/model.safetensors");
  EXPECT_EQ(Find()[0].why, "no weights");
}

TEST_F(CheckpointTest, ChecksTheZipOfTorchSaveAtEveryCut) {
  const std::string good = Zip("0123456789");
  Write("step_7.pt", good);
  EXPECT_EQ(WhyTorchIncomplete(dir_ + "/step_7.pt"), "");
  EXPECT_EQ(Find()[0].step, 7);
  for (std::size_t size = 0; size < good.size(); ++size) {
    Write("cut.pt", good.substr(0, size));
    EXPECT_NE(WhyTorchIncomplete(dir_ + "/cut.pt"), "") << size;
  }
  std::string shifted = good;
  shifted.erase(40, 5);  // bytes lost in the middle
  Write("cut.pt", shifted);
  EXPECT_NE(WhyTorchIncomplete(dir_ + "/cut.pt"), "");
}

TEST_F(CheckpointTest, TakesDcpOnlyWithItsMetadata) {
  Write("step-5/__0_0.distcp", "x");
  EXPECT_EQ(Find()[0].why, ".metadata is missing: the save did not finish");
  Write("step-5/.metadata", "");
  EXPECT_EQ(Find()[0].why, ".metadata is empty");
  Write("step-5/.metadata", "m.");
  EXPECT_TRUE(Find()[0].complete);
  Write("step-5/__1_0.distcp", "");
  EXPECT_EQ(Find()[0].why, "__1_0.distcp is empty") << "nobody says whether it should be";
}

TEST_F(CheckpointTest, NeedsTheShardsThatTheMetadataOfDcpNames) {
  // Protocols 4 and 2; a name in the middle of another string is none.
  Write("step-5/.metadata", PickledShort("__0_0.distcp") + "\x94" + Pickled("__1_0.distcp") +
                                "q\1" + Pickled("of/__7_0.distcp") + "__8_0.distcp.");
  Write("step-5/__0_0.distcp", "x");
  EXPECT_EQ(Find()[0].why, "__1_0.distcp is missing");
  Write("step-5/__1_0.distcp", "");
  EXPECT_EQ(Find()[0].why, "__1_0.distcp is empty");
  Write("step-5/__1_0.distcp", "x");
  EXPECT_TRUE(Find()[0].complete) << Find()[0].why;
  Write("step-5/__2_0.distcp", "");
  EXPECT_TRUE(Find()[0].complete) << "of a rank that had nothing to save";
  // Over the border of what is read at once.
  const std::string far = std::string((1 << 20) - 7, 'f') + PickledShort("__3_0.distcp");
  Write("step-5/.metadata", far + ".");
  EXPECT_EQ(Find()[0].why, "__3_0.distcp is missing");
}

TEST_F(CheckpointTest, ADcpThatWasBeingSavedOverIsNone) {
  const std::string shard = dir_ + "/step-5/__0_0.distcp";
  const std::string metadata = dir_ + "/step-5/.metadata";
  Write("step-5/__0_0.distcp", "x");
  std::this_thread::sleep_for(
      std::chrono::milliseconds(30));  // born before, also by a coarse clock
  Write("step-5/.metadata", PickledShort("__0_0.distcp") + ".");
  fs::last_write_time(shard, fs::last_write_time(metadata));
  EXPECT_TRUE(Find()[0].complete) << "a clock may be coarse";
  fs::last_write_time(shard, fs::last_write_time(metadata) + std::chrono::seconds(30));
  EXPECT_EQ(Find()[0].why,
            "__0_0.distcp is newer than .metadata: a save over it did not finish (of a copy: "
            "touch .metadata)");
  fs::last_write_time(metadata, fs::last_write_time(shard));
  EXPECT_TRUE(Find()[0].complete);
}

TEST(DcpSave, IsToldFromACopyAlsoWhereFilesHaveNoTimeOfBirth) {
  constexpr std::int64_t kMinute = 60'000'000'000;
  const FileTimes metadata{.modified = 10 * kMinute, .changed = 30 * kMinute, .born = {}};
  const FileTimes written{.modified = 31 * kMinute, .changed = 31 * kMinute, .born = {}};
  EXPECT_TRUE(SavedOver(metadata, written, 0));
  EXPECT_FALSE(SavedOver(metadata, written, 30 * kMinute));
  const FileTimes copied{.modified = 11 * kMinute, .changed = 31 * kMinute, .born = {}};
  EXPECT_FALSE(SavedOver(metadata, copied, 0)) << "with the time of its upload";
}

TEST_F(CheckpointTest, ACopyOfDcpMayComeInAnyOrder) {
  struct statx info {};
  Write("step-5/.metadata", PickledShort("__0_0.distcp") + ".");
  const std::string metadata = dir_ + "/step-5/.metadata";
  ASSERT_EQ(::statx(AT_FDCWD, metadata.c_str(), 0, STATX_BTIME, &info), 0);
  if ((info.stx_mask & STATX_BTIME) == 0) GTEST_SKIP() << "no time of birth on this file system";
  Write("step-5/__0_0.distcp", "x");
  fs::last_write_time(dir_ + "/step-5/__0_0.distcp",
                      fs::last_write_time(metadata) + std::chrono::seconds(30));
  EXPECT_TRUE(Find()[0].complete) << Find()[0].why;
}

TEST_F(CheckpointTest, TakesDcpWhoseRanksSavedEachForItself) {
  for (const std::string rank : {"0", "1"}) {
    const std::string shard = "__" + rank + "_0.distcp";
    Write("step-5/" + shard, "x");
    Write("step-5/__" + rank + ".metadata", PickledShort(shard) + ".");
  }
  const auto why = [&](int world) {
    return FindCheckpoints({.directory = dir_, .marker = {}, .world = world}).at(0).why;
  };
  EXPECT_EQ(why(2), "");
  EXPECT_EQ(why(4), "__2.metadata is missing, the job has 4 ranks");
  fs::remove(dir_ + "/step-5/__1_0.distcp");
  EXPECT_EQ(why(2), "__1_0.distcp is missing");
}

TEST_F(CheckpointTest, TakesDeepSpeedByItsLatestTag) {
  Write("latest", "global_step12\n");
  Write("global_step12/mp_rank_00_model_states.pt", Zip("m"));
  Write("global_step12/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", Zip("o"));
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(Find()[0].step, 12);
  EXPECT_TRUE(Find()[0].complete);
  Write("global_step12/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt", Zip("o"));
  EXPECT_EQ(Find()[0].why, "global_step12 lacks the optimizer states of a rank");
}

TEST_F(CheckpointTest, ATextThatNamesTheNewestFileIsNotDeepSpeeds) {
  Write("latest", "step_100.pt\n");
  Write("step_100.pt", Zip("m"));
  const auto found = Find();
  ASSERT_NE(NewestComplete(found), nullptr);
  EXPECT_EQ(NewestComplete(found)->format, "torch");
  EXPECT_EQ(NewestComplete(found)->step, 100);
}

// As pytorch/examples imagenet and timm name them.
TEST_F(CheckpointTest, TakesFilesThatAreCalledTar) {
  Write("checkpoint-19.pth.tar", Zip("m"));
  Write("checkpoint-20.pth.tar", Zip("m"));
  Write("model_best.pth.tar", Zip("m"));
  Write("data.tar", Zip("d"));
  auto found = Find();
  ASSERT_NE(NewestComplete(found), nullptr);
  EXPECT_EQ(NewestComplete(found)->path, dir_ + "/checkpoint-20.pth.tar");
  fs::resize_file(dir_ + "/checkpoint-20.pth.tar", 10);
  found = Find();
  ASSERT_NE(NewestComplete(found), nullptr);
  EXPECT_EQ(NewestComplete(found)->path, dir_ + "/checkpoint-19.pth.tar");
}

TEST_F(CheckpointTest, WithoutZeroTheOptimizerIsInTheModelStates) {
  const std::string before = Pickled("optimizer") + "q\1}q\2";
  Write("latest", "global_step12");
  Write("global_step12/mp_rank_00_model_states.pt", Zip(before + Pickled("param_shapes") + "q\3N"));
  EXPECT_TRUE(Find()[0].complete) << Find()[0].why;
  Write("global_step12/mp_rank_01_model_states.pt",
        Zip(before + Pickled("param_shapes") + "r" + std::string(4, '\1') + "]"));
  EXPECT_EQ(Find()[0].why, "global_step12 has no optimizer states") << "ZeRO keeps them beside";
}

TEST_F(CheckpointTest, TakesAccelerateWithWeightsAndRandomStates) {
  Write("checkpoint_3/model.safetensors", Safetensors(8));
  EXPECT_EQ(Find()[0].why, "no random_states_R.pkl");
  Write("checkpoint_3/random_states_0.pkl", "p");
  EXPECT_TRUE(Find()[0].complete);
}

TEST_F(CheckpointTest, AnAccelerateSaveThatRankZeroHadNotFinishedIsNone) {
  for (const std::string name : {"checkpoint_0/", "checkpoint_1/"}) {
    Write(name + "model.safetensors", Safetensors(8));
    Write(name + "optimizer.bin", Zip("o"));
    Write(name + "random_states_0.pkl", "p");
    Write(name + "random_states_1.pkl", "p");
  }
  EXPECT_EQ(NewestComplete(Find())->step, 1);
  const std::string newest = dir_ + "/checkpoint_1/";
  fs::remove(newest + "random_states_0.pkl");
  EXPECT_EQ(Find()[0].why, "random_states_R.pkl of a rank is missing");
  Write("checkpoint_1/random_states_0.pkl", "p");
  fs::resize_file(newest + "optimizer.bin", fs::file_size(newest + "optimizer.bin") - 1);
  EXPECT_NE(Find()[0].why.find("optimizer.bin"), std::string::npos);
  fs::remove(newest + "optimizer.bin");
  EXPECT_EQ(Find()[0].why, "optimizer.bin is missing, checkpoint_0 has it");
  EXPECT_EQ(NewestComplete(Find())->step, 0);
}

TEST_F(CheckpointTest, AnAccelerateSaveThatTheLastRanksHadNotFinishedIsNone) {
  for (const int step : {0, 1}) {
    const std::string name = "checkpoint_" + std::to_string(step) + "/";
    Write(name + "model.safetensors", Safetensors(8));
    for (const int rank : {0, 1, 2})
      if (rank == 0 || step == 0)
        Write(name + "random_states_" + std::to_string(rank) + ".pkl", "p");
  }
  EXPECT_EQ(NewestComplete(FindFor(3))->step, 0);
  EXPECT_EQ(FindFor(3)[0].why, "random_states_R.pkl of 1 ranks, checkpoint_0 has 3");
  EXPECT_EQ(NewestComplete(FindFor(1))->step, 1) << "the job has fewer ranks since";
  fs::remove_all(dir_ + "/checkpoint_0");
  EXPECT_EQ(NewestComplete(FindFor(3))->step, 1) << "it had fewer before";
}

// accelerate 1.15, save_accelerator_state and save_custom_state: by torch.save, the latter last.
TEST_F(CheckpointTest, AnAccelerateSaveWhoseLastFilesAreTornIsNone) {
  for (const std::string name : {"checkpoint_0/", "checkpoint_1/"}) {
    Write(name + "model.safetensors", Safetensors(8));
    Write(name + "random_states_0.pkl", Zip("p"));
    Write(name + "custom_checkpoint_0.pkl", Zip("c"));
  }
  EXPECT_EQ(NewestComplete(Find())->step, 1);
  Write("checkpoint_1/custom_checkpoint_0.pkl", Zip("c").substr(0, 60));
  EXPECT_NE(Find()[0].why.find("custom_checkpoint_0.pkl"), std::string::npos);
  fs::remove(dir_ + "/checkpoint_1/custom_checkpoint_0.pkl");
  EXPECT_EQ(Find()[0].why, "custom_checkpoint_0.pkl is missing, checkpoint_0 has it");
  Write("checkpoint_1/custom_checkpoint_0.pkl", Zip("c"));
  Write("checkpoint_1/random_states_0.pkl", Zip("p").substr(0, 60));
  EXPECT_EQ(NewestComplete(Find())->step, 0);
}

TEST_F(CheckpointTest, AccelerateSavesOfFewerRanksCountWhenTheJobGrowsAgain) {
  for (const int step : {10, 20, 30}) {
    const std::string name = "checkpoint_" + std::to_string(step) + "/";
    Write(name + "model.safetensors", Safetensors(8));
    const int ranks = step == 10 ? 4 : 2;  // a node was away
    for (int rank = 0; rank < ranks; ++rank)
      Write(name + "random_states_" + std::to_string(rank) + ".pkl", "p");
  }
  EXPECT_EQ(NewestComplete(FindFor(4))->step, 30);
  fs::remove(dir_ + "/checkpoint_30/random_states_1.pkl");
  EXPECT_EQ(NewestComplete(FindFor(4))->step, 20) << "the newest alone is short";
}

// As Megatron-LM's training/checkpointing.py names them: without a pipeline, with one.
TEST_F(CheckpointTest, TakesTheRanksOfAModelOfMegatron) {
  const auto write = [&](const std::string& iteration, const std::string& rank) {
    const std::string name = "iter_" + iteration + "/mp_rank_" + rank + "/";
    Write(name + "model_optim_rng.pt", Zip("m"));
    Write(name + "distrib_optim.pt", Zip("o"));
  };
  for (const std::string iteration : {"0000100", "0000200"}) {
    for (const std::string rank : {"00_000", "00_001", "01_000", "01_001"}) write(iteration, rank);
  }
  const std::string newest = dir_ + "/iter_0000200/";
  EXPECT_EQ(FindFor(4).at(0).why,
            "latest_checkpointed_iteration.txt is missing beside it: the save did not finish");
  Write("latest_checkpointed_iteration.txt", "100");
  EXPECT_EQ(FindFor(4).at(0).why,
            "latest_checkpointed_iteration.txt names iteration 100: the save did not finish");
  ASSERT_NE(NewestComplete(FindFor(4)), nullptr) << FindFor(4).at(1).why;
  EXPECT_EQ(NewestComplete(FindFor(4))->path, dir_ + "/iter_0000100");
  Write("latest_checkpointed_iteration.txt", "200\n");
  EXPECT_EQ(NewestComplete(FindFor(4))->step, 200);
  EXPECT_EQ(NewestComplete(FindFor(4))->format, "megatron");
  for (const char* const format : {"megatron", "dcp", "hf"}) {
    EXPECT_EQ(FindOf(format).size(), format == std::string("megatron") ? 2u : 0u) << format;
  }

  const std::string optimizer = newest + "mp_rank_01_000/distrib_optim.pt";
  fs::resize_file(optimizer, fs::file_size(optimizer) - 1);
  EXPECT_NE(FindFor(4).at(0).why.find("mp_rank_01_000/distrib_optim.pt"), std::string::npos);
  EXPECT_EQ(NewestComplete(FindFor(4))->step, 100);
  fs::remove(optimizer);
  EXPECT_EQ(FindFor(4).at(0).why,
            "mp_rank_01_000/distrib_optim.pt is missing, iter_0000100 has it");
  fs::remove(newest + "mp_rank_01_000/model_optim_rng.pt");
  EXPECT_EQ(FindFor(4).at(0).why,
            "mp_rank_01_000/model_optim_rng.pt is missing: the save did not finish");
  fs::remove_all(newest + "mp_rank_01_000");
  EXPECT_EQ(FindFor(4).at(0).why,
            "mp_rank_01_000/distrib_optim.pt is missing, iter_0000100 has it");
  EXPECT_TRUE(FindFor(2).at(0).complete) << "the other one is of more ranks than the job has";
  write("0000200", "03_000");
  EXPECT_EQ(FindFor(2).at(0).why, "the mp_rank of a rank of the model is missing");
  fs::remove_all(newest);
  for (const char* const text : {"release", "", "-1", "\xff"}) {
    Write("latest_checkpointed_iteration.txt", text);
    EXPECT_EQ(FindFor(4).at(0).why, "latest_checkpointed_iteration.txt names no iteration");
  }
}

// Ranks of experts need not meet all ranks of tensors; copies of the model may be fewer than
// before.
TEST_F(CheckpointTest, AsksForNoRankOfMegatronThatMayNotBeThere) {
  Write("latest_checkpointed_iteration.txt", "20");
  for (const std::string name : {"iter_0000010/mp_rank_", "iter_0000020/mp_rank_"}) {
    for (const std::string rank : {"00_000", "01_001"})
      Write(name + rank + "/model_optim_rng.pt", Zip("m"));
  }
  Write("iter_0000010/mp_rank_00_000/layer_wise_optimizer_0.pt", Zip("o"));
  Write("iter_0000010/mp_rank_00_000/layer_wise_optimizer_1.pt", Zip("o"));
  Write("iter_0000020/mp_rank_00_000/layer_wise_optimizer_0.pt", Zip("o"));
  EXPECT_EQ(NewestComplete(FindFor(2))->step, 20) << FindFor(2).at(0).why;
}

TEST_F(CheckpointTest, TakesTheDcpOfMegatronOnceItsTrackerNamesIt) {
  for (const std::string name : {"iter_0000100", "iter_0000200"}) {
    WriteDcp(name);
    Write(name + "/common.pt", Zip("c"));
  }
  EXPECT_EQ(Find().at(0).why, "metadata.json is missing: the save did not finish");
  for (const std::string name : {"iter_0000100", "iter_0000200"})
    Write(name + "/metadata.json", R"({"sharded_backend": "torch_dist"})");
  EXPECT_EQ(NewestComplete(Find())->step, 200) << "trainers without a tracker call theirs so too";
  Write("latest_checkpointed_iteration.txt", "100");
  EXPECT_EQ(Find().at(0).why,
            "latest_checkpointed_iteration.txt names iteration 100: the save did not finish");
  for (const char* const format : {"auto", "dcp", "megatron"})
    EXPECT_EQ(NewestComplete(FindOf(format))->step, 100) << format;
  Write("latest_checkpointed_iteration.txt", "300");
  EXPECT_EQ(NewestComplete(Find())->step, 200);
  fs::resize_file(dir_ + "/iter_0000200/common.pt", 10);
  EXPECT_EQ(NewestComplete(Find())->step, 100);
}

TEST_F(CheckpointTest, TakesTheWeightsOfNemoBelowItsName) {
  const auto name = [](int step) {
    return "default--val_loss=0.31-step=" + std::to_string(step) + "-consumed_samples=80.0-last";
  };
  for (const int step : {9, 19}) {
    WriteDcp(name(step) + "/weights");
    Write(name(step) + "/weights/common.pt", Zip("c"));
    Write(name(step) + "/weights/metadata.json", "{}");
    Write(name(step) + "/context/io.json", "{}");
  }
  const std::string newest = dir_ + "/" + name(19);
  ASSERT_NE(NewestComplete(Find()), nullptr) << Find().at(0).why;
  EXPECT_EQ(NewestComplete(Find())->path, newest);
  EXPECT_EQ(NewestComplete(Find())->format, "dcp");
  EXPECT_EQ(NewestComplete(Find())->step, 19);
  Write(name(19) + "-unfinished", "");
  EXPECT_EQ(Find().at(0).why, name(19) + "-unfinished is beside it: the save did not finish");
  EXPECT_EQ(NewestComplete(Find())->step, 9);
  fs::remove(newest + "-unfinished");
  fs::remove_all(newest + "/context");
  EXPECT_EQ(NewestComplete(Find())->step, 19) << "written at the end of a training alone";
  fs::remove(newest + "/weights/metadata.json");
  EXPECT_EQ(Find().at(0).why, "weights/metadata.json is missing: the save did not finish");
  fs::remove(newest + "/weights/.metadata");
  EXPECT_EQ(Find().at(0).why, "weights/.metadata is missing: the save did not finish");
  EXPECT_EQ(NewestComplete(Find())->step, 9);
}

TEST_F(CheckpointTest, TakesOlmosOnceItsLastFileIsThere) {
  for (const std::string name : {"step100", "step200"}) {
    Write(name + "/train/rank0.pt", Zip("t"));
    WriteDcp(name + "/model_and_optim");
    Write(name + "/.metadata.json", "{}");
  }
  const std::string newest = dir_ + "/step200/";
  ASSERT_NE(NewestComplete(Find()), nullptr) << Find().at(0).why;
  EXPECT_EQ(NewestComplete(Find())->path, dir_ + "/step200");
  Write("step200/model_and_optim/.metadata",
        PickledShort("__0_0.distcp") + Pickled("__1_0.distcp") + ".");
  EXPECT_EQ(Find().at(0).why, "model_and_optim/__1_0.distcp is missing");
  Write("step200/model_and_optim/.metadata", "m.");
  Write("step200/train/rank1.pt", "half");
  EXPECT_EQ(Find().at(0).why, "train/rank1.pt is not a complete torch.save file");
  Write("step200/train/rank1.pt", Zip("t"));
  fs::remove(newest + ".metadata.json");
  EXPECT_EQ(Find().at(0).why, ".metadata.json is missing: the save did not finish");
  fs::remove_all(newest + "model_and_optim");  // as saved in the background: first the trainer's
  EXPECT_EQ(Find().at(0).why, "model_and_optim is missing: the save did not finish");
  EXPECT_EQ(NewestComplete(Find())->step, 100);
  fs::rename(dir_ + "/step100", dir_ + "/step100-tmp");
  EXPECT_EQ(NewestComplete(Find()), nullptr);
}

TEST_F(CheckpointTest, NeedsEveryDcpBelowTheDirectoryOfAStep) {
  for (const std::string name : {"iter_000000010", "iter_000000020"}) {
    for (const std::string part : {"/model", "/optim", "/trainer"}) WriteDcp(name + part);
  }
  ASSERT_NE(NewestComplete(Find()), nullptr) << Find().at(0).why;
  EXPECT_EQ(NewestComplete(Find())->step, 20);
  fs::remove_all(dir_ + "/iter_000000020/trainer");
  EXPECT_EQ(Find().at(0).why, "trainer is missing, iter_000000010 has it");
  fs::remove(dir_ + "/iter_000000020/optim/.metadata");
  EXPECT_EQ(Find().at(0).why, "optim/.metadata is missing: the save did not finish");
  fs::remove(dir_ + "/iter_000000020/optim/__0_0.distcp");
  EXPECT_EQ(Find().at(0).why, "optim is empty: the save did not finish");
  EXPECT_EQ(NewestComplete(Find())->step, 10);
}

// `checkpoint.dir` is a directory too high: none of these is one checkpoint of several parts.
TEST_F(CheckpointTest, TakesNoDirectoryOfCheckpointsForOne) {
  for (const std::string name : {"run/step-10", "run/step-20", "run_2/last", "epoch_1/ckpt-5"})
    WriteDcp(name);
  EXPECT_TRUE(Find().empty()) << Find().at(0).path;
}

// As the training scripts of diffusers save: whole models below, or weights of LoRA.
TEST_F(CheckpointTest, TakesAccelerateUnderANameOfTheHuggingFaceTrainer) {
  for (const int step : {500, 1000}) {
    const std::string name = "checkpoint-" + std::to_string(step) + "/";
    Write(name + "unet/diffusion_pytorch_model.safetensors", Safetensors(8));
    Write(name + "unet_ema/diffusion_pytorch_model.safetensors", Safetensors(8));
    Write(name + "optimizer.bin", Zip("o"));
    Write(name + "scheduler.bin", Zip("s"));
    Write(name + "random_states_0.pkl", Zip("r"));
  }
  const auto found = Find();
  ASSERT_NE(NewestComplete(found), nullptr) << found.at(0).why;
  EXPECT_EQ(NewestComplete(found)->step, 1000);
  EXPECT_EQ(NewestComplete(found)->format, "accelerate");
  const std::string newest = "checkpoint-1000/";
  fs::resize_file(dir_ + "/" + newest + "unet/diffusion_pytorch_model.safetensors", 60);
  EXPECT_EQ(Find()[0].why, "unet/diffusion_pytorch_model.safetensors is cut short");
  fs::remove_all(dir_ + "/" + newest + "unet");
  fs::remove_all(dir_ + "/" + newest + "unet_ema");
  EXPECT_EQ(Find()[0].why, "no weights");
  Write(newest + "pytorch_lora_weights.safetensors", Safetensors(8));
  EXPECT_TRUE(Find()[0].complete) << Find()[0].why;
  fs::remove(dir_ + "/" + newest + "random_states_0.pkl");  // written behind all of these
  EXPECT_FALSE(Find()[0].complete);
  WriteDeepSpeed("checkpoint-1000", "pytorch_model");
  EXPECT_EQ(Find()[0].why, "no random_states_R.pkl");
}

// accelerate 1.15 writes the weights, then the optimizer and the scheduler, then the random states.
TEST_F(CheckpointTest, SaysOfATornSaveOfAccelerateWhatIsMissingThere) {
  const char* const neither =
      "neither trainer_state.json nor accelerate's random_states_R.pkl is there";
  Write("checkpoint-500/unet/diffusion_pytorch_model.safetensors", Safetensors(8));
  EXPECT_EQ(Find().at(0).why, neither);
  Write("checkpoint-500/model.safetensors", Safetensors(8));
  EXPECT_EQ(Find().at(0).why, neither) << "the trainer of Hugging Face begins with them too";
  Write("checkpoint-500/optimizer.bin", Zip("o"));
  EXPECT_EQ(Find().at(0).why, "no random_states_R.pkl");
  EXPECT_EQ(Find().at(0).format, "accelerate");
  EXPECT_EQ(FindOf("hf").at(0).why, "trainer_state.json is missing") << "as the user asked";
  Write("checkpoint-500/optimizer.bin", Zip("o").substr(0, 60));
  EXPECT_NE(Find().at(0).why.find("optimizer.bin"), std::string::npos) << Find().at(0).why;
  Write("checkpoint-600/config.json", "{}");
  Write("checkpoint-600/model.safetensors", Safetensors(8));
  EXPECT_EQ(Find().at(0).why, "trainer_state.json is missing");
}

// transformers loads one from the directory of its name.
TEST_F(CheckpointTest, TakesAnAdapterOfPeftThatHasAName) {
  WriteHf(10);
  fs::remove(dir_ + "/checkpoint-10/model.safetensors");
  Write("checkpoint-10/mine/adapter_model.safetensors", Safetensors(8));
  EXPECT_TRUE(Find()[0].complete) << Find()[0].why;
  Write("checkpoint-10/mine/adapter_model.bin", "half");
  EXPECT_EQ(Find()[0].why, "mine/adapter_model.bin is not a complete torch.save file");
  fs::remove_all(dir_ + "/checkpoint-10/mine");
  Write("checkpoint-10/global_step10/mp_rank_00_model_states.pt", Zip("m"));  // of no `latest`
  EXPECT_EQ(Find()[0].why, "no weights");
}

TEST_F(CheckpointTest, LooksIntoWhatDeepSpeedKeepsUnderAHuggingFaceDirectory) {
  for (const int step : {40, 80}) {
    WriteHf(step);
    const std::string name = "checkpoint-" + std::to_string(step) + "/";
    const std::string tag = "global_step" + std::to_string(step);
    Write(name + "latest", tag);
    Write(name + tag + "/mp_rank_00_model_states.pt", Zip("m"));
    Write(name + tag + "/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", Zip("o"));
  }
  EXPECT_EQ(NewestComplete(Find())->step, 80);
  fs::resize_file(
      dir_ + "/checkpoint-80/global_step80/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", 60);
  EXPECT_NE(Find()[0].why.find("global_step80/bf16_zero"), std::string::npos);
  EXPECT_EQ(NewestComplete(Find())->step, 40);
  fs::remove(dir_ + "/checkpoint-40/model.safetensors");  // ZeRO-3 does not gather them
  EXPECT_EQ(NewestComplete(Find())->step, 40);
}

TEST_F(CheckpointTest, TakesTheShardsOfFsdpForWeights) {
  for (const std::string name : {"checkpoint-40", "checkpoint_40"}) {
    Write(name + "/trainer_state.json", "{\"global_step\": 40}");
    Write(name + "/random_states_0.pkl", "p");
    for (const std::string part : {"/pytorch_model_fsdp_0", "/optimizer_0"}) {
      Write(name + part + "/__0_0.distcp", "x");
      Write(name + part + "/.metadata", "m.");
    }
  }
  for (const CheckpointFound& one : Find()) EXPECT_TRUE(one.complete) << one.path << one.why;
  fs::remove(dir_ + "/checkpoint-40/optimizer_0/.metadata");
  fs::remove(dir_ + "/checkpoint_40/pytorch_model_fsdp_0/.metadata");
  for (const CheckpointFound& one : Find()) {
    EXPECT_NE(one.why.find("/.metadata is missing"), std::string::npos) << one.path;
  }
}

TEST_F(CheckpointTest, NeedsTheOptimizerThatItsSiblingsHave) {
  WriteHf(40);
  WriteHf(80);
  fs::remove(dir_ + "/checkpoint-80/optimizer.pt");
  EXPECT_EQ(Find()[0].why, "optimizer.pt is missing, checkpoint-40 has it");
  EXPECT_EQ(NewestComplete(Find())->step, 40);
}

TEST_F(CheckpointTest, ALinkToTheNewestOneIsNoTagOfDeepSpeed) {
  WriteHf(80);
  fs::create_directory_symlink("checkpoint-80", dir_ + "/latest");
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(NewestComplete(Find())->path, dir_ + "/checkpoint-80");
}

TEST_F(CheckpointTest, WhatATrainerLeavesBesideItsDirectoriesIsNoCheckpoint) {
  WriteHf(40);
  fs::remove(dir_ + "/checkpoint-40/trainer_state.json");
  Write("training_args.bin", Zip("a"));
  Write("pytorch_model.bin", Zip("w"));
  EXPECT_EQ(NewestComplete(Find()), nullptr);
}

TEST_F(CheckpointTest, NeedsTheOptimizerStatesOfAllRanksOfTheJob) {
  Write("latest", "global_step12");
  Write("global_step12/mp_rank_00_model_states.pt", Zip("m"));
  Write("global_step12/zero_pp_rank_0_mp_rank_00_optim_states.pt", Zip("o"));
  Write("global_step12/zero_pp_rank_1_mp_rank_00_optim_states.pt", Zip("o"));
  const auto found = [&](int world) {
    return FindCheckpoints({.directory = dir_, .marker = {}, .world = world}).at(0);
  };
  EXPECT_TRUE(found(2).complete);
  EXPECT_EQ(found(4).why, "global_step12 has the optimizer states of 2 ranks, the job has 4");
}

TEST_F(CheckpointTest, TellsOfDirectoriesThatOnlyTheUserCanJudge) {
  Write("step_40/model.pt", Zip("m"));
  Write("global_step50/mp_rank_00_model_states.pt", Zip("m"));
  const auto found = Find();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(found[0].why.find("latest"), std::string::npos);
  EXPECT_NE(found[1].why.find("complete_marker"), std::string::npos);
  EXPECT_EQ(NewestComplete(found), nullptr);
}

TEST_F(CheckpointTest, AFileWithoutANumberCountsByItsTime) {
  Write("epoch=0-step=40.ckpt", Zip("x"));
  Write("last.ckpt", Zip("y"));
  const auto time = fs::last_write_time(dir_ + "/epoch=0-step=40.ckpt");
  fs::last_write_time(dir_ + "/last.ckpt", time + std::chrono::seconds(5));
  EXPECT_EQ(NewestComplete(Find())->path, dir_ + "/last.ckpt");
  fs::last_write_time(dir_ + "/last.ckpt", time - std::chrono::seconds(5));
  EXPECT_EQ(NewestComplete(Find())->path, dir_ + "/epoch=0-step=40.ckpt");
}

TEST_F(CheckpointTest, WaitsForNoWriterOfAPipe) {
  ASSERT_EQ(::mkfifo((dir_ + "/x.pt").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((dir_ + "/latest").c_str(), 0600), 0);
  EXPECT_EQ(Find().at(0).why, "x.pt is no regular file");
}

TEST_F(CheckpointTest, ReadsTheStepOfALightningName) {
  Write("epoch=3-step=40.ckpt", Zip("x"));
  EXPECT_EQ(Find()[0].step, 40);
  EXPECT_EQ(Find()[0].format, "lightning");
}

TEST_F(CheckpointTest, TakesNoDigitsOfALossForTheStep) {
  Write("epoch=1-val_loss=0.95.ckpt", Zip("x"));
  Write("epoch=3-val_loss=0.23.ckpt", Zip("x"));
  EXPECT_EQ(NewestComplete(Find())->path, dir_ + "/epoch=3-val_loss=0.23.ckpt");
  EXPECT_EQ(Find()[0].step, 3);
}

TEST_F(CheckpointTest, OfTheFilesOfOneStepTakesTheModel) {
  Write("model_100.pt", Zip("m"));
  Write("optim_100.pt", Zip("more than the model"));
  Write("best.pt", Zip("m"));
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(Find()[0].path, dir_ + "/model_100.pt");
}

// transformers 4.36 to 4.39 save into tmp-checkpoint-N and rename it at the end.
TEST_F(CheckpointTest, NeverTakesWhatASaveThatDidNotFinishWroteInto) {
  WriteHf(100);
  WriteDeepSpeed("tmp-checkpoint-120", "global_step120");
  WriteDcp("step-130.tmp");
  WriteDcp(".step-140");
  for (const char* const format : {"auto", "deepspeed", "hf", "dcp"}) {
    for (const CheckpointFound& one : FindOf(format)) EXPECT_LE(one.complete ? one.step : 0, 100);
  }
  EXPECT_EQ(NewestComplete(Find())->step, 100);
  fs::remove_all(dir_ + "/checkpoint-100");
  EXPECT_EQ(NewestComplete(Find()), nullptr);
  EXPECT_EQ(Find().at(0).why, "its name is that of a save that did not finish");
  Write("step_5.pt", Zip("x"));
  Write("step_6.tmp.pt", Zip("x"));
  Write("tmp8f3k2a1x.pt", Zip("x"));
  EXPECT_EQ(NewestComplete(Find())->step, 5);
}

TEST_F(CheckpointTest, WhatIsInADirectoryTellsItsFormatBeforeItsName) {
  for (const std::string name : {"checkpoint-100", "checkpoint_100", "checkpoint_7b_100"}) {
    WriteDcp(name);
    EXPECT_EQ(Find().at(0).format, "dcp");
    EXPECT_TRUE(Find().at(0).complete) << name << Find().at(0).why;
    EXPECT_EQ(FindOf("dcp").at(0).step, 100);
    fs::remove(dir_ + "/" + name + "/.metadata");
    EXPECT_EQ(Find().at(0).why, ".metadata is missing: the save did not finish");
    fs::remove_all(dir_ + "/" + name);
  }
  for (const std::string name : {"checkpoint-7b", "checkpoint_7b", "run"}) {
    WriteDeepSpeed(name, "global_step12");
    for (const char* const format : {"auto", "deepspeed"}) {
      for (const std::string& in : {std::string(), "/" + name}) {
        const auto found = FindOf(format, in);
        ASSERT_EQ(found.size(), 1u) << name << in;
        EXPECT_TRUE(found[0].complete) << name << in << found[0].why;
        EXPECT_EQ(found[0].format, "deepspeed");
        EXPECT_EQ(found[0].step, 12);
      }
    }
    fs::remove_all(dir_ + "/" + name);
  }
}

TEST_F(CheckpointTest, ATrainerThatLeftItsSaveToDeepSpeedHasNotFinished) {
  Write("checkpoint-80/config.json", "{}");
  Write("checkpoint-80/training_args.bin", Zip("a"));
  WriteDeepSpeed("checkpoint-80", "global_step80");
  for (const char* const format : {"auto", "hf", "deepspeed"}) {
    EXPECT_EQ(FindOf(format).at(0).why, "trainer_state.json is missing");
  }
  Write("checkpoint-80/trainer_state.json", R"({"global_step": 80})");
  for (const char* const format : {"auto", "hf", "deepspeed"}) {
    EXPECT_TRUE(FindOf(format).at(0).complete) << FindOf(format).at(0).why;
  }
  for (const std::string name : {"checkpoint_90", "step_90"}) {  // accelerate's tag
    WriteDeepSpeed(name, "pytorch_model");
    for (const char* const format : {"auto", "accelerate", "deepspeed"}) {
      EXPECT_EQ(FindOf(format).at(0).why, "no random_states_R.pkl") << name << format;
    }
    Write(name + "/random_states_0.pkl", "p");
    EXPECT_TRUE(Find().at(0).complete) << name << Find().at(0).why;
    fs::remove_all(dir_ + "/" + name);
  }
}

TEST_F(CheckpointTest, TheFormatThatTheUserNamesChoosesTheReader) {
  WriteHf(40);
  Write("step_50.pt", Zip("x"));
  EXPECT_EQ(FindOf("auto").at(0).step, 40) << "what a trainer left beside";
  EXPECT_EQ(FindOf("torch").at(0).step, 50);
  WriteDcp("checkpoint-60");
  EXPECT_EQ(FindOf("dcp").at(0).step, 60);
  EXPECT_EQ(FindOf("hf").at(0).why, "trainer_state.json is missing");
  EXPECT_EQ(NewestComplete(FindOf("hf"))->step, 40);
  WriteHf(70);
  WriteDcp("checkpoint-70/pytorch_model_fsdp_0");
  EXPECT_EQ(FindOf("dcp").at(0).step, 70);
  EXPECT_TRUE(FindOf("deepspeed").empty());
}

TEST_F(CheckpointTest, WhatLiesBesideWholeDirectoriesIsTheirResult) {
  Write("step_50.pt", Zip("x"));
  Write("step-40/__0_0.distcp", "x");
  EXPECT_EQ(NewestComplete(Find())->step, 50);
  Write("step-40/.metadata", "m.");
  EXPECT_EQ(NewestComplete(Find())->step, 40);
}

TEST_F(CheckpointTest, ADirectoryOfTheBestStepIsNotOverTheCheckpointOfThatStep) {
  WriteDcp("best_step_80");
  EXPECT_EQ(NewestComplete(Find())->step, 80) << "it is all there is";
  WriteDcp("step_80");
  WriteDcp("final");
  ASSERT_EQ(Find().size(), 1u);
  EXPECT_EQ(Find()[0].path, dir_ + "/step_80");
}

// lightning_fabric's FSDPStrategy.save_checkpoint, with state_dict_type="sharded".
TEST_F(CheckpointTest, NeedsWhatLightningWritesBehindItsShards) {
  WriteDcp("epoch=0-step=40.ckpt");
  EXPECT_EQ(Find().at(0).why, "meta.pt is missing: the save did not finish");
  Write("epoch=0-step=40.ckpt/meta.pt", Zip("x"));
  EXPECT_TRUE(Find().at(0).complete) << Find().at(0).why;
  EXPECT_EQ(FindOf("lightning").at(0).step, 40);
  WriteDcp("epoch=1-step=80.ckpt");
  Write("epoch=1-step=80.ckpt/meta.pt", "half");
  EXPECT_EQ(NewestComplete(Find())->step, 40);
  fs::rename(dir_ + "/epoch=0-step=40.ckpt", dir_ + "/step-40");
  fs::rename(dir_ + "/epoch=1-step=80.ckpt", dir_ + "/step-80");
  fs::remove(dir_ + "/step-80/meta.pt");
  EXPECT_EQ(Find().at(0).why, "meta.pt is missing, step-40 has it");
}

TEST_F(CheckpointTest, NeedsTheIndexOfShards) {
  WriteHf(10);
  fs::remove(dir_ + "/checkpoint-10/model.safetensors");
  Write("checkpoint-10/model-00001-of-00002.safetensors", Safetensors(8));
  EXPECT_EQ(Find()[0].why,
            "model-00001-of-00002.safetensors is one of several, and the index that names them is "
            "missing");
  Write("checkpoint-10/model.safetensors.index.json",
        R"({"weight_map":{"a":"model-00001-of-00002.safetensors",
                          "b":"model-00002-of-00002.safetensors"}})");
  EXPECT_EQ(Find()[0].why, "weights model-00002-of-00002.safetensors are missing");
  Write("checkpoint-10/model-00002-of-00002.safetensors", Safetensors(8));
  EXPECT_TRUE(Find()[0].complete) << Find()[0].why;
  Write("checkpoint-10/model_1.safetensors", Safetensors(8) + "x");  // of a second model
  EXPECT_FALSE(Find()[0].complete);
}

TEST_F(CheckpointTest, BelievesTheUsersMarker) {
  Write("run-1/weights", "x");
  Write("run-2/weights", "x");
  Write("run-1/DONE", "");
  const auto found = Find("DONE");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].why, "DONE is missing");
  EXPECT_EQ(NewestComplete(found)->path, dir_ + "/run-1");
}

TEST_F(CheckpointTest, CountsOnlyTheFormatThatTheJobNames) {
  Write("step-10.pt", Zip("x"));
  Write("step-20.ckpt", Zip("x"));
  const auto steps = [&](const std::string& format) {
    std::vector<std::int64_t> found;
    for (const CheckpointFound& one : FindCheckpoints({dir_, "", format}))
      found.push_back(one.step);
    return found;
  };
  EXPECT_EQ(steps("auto"), (std::vector<std::int64_t>{20, 10}));
  EXPECT_EQ(steps("torch"), (std::vector<std::int64_t>{20, 10}));
  EXPECT_EQ(steps("lightning"), (std::vector<std::int64_t>{20}));
  EXPECT_TRUE(steps("hf").empty());
}

TEST_F(CheckpointTest, ReadsJsonOfAnyDepthWithoutATreeOfIt) {
  WriteHf(10);
  const std::string deep(1'000'000, '[');
  Write("checkpoint-10/trainer_state.json",
        "{\"log_history\": " + deep + std::string(deep.size(), ']') + ", \"global_step\": 10}");
  EXPECT_TRUE(Find()[0].complete) << Find()[0].why;
  Write("checkpoint-10/trainer_state.json", "{\"log_history\": " + deep);
  EXPECT_EQ(Find()[0].why, "trainer_state.json does not parse");
  Write("checkpoint-10/trainer_state.json", R"({"inner": {"global_step": 10}})");
  EXPECT_EQ(Find()[0].why, "trainer_state.json does not parse") << "not that of something else";
  Write("checkpoint-10/trainer_state.json", R"({"global_step": 1e1})");
  EXPECT_EQ(Find()[0].why, "trainer_state.json does not parse");
  // A file that nobody's trainer writes, and that no agent reads.
  fs::resize_file(dir_ + "/checkpoint-10/trainer_state.json", std::uintmax_t{1} << 40);
  EXPECT_EQ(Find()[0].why, "trainer_state.json does not parse");
}

TEST_F(CheckpointTest, TakesAHeaderOfSafetensorsForNoMoreThanItSays) {
  const auto why = [&](const std::string& header) {
    std::string bytes;
    Put<std::uint64_t>(bytes, header.size());
    Write("one.safetensors", bytes + header + std::string(8, 'd'));
    return WhySafetensorsIncomplete(dir_ + "/one.safetensors");
  };
  EXPECT_EQ(
      why(R"({"__metadata__":{"a":"b"},"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})"), "");
  EXPECT_EQ(
      why(R"({"w":{"data_offsets":[0,4],"more":{"data_offsets":[0,9]}},"v":{"data_offsets":[4,8]}})"),
      "");
  EXPECT_EQ(why(R"({"w":{"data_offsets":[0,9]}})"), "one.safetensors is cut short");
  // Sums with it must not come round again to the size of the file.
  EXPECT_EQ(why(R"({"w":{"data_offsets":[0,9223372036854775807]}})"),
            "one.safetensors is cut short");
  for (const char* const broken :
       {"[]", "8", "", "{", R"({"w":8})", R"({"w":[0,8]})", R"({"w":{}})",
        R"({"w":{"data_offsets":8}})", R"({"w":{"data_offsets":[8]}})",
        R"({"w":{"data_offsets":[0,0,8]}})", R"({"w":{"data_offsets":[0,-8]}})",
        R"({"w":{"data_offsets":[0,"8"]}})", R"({"w":{"data_offsets":{"a":0,"b":8}}})",
        R"({"w":{"data_offsets":[0,[8]]}})",
        R"({"w":{"data_offsets":[0,18446744073709551615]}})"}) {
    EXPECT_EQ(why(broken), "one.safetensors has no header") << broken;
  }
}

TEST_F(CheckpointTest, ADirectoryThatIsTooLargeSpoilsNoneBesideIt) {
  fs::create_directories(dir_ + "/cache");
  for (int i = 0; i <= 100'000; ++i) {
    const std::string name = dir_ + "/cache/" + std::to_string(i);
    ASSERT_EQ(::mknod(name.c_str(), S_IFREG | 0600, 0), 0);
  }
  WriteHf(10);
  const auto found = Find();
  ASSERT_NE(NewestComplete(found), nullptr);
  EXPECT_EQ(NewestComplete(found)->step, 10);
}

// Each name of a kind of its own: comparing each with each would take minutes of a core.
TEST(LooseFiles, AsManyKindsAsFilesAreChosenFromInOneGo) {
  constexpr int kFiles = 20'000;
  std::vector<LooseFile> files;
  for (int i = 1; i <= kFiles; ++i) {
    std::string letters;
    for (int rest = i; rest > 0; rest /= 26) letters += static_cast<char>('a' + rest % 26);
    const std::string name = "/x/" + letters + "q_" + std::to_string(i) + ".pt";
    files.push_back({.found = {.path = name, .complete = true}, .bytes = 1});
  }
  EXPECT_EQ(ChooseLoose(std::move(files), 1).size(), static_cast<std::size_t>(kFiles));
}

TEST_F(CheckpointTest, GivesUpWhenItIsToldTo) {
  WriteHf(10);
  Write("step-20.pt", Zip("x"));
  const std::atomic<bool> cancel{true};
  const auto found = FindCheckpoints({.directory = dir_, .marker = {}, .cancel = &cancel});
  EXPECT_EQ(NewestComplete(found), nullptr);
}

TEST_F(CheckpointTest, FindsNothingWhereThereIsNothing) {
  EXPECT_TRUE(Find().empty());
  EXPECT_TRUE(FindCheckpoints({.directory = dir_ + "/gone", .marker = {}}).empty());
}

}  // namespace
}  // namespace launch::agent
