// Cost of judging candidates: 1,000 of them are to take less than 50 ms. Cost of reading a script,
// which is to grow with its length.
#include <benchmark/benchmark.h>

#include "common/error.h"
#include "common/units.h"
#include "planner/choose/choice.h"
#include "planner/line/launch_line.h"

namespace launch {
namespace {

// 7B on eight A100-40; the global batch decides how many micro-batches there are to judge.
ChoiceInput SevenBillion(std::int64_t global, int ranks) {
  ChoiceInput input;
  input.card.architecture = Architecture::kDecoder;
  input.card.params = 6'738'415'616;
  input.card.layers = 32;
  input.card.hidden = 4096;
  input.card.heads = 32;
  input.card.vocab = 32000;
  input.setup.framework = Framework::kHf;
  input.setup.seq = 2048;
  input.machine.gpu = *GpuCatalog::BuiltIn().Find("A100", 40);
  input.machine.gpus_per_node = 8;
  input.shape = {ranks, 8};
  input.limits.batch.global = global;
  input.gpu_bytes = 40.0 * static_cast<double>(kGiB);
  return input;
}

void JudgeCandidates(benchmark::State& state) {
  const ChoiceInput input = SevenBillion(state.range(0), static_cast<int>(state.range(1)));
  std::size_t candidates = 0;
  for (auto _ : state) {
    auto choice = ChoosePlan(input);
    LAUNCH_CHECK(choice.has_value() && choice->chosen, "nothing was chosen");
    candidates = choice->judged.size();
    benchmark::DoNotOptimize(choice);
  }
  state.counters["candidates"] = static_cast<double>(candidates);
  state.counters["seconds_per_million"] = benchmark::Counter(
      static_cast<double>(candidates) / 1e6,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
// 8 x 5040 has 60 divisors above the eight ranks; 1,024 GPUs are 128 nodes.
BENCHMARK(JudgeCandidates)->Args({256, 8})->Args({8 * 5040, 8})->Args({1024 * 720, 1024});

// Variables that have one value or another, and functions, in front of the line of torchrun.
void ReadScript(benchmark::State& state) {
  std::string text = "if [ -n \"$O\" ]; then\n";
  for (int i = 0; i < state.range(0); ++i) text += "export V" + std::to_string(i) + "=1\n";
  text += "fi\n";
  for (int i = 0; i < state.range(0); ++i) text += "f" + std::to_string(i) + "() { :; }\n";
  LaunchLineOptions options;
  options.files["a.sh"] = text + "torchrun --nproc_per_node=2 t.py\n";
  for (auto _ : state) {
    auto line = ReadLaunchLine("bash a.sh", options);
    LAUNCH_CHECK(line.has_value(), "the script was not read");
    benchmark::DoNotOptimize(line);
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(ReadScript)->RangeMultiplier(2)->Range(256, 2048)->Complexity();

}  // namespace
}  // namespace launch

BENCHMARK_MAIN();
