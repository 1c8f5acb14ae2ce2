// What names say, and which of the files in one directory a script resumes from.
#include "agent/runner/checkpoint_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/runner/checkpoint_loose.h"

namespace launch::agent {
namespace {

TEST(CheckpointNames, TakeTheStepBeforeTheEpochAndNeverAValue) {
  struct Case {
    const char* name;
    Counted counted;
    std::int64_t value;
  };
  const std::vector<Case> cases = {
      // Lightning: the default, and the examples of ModelCheckpoint's documentation.
      {"epoch=9-step=1000", Counted::kSteps, 1000},
      {"epoch=9-step=1000-v1", Counted::kSteps, 1000},
      {"epoch=2-val_loss=0.02-other_metric=0.03", Counted::kEpochs, 2},
      {"sample-mnist-epoch=02-val_loss=0.32", Counted::kEpochs, 2},
      {"sample-mnist-02-0.32", Counted::kNumber, 2},
      {"epoch=1-val_loss=-0.23", Counted::kEpochs, 1},
      {"epoch=1-lr=1e-05", Counted::kEpochs, 1},
      {"val_loss=3", Counted::kNothing, 0},
      {"megatron_gpt--val_loss=2.50-step=300-consumed_samples=9600.0", Counted::kSteps, 300},
      {"acc-0.91", Counted::kNothing, 0},
      {"model_acc_91", Counted::kNothing, 0},
      // DeepSpeed, Megatron, Composer, fairseq, improved-diffusion, DETR, Hugging Face.
      {"global_step12", Counted::kSteps, 12},
      {"iter_0000100", Counted::kSteps, 100},
      {"ep3-ba100-rank0", Counted::kSteps, 100},
      {"checkpoint_3_1000", Counted::kNumber, 1000},
      {"checkpoint3", Counted::kNumber, 3},
      {"ema_0.9999_000100", Counted::kNumber, 100},
      {"opt000100", Counted::kAttached, 100},
      {"checkpoint0099", Counted::kNumber, 99},
      {"checkpoint-120", Counted::kNumber, 120},
      {"pytorch_model-00001-of-00003", Counted::kNothing, 0},
      // Sizes and kinds of numbers are no steps.
      {"checkpoint_7b", Counted::kNothing, 0},
      {"model_7b_100", Counted::kNumber, 100},
      {"100_model_7b", Counted::kNumber, 100},
      {"step_100_bf16", Counted::kSteps, 100},
      {"gemma-it-2b", Counted::kNothing, 0},
      {"llama-3.1", Counted::kNothing, 0},
      {"step_100k", Counted::kSteps, 100'000},
      {"ckpt_2000_steps", Counted::kSteps, 2000},
      {"resnet50", Counted::kAttached, 50},
      {"last", Counted::kNothing, 0},
      {"ckpt_99999999999999999999", Counted::kNothing, 0},
      {"", Counted::kNothing, 0},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(StepNamedBy(one.name), (NamedStep{one.counted, one.value}))
        << one.name << ": " << StepNamedBy(one.name).value;
  }
}

TEST(CheckpointNames, TellAnUnfinishedSave) {
  for (const char* const name :
       {"tmp-checkpoint-120", "tmp-checkpoint-s0yubqtr", "checkpoint-120.tmp", "step_5.tmp.pt",
        "epoch=3.ckpt.part", "tmp8f3k2a1x.pt", "checkpoint-120-tmp", "step-5.incomplete", ".step-5",
        "_tmp_step_5", "temp_5.pt"}) {
    EXPECT_TRUE(IsNameOfUnfinished(name)) << name;
  }
  for (const char* const name : {"checkpoint-120", "epoch=3-temp=0.7.ckpt", "template_5.pt",
                                 "part_5.pt", "step_5.pt", "last.ckpt"}) {
    EXPECT_FALSE(IsNameOfUnfinished(name)) << name;
  }
}

TEST(CheckpointNames, TellWhatAFileIsToItsScript) {
  const auto expect = [](FileRole role, const std::vector<const char*>& names) {
    for (const char* const name : names) EXPECT_EQ(RoleNamedBy(name), role) << name;
  };
  expect(FileRole::kResume, {"ckpt_100", "model_100", "step_5_bf16", "opt-125m_100",
                             "epoch=3-step=40", "model_and_optimizer_100"});
  expect(FileRole::kLast, {"last", "checkpoint_last", "ckpt", "checkpoint", "latest-rank0"});
  expect(FileRole::kResult, {"best", "checkpoint_best", "model_final", "best_model_100"});
  expect(FileRole::kPart, {"ema_100", "ema_0.9999_000100", "model_ema_100", "ckpt_100_optim"});
  expect(FileRole::kState, {"optim_100", "opt000100", "100_optimizer", "lr_scheduler", "scaler_5"});
}

class LooseFiles : public testing::Test {
 protected:
  // Ten minutes after the one before.
  void Save(const std::string& name, std::uint64_t bytes = 100) {
    SaveAt(now_ += 600, name, bytes);
  }
  // With the one before.
  void SaveToo(const std::string& name, std::uint64_t bytes = 100) { SaveAt(++now_, name, bytes); }
  void SaveAt(int second, const std::string& name, std::uint64_t bytes = 100) {
    CheckpointFound found{.path = "/out/" + name, .format = "torch", .complete = true};
    found.modified = WallTime{} + std::chrono::seconds(second);
    files_.push_back({std::move(found), bytes});
  }
  void Tear() {
    files_.back().found.complete = false;
    files_.back().found.why = "torn";
  }
  // By which the controller chooses: step, then time.
  std::string Newest() {
    std::vector<CheckpointFound> found = ChooseLoose(std::move(files_), world_);
    files_.clear();
    std::erase_if(found, [](const CheckpointFound& one) { return !one.complete; });
    const auto newest = std::ranges::max_element(found, [](const auto& a, const auto& b) {
      return std::tie(a.step, a.modified) < std::tie(b.step, b.modified);
    });
    return newest == found.end() ? "" : std::filesystem::path(newest->path).filename().string();
  }

  int now_ = 1000;
  int world_ = 3;
  std::vector<LooseFile> files_;
};

TEST_F(LooseFiles, OfLightningGoByTheEpochNotByTheLoss) {
  Save("epoch=1-val_loss=0.95.ckpt");
  Save("epoch=2-val_loss=0.60.ckpt");
  Save("epoch=3-val_loss=0.23.ckpt");
  EXPECT_EQ(Newest(), "epoch=3-val_loss=0.23.ckpt");
  Save("sample-mnist-epoch=02-val_loss=0.32.ckpt");
  Save("sample-mnist-epoch=10-val_loss=0.05.ckpt");
  EXPECT_EQ(Newest(), "sample-mnist-epoch=10-val_loss=0.05.ckpt");
  Save("transformer-58-1.90.ckpt");
  Save("transformer-59-1.78.ckpt");
  EXPECT_EQ(Newest(), "transformer-59-1.78.ckpt");
  Save("epoch=9-step=1000.ckpt");
  Save("epoch=9-step=1000-v1.ckpt");
  EXPECT_EQ(Newest(), "epoch=9-step=1000-v1.ckpt");
  Save("val_loss=0.95.ckpt");
  Save("val_loss=0.23.ckpt");
  EXPECT_EQ(Newest(), "val_loss=0.23.ckpt");
}

TEST_F(LooseFiles, WhoseNumbersGoAgainstTheirTimesGoByTime) {
  Save("model_95.pt");
  Save("model_60.pt");
  Save("model_72.pt");
  EXPECT_EQ(Newest(), "model_72.pt");
  Save("model_95.pt");
  Save("step_100.pt");
  Save("model_60.pt");
  EXPECT_EQ(Newest(), "model_60.pt");
  // A copy has the times of the copy.
  Save("ckpt_100.pt");
  Save("ckpt_300.pt");
  Save("ckpt_200.pt");
  EXPECT_EQ(Newest(), "ckpt_300.pt");
  SaveAt(1000, "ckpt_210.pt");
  SaveAt(1001, "ckpt_1000.pt");
  SaveAt(1003, "ckpt_900.pt");
  EXPECT_EQ(Newest(), "ckpt_1000.pt");
  // What counts steps by its own word is believed.
  Save("step_1000.pt");
  Save("step_900.pt");
  EXPECT_EQ(Newest(), "step_1000.pt");
}

TEST_F(LooseFiles, ThatCountEpochsAreNoOlderThanThoseThatCountSteps) {
  Save("step=1000.ckpt");
  Save("epoch=3.ckpt");
  EXPECT_EQ(Newest(), "epoch=3.ckpt");
  Save("epoch=3.ckpt");
  Save("step=1000.ckpt");
  EXPECT_EQ(Newest(), "step=1000.ckpt");
}

TEST_F(LooseFiles, OfOneStepAreTheModelWithoutItsParts) {
  Save("model_100.pt", 100);
  SaveToo("optim_100.pt", 200);
  SaveToo("sched_100.pt", 1);
  EXPECT_EQ(Newest(), "model_100.pt");
  Save("model000100.pt");
  SaveToo("ema_0.9999_000100.pt");
  SaveToo("opt000100.pt", 200);
  EXPECT_EQ(Newest(), "model000100.pt");
  Save("optim_100.pt");
  EXPECT_EQ(Newest(), "") << "the model is elsewhere";
  Save("model_100.pt");
  Save("model_200.pt");
  Tear();
  SaveToo("model_200_optim.pt");
  EXPECT_EQ(Newest(), "model_100.pt");
}

TEST_F(LooseFiles, OfSeveralKindsAreTheLargerOne) {
  Save("weights_only_100.pt", 100);
  SaveToo("full_100.pt", 300);
  SaveToo("fp16_100.pt", 50);
  Save("fp16_200.pt", 50);
  EXPECT_EQ(Newest(), "full_100.pt") << "a kind that is not the one resumed from, however new";
  Save("a_100.pt");
  SaveToo("b_100.pt");
  Save("a_200.pt");
  EXPECT_EQ(Newest(), "a_200.pt") << "the commoner";
  Save("a_100.pt");
  SaveToo("b_100.pt");
  EXPECT_EQ(Newest(), "b_100.pt") << "the later";
}

TEST_F(LooseFiles, OfAnotherNameAreNewerThanThoseOfAnEarlierRun) {
  for (const int step : {100, 200, 300}) Save("first_" + std::to_string(step) + ".pt", 200);
  Save("second_400.pt");
  EXPECT_EQ(Newest(), "second_400.pt");
}

TEST_F(LooseFiles, ThatAreCalledBestOrFinalAreNotOverANumberedOne) {
  Save("ckpt_100.pt");
  SaveToo("best.pt");
  EXPECT_EQ(Newest(), "ckpt_100.pt");
  Save("ckpt_100.pt");
  Save("ckpt_final.pt");
  EXPECT_EQ(Newest(), "ckpt_100.pt");
  Save("ckpt_100.pt");
  Save("best_150.pt");
  EXPECT_EQ(Newest(), "ckpt_100.pt");
  Save("last.pt");
  SaveToo("best.pt");
  EXPECT_EQ(Newest(), "last.pt");
  Save("best_model.pt");
  EXPECT_EQ(Newest(), "best_model.pt") << "it is all there is";
  Save("best-epoch=3-val_loss=0.2.ckpt");
  Save("last.ckpt");
  Tear();
  EXPECT_EQ(Newest(), "best-epoch=3-val_loss=0.2.ckpt") << "it is all that is whole";
}

TEST_F(LooseFiles, OfAllRanksAreOneSave) {
  const auto save = [this](const std::string& name, int ranks) {
    Save(name + "-rank0.pt");
    for (int rank = 1; rank < ranks; ++rank) SaveToo(name + "-rank" + std::to_string(rank) + ".pt");
  };
  save("ep0-ba100", 3);  // Composer's
  save("ep0-ba200", 3);
  EXPECT_EQ(Newest(), "ep0-ba200-rank0.pt");
  save("ep0-ba100", 3);
  save("ep0-ba200", 3);
  Tear();
  EXPECT_EQ(Newest(), "ep0-ba100-rank0.pt");
  save("ep0-ba100", 3);
  save("ep0-ba200", 2);
  EXPECT_EQ(Newest(), "ep0-ba100-rank0.pt");
  save("ep0-ba100", 3);
  SaveToo("ep0-ba200-rank1.pt");
  EXPECT_EQ(Newest(), "ep0-ba100-rank0.pt");
  save("ep0-ba100", 3);
  save("ep0-ba200", 2);
  world_ = 2;
  EXPECT_EQ(Newest(), "ep0-ba200-rank0.pt") << "the job has fewer ranks since";
  Save("lora_rank8_step100.pt");
  Save("lora_rank8_step200.pt");
  EXPECT_EQ(Newest(), "lora_rank8_step200.pt") << "no rank of a process";
}

TEST_F(LooseFiles, ThatAreWrittenOverGoByTime) {
  Save("checkpoint0099.pth");
  Save("checkpoint.pth");  // DETR: each epoch, one of a hundred under its own name too
  EXPECT_EQ(Newest(), "checkpoint.pth");
  Save("checkpoint_last.pt");  // fairseq
  Save("checkpoint3.pt");
  SaveToo("checkpoint_best.pt");
  EXPECT_EQ(Newest(), "checkpoint3.pt");
  Save("resnet50.pth");
  Save("ckpt.pt");
  EXPECT_EQ(Newest(), "ckpt.pt") << "nanoGPT's, beside what it was begun with";
}

}  // namespace
}  // namespace launch::agent
