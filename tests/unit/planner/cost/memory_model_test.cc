#include "planner/cost/memory_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/units.h"
#include "planner/cost/memory_parts.h"

namespace launch {
namespace {

constexpr double kA100_80 = 79.1 * kGiBytes;
constexpr double kA100_40 = 39.5 * kGiBytes;

ModelCard Llama2_7B() {
  ModelCard card;
  card.params = 6738415616;
  card.layers = 32;
  card.hidden = 4096;
  card.heads = 32;
  card.kv_heads = 32;
  card.ffn = 11008;
  card.gated_ffn = true;
  card.vocab = 32000;
  return card;
}

ModelCard Small() {  // GPT-2 medium
  ModelCard card;
  card.params = 354823168;
  card.layers = 24;
  card.hidden = 1024;
  card.heads = 16;
  card.vocab = 50257;
  card.tied = true;
  return card;
}

// The setting of the worked checks: s = 2048, b = 1, AdamW, 16 bits with fp32 master, recompute.
TrainingSetup Worked(Strategy strategy, int ranks) {
  TrainingSetup setup;
  setup.framework = Framework::kHf;
  setup.strategy = strategy;
  setup.ranks = ranks;
  setup.seq = 2048;
  setup.checkpointing = Checkpointing::kFull;
  return setup;
}

MemoryEstimate Predict(const ModelCard& card, const TrainingSetup& setup) {
  const auto estimate = PredictMemory(card, setup);
  EXPECT_TRUE(estimate) << (estimate ? "" : estimate.error().message);
  return estimate.value_or(MemoryEstimate{});
}

double PeakGib(const ModelCard& card, const TrainingSetup& setup,
               MemoryMetric metric = MemoryMetric::kProcess) {
  return PeakOf(Predict(card, setup), metric).bytes / kGiBytes;
}

double StatesGib(Strategy strategy, int ranks) {
  const auto card = CompleteCard(Llama2_7B());
  const StateParts parts = StatesOf(*card, Worked(strategy, ranks), {});
  return (parts.weights + parts.gradients + parts.optimizer) / kGiBytes;
}

double TermGib(const MemoryEstimate& estimate, PhaseKind kind, const std::string& name) {
  for (const MemoryPhase& phase : estimate.phases)
    if (phase.kind == kind)
      for (const MemoryTerm& term : phase.terms)
        if (term.name == name) return term.bytes / kGiBytes;
  return 0;
}

FitVerdict Verdict(const TrainingSetup& setup, double limit) {
  return JudgeFit(Predict(Llama2_7B(), setup), limit);
}

TEST(MemoryModel, StatesOf7BAreThePapers) {
  EXPECT_NEAR(StatesGib(Strategy::kSingle, 1), 100.4, 0.05);
  EXPECT_NEAR(StatesGib(Strategy::kZero1, 8), 34.5, 0.05);
  EXPECT_NEAR(StatesGib(Strategy::kZero2, 8), 23.5, 0.05);
  EXPECT_NEAR(StatesGib(Strategy::kZero3, 8), 12.6, 0.05);
}

TEST(MemoryModel, StatesOfTheZeroPaper) {  // 7.5 billion on 64 GPUs, GB of 1e9 bytes
  ModelCard card;
  card.params = 7'500'000'000;
  const auto complete = CompleteCard(card);
  const auto gb = [&](Strategy strategy, int ranks) {
    const StateParts parts = StatesOf(*complete, Worked(strategy, ranks), {});
    return (parts.weights + parts.gradients + parts.optimizer) / 1e9;
  };
  EXPECT_NEAR(gb(Strategy::kDdp, 64), 120, 0.05);
  EXPECT_NEAR(gb(Strategy::kZero1, 64), 31.4, 0.05);
  EXPECT_NEAR(gb(Strategy::kZero2, 64), 16.6, 0.05);
  EXPECT_NEAR(gb(Strategy::kZero3, 64), 1.9, 0.05);
}

TEST(MemoryModel, DynamicPartsOf7BAreThePapers) {
  const MemoryEstimate estimate = Predict(Llama2_7B(), Worked(Strategy::kZero3, 8));
  EXPECT_NEAR(TermGib(estimate, PhaseKind::kForward, "activations"), 0.5, 0.01);
  EXPECT_NEAR(TermGib(estimate, PhaseKind::kForward, "logits and loss"), 0.98, 0.01);
  EXPECT_NEAR(TermGib(estimate, PhaseKind::kBackward, "block at work"), 0.5, 0.1);
}

TEST(MemoryModel, VerdictsOfTheWorkedChecks) {
  EXPECT_EQ(Verdict(Worked(Strategy::kSingle, 1), kA100_80), FitVerdict::kNo);
  EXPECT_EQ(Verdict(Worked(Strategy::kDdp, 8), kA100_80), FitVerdict::kNo);
  EXPECT_EQ(Verdict(Worked(Strategy::kZero1, 8), kA100_80), FitVerdict::kYes);
  EXPECT_EQ(Verdict(Worked(Strategy::kZero1, 8), kA100_40), FitVerdict::kNo);
  EXPECT_NE(Verdict(Worked(Strategy::kZero2, 8), kA100_40), FitVerdict::kNo);
  TrainingSetup gh200 = Worked(Strategy::kZero1, 2);
  EXPECT_EQ(Verdict(gh200, 95.0 * kGiBytes), FitVerdict::kTight);  // 62.8 and a transient of 12.6
  gh200.offload = Offload::kOptimizer;
  EXPECT_EQ(Verdict(gh200, 95.0 * kGiBytes), FitVerdict::kYes);
  TrainingSetup volta = Worked(Strategy::kZero3, 8);
  volta.volta_context = true;
  volta.attention = Attention::kEager;
  EXPECT_EQ(Verdict(volta, 15.78 * kGiBytes), FitVerdict::kNo);
  volta.offload = Offload::kOptimizer;
  EXPECT_NE(Verdict(volta, 15.78 * kGiBytes), FitVerdict::kNo);
}

TEST(MemoryModel, TheFirstZeroDemonstrationComesOut) {  // 1.5B GPT-2, V100 32 GB, s = 1024
  ModelCard card;
  card.params = 1'500'000'000;
  card.layers = 48;
  card.hidden = 1600;
  card.heads = 16;
  card.vocab = 50257;
  card.tied = true;
  TrainingSetup setup = Worked(Strategy::kDdp, 8);
  setup.framework = Framework::kMegatron;
  setup.seq = 1024;
  setup.checkpointing = Checkpointing::kNone;
  setup.attention = Attention::kEager;
  setup.volta_context = true;
  const double limit = 31.72 * kGiBytes;
  EXPECT_EQ(JudgeFit(Predict(card, setup), limit), FitVerdict::kNo);
  setup.strategy = Strategy::kZero1;
  EXPECT_NE(JudgeFit(Predict(card, setup), limit), FitVerdict::kNo);
}

// The counts of llm-foundry's code: a block without dropout keeps 16 hidden in 16 bits (input and
// output of two norms 4, q, k, v and the attention's output 4, both sides of the activation 8); the
// loss is one kernel on 16-bit logits, which are measured in fp32 after the backward pass.
TEST(MemoryModel, AKernelLossAndPlainNormsKeepWhatTheirCodeSays) {
  ModelCard card;
  card.params = 1'315'950'592;
  card.layers = 24;
  card.hidden = 2048;
  card.heads = 16;
  card.vocab = 50368;
  card.tied = true;
  TrainingSetup setup = Worked(Strategy::kFsdp, 16);
  setup.framework = Framework::kLlmFoundry;
  setup.format = StateFormat::kFsdpMixed;
  setup.checkpointing = Checkpointing::kNone;
  setup.micro_batch = 8;
  const double tokens = 8 * 2048;
  const ActivationParts parts = ActivationsOf(*CompleteCard(card), setup, {});
  EXPECT_NEAR(parts.saved / (tokens * 24 * 2 * 16 * 2048), 1, 0.005);
  EXPECT_DOUBLE_EQ(parts.logits, tokens * 50368 * 4);
  const MemoryEstimate estimate = Predict(card, setup);
  EXPECT_NEAR(TermGib(estimate, PhaseKind::kBackward, "logits and loss"),
              tokens * 50368 * 2 / kGiBytes, 1e-9);
  EXPECT_NEAR(TermGib(estimate, PhaseKind::kEvaluation, "logits and loss"),
              tokens * 50368 * 10 / kGiBytes, 1e-9);
  EXPECT_NE(JudgeFit(estimate, kA100_40), FitVerdict::kNo);  // published: it trained
  setup.micro_batch = 16;
  EXPECT_EQ(JudgeFit(Predict(card, setup), kA100_40), FitVerdict::kNo);
  setup.framework = Framework::kMegatron;
  EXPECT_GT(ActivationsOf(*CompleteCard(card), setup, {}).logits, 2 * parts.logits);
}

TEST(MemoryModel, HostMemoryIsDeepspeedsEstimate) {  // its functions, 6.8B on 4 GPUs of one node
  ModelCard card;
  card.params = 6'805'000'000;
  TrainingSetup setup = Worked(Strategy::kZero3, 4);
  setup.offload = Offload::kAll;
  const auto host = [&] {
    double bytes = 0;
    for (const MemoryTerm& term : Predict(card, setup).host.terms)
      if (term.name != "processes") bytes += term.bytes;
    return bytes / static_cast<double>(card.params);
  };
  EXPECT_NEAR(host(), 18 * 1.5, 0.01);
  setup.offload = Offload::kOptimizer;
  EXPECT_NEAR(host(), 16 * 1.5, 0.01);
  setup.ranks = 8;  // two nodes: each holds half, its buffers too
  setup.ranks_per_node = 4;
  EXPECT_NEAR(host(), 16 * 1.5 / 2, 0.01);
  setup.offload = Offload::kAll;
  EXPECT_NEAR(host(), 18 * 1.5 / 2, 0.01);
}

TEST(MemoryModel, ParametersAloneOnTheHostLeaveTheStatesOnTheGpu) {
  TrainingSetup setup = Worked(Strategy::kZero3, 8);
  const MemoryEstimate on_gpu = Predict(Llama2_7B(), setup);
  setup.host_weights = true;
  const MemoryEstimate on_host = Predict(Llama2_7B(), setup);
  EXPECT_EQ(TermGib(on_host, PhaseKind::kForward, "weights"), 0);
  EXPECT_EQ(TermGib(on_host, PhaseKind::kForward, "optimizer"),
            TermGib(on_gpu, PhaseKind::kForward, "optimizer"));
  double bytes = 0;
  for (const MemoryTerm& term : on_host.host.terms)
    if (term.name != "processes") bytes += term.bytes;
  EXPECT_NEAR(bytes / 6738415616.0, 2 * 1.5, 0.01);
}

TEST(MemoryModel, EveryShardingOfFsdpOffloadsAllItHas) {
  for (const Strategy strategy : {Strategy::kFsdp, Strategy::kFsdpGradOp, Strategy::kFsdpHybrid}) {
    TrainingSetup setup = Worked(strategy, 8);
    setup.format = StateFormat::kFsdpMixed;
    setup.offload = Offload::kAll;
    const StateParts parts = StatesOf(*CompleteCard(Llama2_7B()), setup, {});
    EXPECT_EQ(parts.weights, 0);
    EXPECT_EQ(parts.gradients, 0);
    EXPECT_EQ(parts.optimizer, 0);
  }
}

// Adapters change what is trained, not the width of what flows through the frozen base.
TEST(MemoryModel, WhatIsComputedInFp32IsTwiceAsWide) {
  const ModelCard card = *CompleteCard(Llama2_7B());
  for (const std::int64_t lora : {0, 16}) {
    for (const Strategy strategy :
         {Strategy::kSingle, Strategy::kZero3, Strategy::kFsdp, Strategy::kFsdpGradOp}) {
      TrainingSetup half = Worked(strategy, strategy == Strategy::kSingle ? 1 : 8);
      half.checkpointing = Checkpointing::kNone;
      half.format = StateFormat::kPure16;
      half.lora_rank = lora;
      TrainingSetup full = half;
      full.format = StateFormat::kFp32;
      EXPECT_DOUBLE_EQ(ActivationsOf(card, full, {}).saved, 2 * ActivationsOf(card, half, {}).saved)
          << ToString(strategy) << " " << lora;
      EXPECT_DOUBLE_EQ(ActivationsOf(card, full, {}).block, 2 * ActivationsOf(card, half, {}).block)
          << ToString(strategy) << " " << lora;
      EXPECT_DOUBLE_EQ(BuffersOf(card, full, {}).gathered, 2 * BuffersOf(card, half, {}).gathered)
          << ToString(strategy) << " " << lora;
    }
  }
}

// --- properties -------------------------------------------------------------------------------

// Every eleventh combination: prime to the number of values of each, so that all pairs occur.
std::vector<TrainingSetup> Setups() {
  std::vector<TrainingSetup> setups;
  int combination = 0;
  for (const Strategy strategy :
       {Strategy::kSingle, Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3,
        Strategy::kFsdp, Strategy::kFsdpGradOp, Strategy::kFsdpHybrid})
    for (const Offload offload : {Offload::kNone, Offload::kOptimizer, Offload::kAll})
      for (const Checkpointing checkpointing :
           {Checkpointing::kNone, Checkpointing::kSelectiveOp, Checkpointing::kSelectiveLayer,
            Checkpointing::kFull, Checkpointing::kFullOffload})
        for (const StateFormat format :
             {StateFormat::kFp32, StateFormat::kAmp, StateFormat::kMaster16, StateFormat::kPure16,
              StateFormat::kFsdpMixed})
          for (const Framework framework :
               {Framework::kUnknown, Framework::kHf, Framework::kMegatron, Framework::kTorchtitan,
                Framework::kTorchtune, Framework::kLitgpt, Framework::kLlmFoundry})
            for (const std::int64_t lora : {0, 16}) {
              if (combination++ % 11 != 0) continue;
              TrainingSetup setup;
              setup.strategy = strategy;
              setup.ranks = strategy == Strategy::kSingle ? 1 : 8;
              setup.ranks_per_node = 4;
              setup.offload = offload;
              setup.checkpointing = checkpointing;
              setup.format = format;
              setup.framework = framework;
              setup.lora_rank = lora;
              setup.seq = 1024;
              setup.eval_batch = 2;
              setups.push_back(setup);
            }
  return setups;
}

TEST(MemoryModel, EveryTermIsFiniteAndTheyAddUpToThePeak) {
  for (const TrainingSetup& setup : Setups()) {
    const MemoryEstimate estimate = Predict(Llama2_7B(), setup);
    double largest = 0;
    for (const MemoryPhase& phase : estimate.phases) {
      double sum = 0;
      for (const MemoryTerm& term : phase.terms) {
        ASSERT_TRUE(std::isfinite(term.bytes)) << term.name;
        ASSERT_GT(term.bytes, 0) << term.name;
        sum += term.bytes;
      }
      EXPECT_DOUBLE_EQ(sum, BytesOf(phase, MemoryMetric::kProcess));
      largest = std::max(largest, sum);
    }
    const MemoryPeak peak = PeakOf(estimate, MemoryMetric::kProcess);
    EXPECT_DOUBLE_EQ(peak.bytes, largest);
    EXPECT_LE(peak.low, peak.bytes);
    EXPECT_GE(peak.low, 0);
    EXPECT_GE(peak.high, peak.bytes);
    EXPECT_LE(PeakOf(estimate, MemoryMetric::kAllocated).bytes,
              PeakOf(estimate, MemoryMetric::kReserved).bytes);
    EXPECT_LE(PeakOf(estimate, MemoryMetric::kReserved).bytes, peak.bytes);
  }
}

TEST(MemoryModel, GrowsWithMicroBatchAndSequence) {
  for (TrainingSetup setup : Setups()) {
    for (const bool variable : {false, true}) {
      setup.variable_length = variable;
      const double base = PeakGib(Llama2_7B(), setup);
      TrainingSetup more = setup;
      more.micro_batch = 2;
      EXPECT_GE(PeakGib(Llama2_7B(), more), base);
      more.micro_batch = 3;
      EXPECT_GE(PeakGib(Llama2_7B(), more), PeakGib(Llama2_7B(), [&] {
                  TrainingSetup two = setup;
                  two.micro_batch = 2;
                  return two;
                }()));
      more = setup;
      double last = base;
      for (const std::int64_t seq : {2048, 2999, 3001, 8192, 131072}) {
        more.seq = seq;
        const double now = PeakGib(Llama2_7B(), more);
        EXPECT_GE(now, last) << seq;
        last = now;
      }
    }
  }
}

TEST(MemoryModel, NeverGrowsWithMoreShards) {
  for (TrainingSetup setup : Setups()) {
    if (setup.strategy == Strategy::kSingle) continue;
    setup.ranks_per_node = 0;
    double last = 0;
    for (const int ranks : {512, 64, 16, 8, 4, 2}) {
      setup.ranks = ranks;
      const double now = PeakGib(Llama2_7B(), setup);
      EXPECT_GE(now, last * (1 - 1e-12)) << ranks;
      last = now;
    }
  }
}

TEST(MemoryModel, FallsWithTheStageAboveOneBillion) {
  for (const int ranks : {8, 64}) {
    const double ddp = PeakGib(Llama2_7B(), Worked(Strategy::kDdp, ranks));
    const double one = PeakGib(Llama2_7B(), Worked(Strategy::kZero1, ranks));
    const double two = PeakGib(Llama2_7B(), Worked(Strategy::kZero2, ranks));
    const double three = PeakGib(Llama2_7B(), Worked(Strategy::kZero3, ranks));
    EXPECT_GT(ddp, one);
    EXPECT_GT(one, two);
    EXPECT_GT(two, three);
  }
}

TEST(MemoryModel, BucketsMayMakeShardingASmallModelWorse) {
  TrainingSetup setup = Worked(Strategy::kZero3, 8);
  setup.seq = 128;
  const MemoryEstimate three = Predict(Small(), setup);
  EXPECT_GT(TermGib(three, PhaseKind::kForward, "gathered layers") +
                TermGib(three, PhaseKind::kForward, "communication buckets"),
            TermGib(three, PhaseKind::kForward, "weights") +
                TermGib(three, PhaseKind::kForward, "optimizer"));
}

TEST(MemoryModel, OffloadEmptiesTheGpuAndFillsTheHost) {
  TrainingSetup setup = Worked(Strategy::kZero2, 8);
  const MemoryEstimate without = Predict(Llama2_7B(), setup);
  setup.offload = Offload::kOptimizer;
  const MemoryEstimate with = Predict(Llama2_7B(), setup);
  EXPECT_LT(PeakOf(with, MemoryMetric::kProcess).bytes,
            PeakOf(without, MemoryMetric::kProcess).bytes);
  EXPECT_GT(with.host.bytes, without.host.bytes);
}

TEST(MemoryModel, CheckpointingEightBitAndFlashSaveWhatTheyShould) {
  TrainingSetup plain = Worked(Strategy::kSingle, 1);
  plain.checkpointing = Checkpointing::kNone;
  plain.micro_batch = 8;  // so that activations decide
  TrainingSetup changed = plain;
  changed.checkpointing = Checkpointing::kFull;
  EXPECT_LT(PeakGib(Llama2_7B(), changed), PeakGib(Llama2_7B(), plain));
  changed = plain;
  changed.optimizer = OptimizerOf("adamw_8bit");
  EXPECT_NEAR(TermGib(Predict(Llama2_7B(), plain), PhaseKind::kStep, "optimizer") -
                  TermGib(Predict(Llama2_7B(), changed), PhaseKind::kStep, "optimizer"),
              6 * 6738415616.0 / kGiBytes, 0.001);  // two moments of 1 byte instead of 4
  changed = plain;
  changed.attention = Attention::kEager;
  EXPECT_GT(PeakGib(Llama2_7B(), changed), PeakGib(Llama2_7B(), plain));
  changed = plain;
  changed.loss = LossPath::kFused;
  EXPECT_LT(PeakGib(Llama2_7B(), changed), PeakGib(Llama2_7B(), plain));
}

TEST(MemoryModel, AdaptersTrainWithAFractionOfTheStates) {
  TrainingSetup setup = Worked(Strategy::kSingle, 1);
  setup.format = StateFormat::kPure16;
  setup.lora_rank = 16;
  const double lora = PeakGib(Llama2_7B(), setup);
  EXPECT_GT(lora, 12.5);  // the base in 16 bits
  EXPECT_LT(lora, 18);
  setup.base = BaseFormat::kNf4;
  EXPECT_LT(PeakGib(Llama2_7B(), setup), lora - 5);
}

TEST(MemoryModel, EveryExpertHasAdaptersAndTokensPassFew) {
  ModelCard dense = Llama2_7B();
  dense.params = 0;
  ModelCard sparse = dense;
  sparse.experts = 8;
  sparse.experts_active = 2;
  TrainingSetup setup = Worked(Strategy::kSingle, 1);
  setup.lora_rank = 16;
  const double one = AdapterParams(*CompleteCard(dense), setup);
  const double eight = AdapterParams(*CompleteCard(sparse), setup);
  EXPECT_DOUBLE_EQ(eight - one, 7 * 16.0 * 3 * (4096 + 11008) * 32);
  const ActivationParts few = ActivationsOf(*CompleteCard(sparse), setup, {});
  sparse.experts_active = 8;
  EXPECT_LT(few.block, ActivationsOf(*CompleteCard(sparse), setup, {}).block);
}

TEST(MemoryModel, EightyPercentIsSafeAndAllOfItTight) {
  const MemoryEstimate estimate = Predict(Llama2_7B(), Worked(Strategy::kZero2, 8));
  const double needed = DecisionBytes(estimate);
  EXPECT_EQ(JudgeFit(estimate, needed / 0.79), FitVerdict::kYes);
  EXPECT_EQ(JudgeFit(estimate, needed / 0.85), FitVerdict::kTight);
  EXPECT_EQ(JudgeFit(estimate, needed * 0.99), FitVerdict::kNo);
}

TEST(MemoryModel, WidensTheIntervalForAShapeItAssumed) {
  ModelCard card;
  card.params = 6738415616;
  const MemoryPeak assumed =
      PeakOf(Predict(card, Worked(Strategy::kZero2, 8)), MemoryMetric::kProcess);
  const MemoryPeak known =
      PeakOf(Predict(Llama2_7B(), Worked(Strategy::kZero2, 8)), MemoryMetric::kProcess);
  EXPECT_GT(assumed.high / assumed.bytes, known.high / known.bytes + 0.1);
}

TEST(MemoryModel, SaysThatAVisionModelsActivationsAreNotCounted) {
  ModelCard card;
  card.architecture = Architecture::kVision;
  card.params = 86'000'000;
  TrainingSetup setup = Worked(Strategy::kSingle, 1);
  setup.format = StateFormat::kAmp;
  const MemoryEstimate estimate = Predict(card, setup);
  ASSERT_FALSE(estimate.assumptions.empty());
  EXPECT_EQ(estimate.assumptions[0],
            "activations are not counted: layers and hidden size are unknown");
  const MemoryPeak peak = PeakOf(estimate, MemoryMetric::kAllocated);
  EXPECT_NEAR(peak.bytes, 20.0 * 86e6, 0.05 * kGiBytes);  // 16 and the temporaries of the step
  EXPECT_GT(peak.high, 1.5 * peak.bytes);
}

TEST(MemoryModel, RefusesWhatCannotBe) {
  const auto error = [](const ModelCard& card, const TrainingSetup& setup) {
    const auto estimate = PredictMemory(card, setup);
    return estimate ? "accepted" : estimate.error().message;
  };
  const TrainingSetup good = Worked(Strategy::kSingle, 1);
  EXPECT_EQ(error(ModelCard{}, good), "model: neither parameters nor layers and hidden known");
  TrainingSetup setup = good;
  setup.seq = 0;
  EXPECT_EQ(error(Llama2_7B(), setup), "sequence length is 0, below 1");
  setup = good;
  setup.micro_batch = -4;
  EXPECT_EQ(error(Llama2_7B(), setup), "micro batch is -4, below 1");
  setup = good;
  setup.micro_batch = setup.seq = 1'000'000'000'000;
  EXPECT_FALSE(PredictMemory(Llama2_7B(), setup));
  setup = good;
  setup.ranks = 8;
  EXPECT_EQ(error(Llama2_7B(), setup), "strategy single on 8 ranks");
  ModelCard absurd = Llama2_7B();
  absurd.params = 1'000'000'000'000'000'000;
  EXPECT_FALSE(PredictMemory(absurd, good));
  absurd = {};
  absurd.layers = 99'999;
  absurd.hidden = 900'000;
  setup = good;
  setup.attention = Attention::kEager;
  setup.checkpointing = Checkpointing::kNone;
  setup.seq = 1'000'000'000;
  EXPECT_FALSE(PredictMemory(absurd, setup));
}

TEST(MemoryModel, SameInputsGiveTheSameEstimate) {
  const TrainingSetup setup = Worked(Strategy::kZero3, 8);
  EXPECT_EQ(Predict(Llama2_7B(), setup), Predict(Llama2_7B(), setup));
}

}  // namespace
}  // namespace launch
