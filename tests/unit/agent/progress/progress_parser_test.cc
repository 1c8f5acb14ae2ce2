#include "agent/progress/progress_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace launch::agent {
namespace {

ProgressParser Parser(const std::string& pattern = "") {
  auto parser = ProgressParser::Create(pattern);
  EXPECT_TRUE(parser.has_value());
  return std::move(*parser);
}

Progress Of(std::string_view log) {
  ProgressParser parser = Parser();
  parser.FeedLog(log, BootMs(0));
  return parser.Now();
}

std::string StepOf(std::string_view log) {
  const Progress progress = Of(log);
  const auto text = [](const auto& value) { return value ? std::to_string(*value) : "-"; };
  return text(progress.step) + "/" + text(progress.steps);
}

TEST(Progress, NothingSeenIsAbsent) {
  EXPECT_EQ(Of(""), Progress{});
  EXPECT_EQ(Of("hello\nloading 3 of 4 modules\nratio 3/4\n12/25/2026 done\n"), Progress{});
}

TEST(Progress, ReadsTqdmWithSecondsPerStep) {
  const Progress progress =
      Of("\r 16%|#6        | 19/120 [1:25:30<7:34:30, 270.00s/it]"
         "\r 17%|#6        | 20/120 [1:30:00<7:30:00, 270.00s/it]");
  EXPECT_EQ(progress.step, 20);
  EXPECT_EQ(progress.steps, 120);
  EXPECT_EQ(progress.seconds_per_step, 270.0);
  EXPECT_EQ(progress.eta_s, 27'000.0);
}

TEST(Progress, ReadsTqdmWithStepsPerSecond) {
  const Progress progress = Of("\r 50%|#####     | 60/120 [00:15<00:15,  4.00it/s, loss=2.1]\r");
  EXPECT_EQ(progress.step, 60);
  EXPECT_EQ(progress.seconds_per_step, 0.25);
  EXPECT_EQ(progress.eta_s, 15.0);
}

TEST(Progress, ABarThatHasNotMovedHasNoRate) {
  const Progress progress = Of("\r  0%|          | 0/120 [00:00<?, ?it/s]\r");
  EXPECT_EQ(progress.step, 0);
  EXPECT_EQ(progress.steps, 120);
  EXPECT_EQ(progress.seconds_per_step, std::nullopt);
  EXPECT_EQ(progress.eta_s, std::nullopt);
}

TEST(Progress, NumbersThatNothingCanHoldAreNotTaken) {
  ProgressParser parser = Parser();
  parser.FeedFile(
      "{\"step\": 1, \"steps\": 1e300, \"eta_s\": 1e300, \"seconds_per_step\": 1e300}\n",
      BootMs(0));
  EXPECT_EQ(parser.Now(), Progress{.step = 1});
  parser.FeedFile("{\"step\": 2, \"eta_s\": -1}\n{\"step\": 1e300}\n", BootMs(0));
  EXPECT_EQ(parser.Now(), Progress{.step = 2});
  ProgressParser named = Parser("at (-?\\d+) of (\\d+)");
  named.FeedLog("at -9223372036854775808 of 9223372036854775807\n", BootMs(0));
  EXPECT_EQ(named.Now(), Progress{});
  // Epochs times steps leave 64 bits.
  EXPECT_EQ(StepOf("Epoch [999999999/999999999], Step [1/999999999999999]\n"),
            "1000000000000000/1000000000000000");
}

TEST(Progress, PiecesOfALineArePutTogether) {
  ProgressParser parser = Parser();
  parser.FeedLog("\r 17%|#6  | 20/12", BootMs(0));
  EXPECT_EQ(parser.Now(), Progress{});
  parser.FeedLog("0 [1:30:00<7:30:00, 270.00s/it]", BootMs(0));
  EXPECT_EQ(parser.Now().steps, 120);
}

TEST(Progress, AResumedRunStartsInTheMiddle) {
  EXPECT_EQ(StepOf("\r 75%|###  | 90/120 [00:01<2:15:00, 270.00s/it]\r"), "90/120");
}

TEST(Progress, AnEvaluationBarInsideIsNotTheRun) {
  EXPECT_EQ(StepOf("\r 50%| | 60/120 [05:00<05:00, 5.00s/it]"
                   "\r 10%| | 1/13 [00:01<00:09, 1.10it/s]"
                   "\r100%| | 13/13 [00:10<00:00, 1.10it/s]"
                   "\r 51%| | 61/120 [05:15<05:00, 5.00s/it]\r"),
            "61/120");
}

TEST(Progress, AnEvaluationBarWithALargerTotalIsLeftWhenItEnds) {
  EXPECT_EQ(StepOf("\r 50%| | 60/120 [05:00<05:00, 5.00s/it]"
                   "\r100%| | 500/500 [00:10<00:00, 50.00it/s]"
                   "\r 51%| | 61/120 [05:15<05:00, 5.00s/it]\r"),
            "61/120");
}

TEST(Progress, NamedEvaluationDownloadAndTokenisingBarsAreIgnored) {
  for (const char* bar :
       {"Evaluating:  50%| | 500/1000 [00:01<00:01, 500.00it/s]",
        "Validation DataLoader 0:  50%| | 500/1000 [00:01<00:01, 500.00it/s]",
        "Map:  50%| | 500/1000 [00:01<00:01, 500.00 examples/s]",
        "model.safetensors:  50%| | 500/1000 [00:01<00:01, 3.2MB/s]",
        "Running tokenizer on dataset:  50%| | 500/1000 [00:01<00:01, 500.00it/s]",
        "Loading checkpoint shards:  50%| | 2/4 [00:01<00:01, 1.00it/s]"})
    EXPECT_EQ(StepOf(std::string("\r") + bar + "\r"), "-/-") << bar;
}

TEST(Progress, AnUnnamedBarThatEndedBeforeTheRunIsLeft) {
  EXPECT_EQ(StepOf("\r100%| | 5000/5000 [00:05<00:00, 1000.00it/s]\n"
                   "\r  8%| | 10/120 [45:00<8:15:00, 270.00s/it]\r"),
            "10/120");
}

TEST(Progress, AFinalEvaluationDoesNotReplaceTheFinishedRun) {
  EXPECT_EQ(StepOf("\r100%| | 120/120 [9:00:00<00:00, 270.00s/it]\n"
                   "\r 50%| | 6/13 [00:06<00:07, 1.00it/s]\r"),
            "120/120");
}

TEST(Progress, ABarForEachEpochWithItsNumberCountsThrough) {
  EXPECT_EQ(StepOf("\rEpoch 1/3: 100%| | 40/40 [00:40<00:00, 1.00it/s]\n"
                   "\rEpoch 2/3:  25%| | 10/40 [00:10<00:30, 1.00it/s]\r"),
            "50/120");
}

TEST(Progress, ABarForEachEpochWithoutTheirNumberHasNoTotal) {
  EXPECT_EQ(StepOf("\rEpoch 0: 100%| | 40/40 [00:40<00:00, 1.00it/s]\n"
                   "\rEpoch 1:  25%| | 10/40 [00:10<00:30, 1.00it/s]\r"),
            "50/-");
}

TEST(Progress, TheFirstOfNumberedEpochsHasNoTotalEither) {
  const Progress progress =
      Of("\rEpoch 0:  50%|#####     | 20/40 [00:10<00:10, 1.98it/s, v_num=0]\r");
  EXPECT_EQ(progress.step, 20);
  EXPECT_EQ(progress.steps, std::nullopt);
  EXPECT_EQ(progress.eta_s, std::nullopt);
  EXPECT_NEAR(progress.seconds_per_step.value_or(0), 1 / 1.98, 1e-9);
  EXPECT_EQ(StepOf("\rEpoch 3/9:  50%| | 20/40 [00:10<00:10, 1.98it/s]\r"), "100/360");
}

TEST(Progress, EpochsCountedFromZeroLeaveTheirNumberOpen) {
  const std::string first = "\rEpoch 0/9: 100%| | 40/40 [00:40<00:00, 1.00it/s]\n";
  EXPECT_EQ(StepOf(first), "40/-");
  EXPECT_EQ(StepOf(first + "\rEpoch 1/9:  25%| | 10/40 [00:10<00:30, 1.00it/s]\r"), "50/-");
}

TEST(Progress, ANumberedBarInsideABarOfEpochsHasATotalFromTheFirstOn) {
  EXPECT_EQ(StepOf("\rEpochs:   0%| | 0/3 [00:00<?, ?it/s]"
                   "\rEpoch 1:  25%| | 10/40 [00:10<00:30, 1.00it/s]\r"),
            "10/120");
}

TEST(Progress, ReadsDeepSpeedsReport) {
  EXPECT_EQ(StepOf("[2026-01-05 10:00:00,123] [INFO] [logging.py:107:log_dist] [Rank 0] step=10, "
                   "skipped=0, lr=[1e-05], mom=[(0.9, 0.999)]\n"),
            "10/-");
}

TEST(Progress, ABarOfEpochsAroundABarOfStepsGivesTheTotal) {
  EXPECT_EQ(StepOf("\rEpochs:   0%| | 0/3 [00:00<?, ?it/s]"
                   "\r100%| | 40/40 [00:40<00:00, 1.00it/s]"
                   "\rEpochs:  33%| | 1/3 [00:40<01:20, 40.00s/it]"
                   "\r 25%| | 10/40 [00:10<00:30, 1.00it/s]\r"),
            "50/120");
}

TEST(Progress, GluedBarsOfSeveralRanksAreReadApart) {
  EXPECT_EQ(StepOf("\r 17%| | 20/120 [1:30:00<7:30:00, 270.00s/it]"
                   " 18%| | 21/120 [1:30:00<7:30:00, 270.00s/it]\r"),
            "21/120");
}

TEST(Progress, CursorMovementsDoNotDisturb) {
  EXPECT_EQ(StepOf("\x1b[A\r 17%|\x1b[32m#\x1b[0m| 20/120 [1:30:00<7:30:00, 270.00s/it]\x1b[K\r"),
            "20/120");
}

TEST(Progress, ReadsEpochAndStepLines) {
  EXPECT_EQ(StepOf("epoch 2/3 step 10/40 loss 1.0\n"), "50/120");
  EXPECT_EQ(StepOf("Epoch [1/3], Step [100/600], Loss: 0.2\n"), "100/1800");
}

TEST(Progress, StepsThatGoOnOverEpochsAreNotMultiplied) {
  EXPECT_EQ(StepOf("epoch 1/3 step 40/120 loss 1\nepoch 2/3 step 50/120 loss 1\n"), "50/120");
}

TEST(Progress, ReadsPlainLines) {
  EXPECT_EQ(StepOf("step 90/120 loss 1.2\n"), "90/120");
  EXPECT_EQ(StepOf("90/120 loss 1.2\n"), "90/120");
  EXPECT_EQ(StepOf("[rank0] step: 90/120\n"), "90/120");
  EXPECT_EQ(StepOf("Step 90 of 120\n"), "90/120");
  EXPECT_EQ(StepOf("step: 10  loss:  4.3  memory: 1GiB\n"), "10/-");
  EXPECT_EQ(StepOf("[test-job] [process 0] step 90/120\n"), "90/120");
  EXPECT_EQ(StepOf("eval step 3/10\n"), "-/-");
  EXPECT_EQ(StepOf("[rank 0] Validation step 3/10\n"), "-/-");
}

TEST(Progress, ReadsMegatronWithItsStepTime) {
  const Progress progress =
      Of(" iteration        4/      10 | consumed samples:   64 | elapsed time per iteration (ms): "
         "270.0 | lm loss: 1.0\n");
  EXPECT_EQ(progress.step, 4);
  EXPECT_EQ(progress.steps, 10);
  EXPECT_NEAR(progress.seconds_per_step.value_or(0), 0.27, 1e-9);
  EXPECT_NEAR(progress.eta_s.value_or(0), 1.62, 1e-9);
}

TEST(Progress, ReadsNanoGpt) {
  const Progress progress = Of("iter 100: loss 3.2, time 250.00ms, mfu 3%\n");
  EXPECT_EQ(progress.step, 100);
  EXPECT_NEAR(progress.seconds_per_step.value_or(0), 0.25, 1e-9);
}

TEST(Progress, ReadsTrainersDictionaries) {
  EXPECT_EQ(StepOf("{'loss': '0.5', 'step': '20', 'max_steps': 120}\n"), "20/120");
  EXPECT_EQ(StepOf("{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': 0.33}\n"), "-/-");
  EXPECT_EQ(StepOf("{'eval_loss': 0.5, 'step': 20}\n"), "-/-");
}

TEST(Progress, TheRunsOwnFileIsBelievedFirst) {
  ProgressParser parser = Parser();
  parser.FeedLog("\r 17%|#6  | 20/120 [1:30:00<7:30:00, 270.00s/it]\r", BootMs(0));
  parser.FeedFile("{\"step\": 7, \"steps\": 9, \"seconds_per_step\": 2}\n", BootMs(0));
  EXPECT_EQ(parser.Now(), (Progress{7, 9, 2.0, 4.0}));
  parser.FeedFile("not json\n[1]\n{\"step\": -1}\n", BootMs(0));
  EXPECT_EQ(parser.Now().step, 7);
  // As json.dumps writes it.
  parser.FeedFile("{\"step\": 8, \"loss\": NaN, \"eta_s\": Infinity}\n", BootMs(0));
  EXPECT_EQ(parser.Now().step, 8);
}

TEST(Progress, TheJobsOwnPatternComesBeforeTheBars) {
  ProgressParser parser = Parser(R"(at (\d+) von (\d+))");
  parser.FeedLog("\r 17%|#6  | 20/120 [1:30:00<7:30:00, 270.00s/it]\rat 3 von 4\n", BootMs(0));
  EXPECT_EQ(parser.Now().step, 3);
  EXPECT_EQ(parser.Now().steps, 4);
}

TEST(Progress, NamedGroupsMayStandInAnyOrder) {
  ProgressParser parser = Parser(R"(total=(?P<steps>\d+) done=(?P<step>\d+))");
  parser.FeedLog("total=120 done=20\n", BootMs(0));
  EXPECT_EQ(parser.Now().step, 20);
  EXPECT_EQ(parser.Now().steps, 120);
}

TEST(Progress, ATotalThatWasSaidOnceStaysKnown) {
  ProgressParser parser = Parser(R"(step (\d+)(?: of (\d+))?)");
  parser.FeedLog("step 0 of 100\nstep 10\n", BootMs(0));
  parser.FeedLog("step 20\n", BootMs(10'000));
  EXPECT_EQ(parser.Now().step, 20);
  EXPECT_EQ(parser.Now().steps, 100);
  EXPECT_EQ(parser.Now().eta_s, 80.0);
  ProgressParser file = Parser();
  file.FeedFile("{\"step\": 0, \"steps\": 8}\n", BootMs(0));
  file.FeedFile("{\"step\": 2}\n", BootMs(4'000));
  EXPECT_EQ(file.Now().steps, 8);
  EXPECT_EQ(file.Now().eta_s, 12.0);
}

TEST(Progress, ABadPatternIsAnErrorWithAHint) {
  EXPECT_FALSE(ProgressParser::Create("(").has_value());
  EXPECT_FALSE(ProgressParser::Create("step").has_value());
}

TEST(Progress, MeasuresStepTimeWhereNobodySaysIt) {
  ProgressParser parser = Parser();
  parser.FeedLog("step 10/120\n", BootMs(0));
  EXPECT_EQ(parser.Now().seconds_per_step, std::nullopt);
  parser.FeedLog("step 14/120\nstep 15/120\n", BootMs(10'000));
  EXPECT_EQ(parser.Now().seconds_per_step, 2.0);
  EXPECT_EQ(parser.Now().eta_s, 210.0);
}

TEST(Progress, AfterSkippedBytesHalfALineIsNotRead) {
  ProgressParser parser = Parser();
  parser.FeedLog("step 1", BootMs(0));
  parser.SkipLog();
  parser.FeedLog("5/120 loss 1\nstep 16/120\n", BootMs(0));
  EXPECT_EQ(parser.Now().step, 16);
}

TEST(Progress, HostileLinesAreCutAndHarmless) {
  ProgressParser parser = Parser();
  parser.FeedLog(std::string(1 << 20, '9'), BootMs(0));
  parser.FeedLog("/120 [1:1<1:1, 1s/it]\n", BootMs(0));
  parser.FeedLog(std::string("\xff\xfe\0 step 3/4\n", 13), BootMs(0));
  EXPECT_EQ(parser.Now().step, 3);
  for (int i = 0; i < 1000; ++i)
    parser.FeedLog("step 1/" + std::to_string(100 + i) + "\n", BootMs(0));
  EXPECT_TRUE(parser.Now().step.has_value());
}

}  // namespace
}  // namespace launch::agent
