#include "planner/choose/choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/choose/precision.h"
#include "planner/model/strategy.h"

namespace launch {

namespace {

// What a prediction without measurements may miss, as a share of the time. Assumed.
constexpr double kTightRisk = 0.05;
constexpr double kOffloadRisk = 0.10;
constexpr double kGatherAcrossNodesRisk = 0.05;
constexpr double kTie = 1.05;  // within 5 % of the best the simplest is chosen
// Tokens per GPU beyond which a larger micro-batch gains little (the best public configurations
// use 4k to 32k) and leaves less room.
constexpr std::int64_t kEnoughTokens = 16384;
// A small micro-batch grows to the line below which predicted runs were never out of memory; one of
// many tokens, which already keeps the GPU busy, only while there is room to spare.
constexpr double kFullShare = 0.80;
constexpr std::int64_t kManyTokens = 8192;
constexpr double kRoomyShare = 0.60;
// Linux may lend GPU memory to a coherent host that runs out (stas00/ml-engineering on GH200): plan
// for less of the host's memory.
constexpr double kCoherentHostShare = 0.8;
constexpr std::size_t kManyOptions = 1000;  // more are not all asked, to answer within milliseconds

double RiskOf(const PlanOption& option, FitVerdict fit, const RankShape& shape) {
  double risk = 0;
  if (fit == FitVerdict::kTight) risk += kTightRisk;
  if (option.offload != Offload::kNone) risk += kOffloadRisk;
  const bool gathers = option.strategy == Strategy::kZero3 || option.strategy == Strategy::kFsdp;
  if (gathers && shape.ranks > shape.per_node) risk += kGatherAcrossNodesRisk;
  return risk;
}

TimeSetup TimeOf(const ChoiceInput& input, const PlanOption& option) {
  TimeSetup time = input.time;
  time.accumulate = option.accumulate;
  return time;
}

bool Fits(const JudgedOption& judged) { return judged.step_seconds.has_value(); }

// Of one way [first, last): the largest micro-batch that surely fits, up to 16k tokens, unless a
// smaller one is faster by more than 5 %; what only fits tightly comes after all that surely fit.
std::optional<std::size_t> BestOfWay(const std::vector<JudgedOption>& judged, std::size_t first,
                                     std::size_t last, const ChoiceInput& input) {
  for (const FitVerdict wanted : {FitVerdict::kYes, FitVerdict::kTight}) {
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = first; i < last; ++i)
      if (Fits(judged[i]) && judged[i].fit == wanted) best = std::min(best, judged[i].score);
    std::optional<std::size_t> taken;
    for (std::size_t i = first; i < last; ++i) {
      const JudgedOption& one = judged[i];
      if (!Fits(one) || one.fit != wanted || one.score > kTie * best) continue;
      const auto above = [&](std::int64_t tokens) {
        return one.option.micro > tokens / std::max<std::int64_t>(1, input.setup.seq);
      };
      const double share = one.decision_bytes / input.gpu_bytes;
      const bool enough =
          above(kEnoughTokens) || share > (above(kManyTokens) ? kRoomyShare : kFullShare);
      if (taken && enough) break;
      taken = i;
    }
    if (taken) return taken;
  }
  return std::nullopt;
}

class Judge {
 public:
  explicit Judge(const ChoiceInput& input, ModelCard card) : input_(input), card_(std::move(card)) {
    if (input.host_bytes) {
      host_limit_ = *input.host_bytes * (input.setup.coherent_host ? kCoherentHostShare : 1);
    }
  }

  JudgedOption Of(const PlanOption& option) {
    JudgedOption judged;
    judged.option = option;
    const TrainingSetup setup = SetupOf(input_, option);
    auto memory = PredictMemory(card_, setup);
    if (!memory) return NoFormula(judged, memory.error());
    Correct(input_.lessons, option.strategy, *memory);
    const auto measured = MeasuredBytes(input_.lessons, option, *memory);
    judged.measured = measured.has_value();
    judged.decision_bytes = measured.value_or(DecisionBytes(*memory));
    judged.host_bytes = memory->host.bytes;
    judged.fit =
        measured ? JudgeMeasured(*measured, input_.gpu_bytes) : JudgeFit(*memory, input_.gpu_bytes);
    if (judged.fit == FitVerdict::kNo) {
      judged.verdict = OptionVerdict::kGpuMemory;
      return judged;
    }
    if (host_limit_ && judged.host_bytes > *host_limit_) {
      judged.verdict = OptionVerdict::kHostMemory;
      return judged;
    }
    const auto step = PredictTime(card_, setup, TimeOf(input_, option), input_.machine);
    if (!step) return NoFormula(judged, step.error());
    judged.step_seconds = step->step_seconds;
    judged.score = step->step_seconds * (1 + RiskOf(option, judged.fit, input_.shape));
    judged.verdict = OptionVerdict::kSlower;
    return judged;
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  JudgedOption NoFormula(JudgedOption judged, const Error& error) {
    if (!error_) error_ = error;
    judged.verdict = OptionVerdict::kNoFormula;
    return judged;
  }

  const ChoiceInput& input_;
  ModelCard card_;
  std::optional<double> host_limit_;
  std::optional<Error> error_;
};

// The best of each way, in the order of the candidates.
std::vector<std::size_t> BestOfWays(std::vector<JudgedOption>& judged, const ChoiceInput& input) {
  std::vector<std::size_t> best;
  for (std::size_t first = 0; first < judged.size();) {
    std::size_t last = first + 1;
    while (last < judged.size() && SameWay(judged[first].option, judged[last].option)) ++last;
    if (const auto taken = BestOfWay(judged, first, last, input)) {
      best.push_back(*taken);
      for (std::size_t i = first; i < last; ++i)
        if (i != *taken && Fits(judged[i])) judged[i].verdict = OptionVerdict::kOtherBatch;
    }
    first = last;
  }
  return best;
}

void Pick(Choice& choice, const std::vector<std::size_t>& ways) {
  double best = std::numeric_limits<double>::infinity();
  for (const std::size_t i : ways) best = std::min(best, choice.judged[i].score);
  for (const std::size_t i : ways) {
    JudgedOption& one = choice.judged[i];
    if (one.score > kTie * best) continue;
    one.verdict = OptionVerdict::kNotSimpler;
    if (!choice.chosen ||
        ComplexityOf(one.option) < ComplexityOf(choice.judged[*choice.chosen].option)) {
      choice.chosen = i;
    }
  }
  if (choice.chosen) choice.judged[*choice.chosen].verdict = OptionVerdict::kChosen;
}

// Past the first micro-batch of a way that does not fit, the formula is not asked of larger ones.
bool NeedsMore(const PlanOption& option, const JudgedOption& last, const ChoiceInput& input) {
  return last.verdict == OptionVerdict::kGpuMemory && input.lessons.ways.empty() &&
         SameWay(last.option, option) && option.micro > last.option.micro;
}

}  // namespace

TrainingSetup SetupOf(const ChoiceInput& input, const PlanOption& option) {
  TrainingSetup setup = input.setup;
  setup.strategy = option.strategy;
  setup.offload = option.offload;
  setup.ranks = input.shape.ranks;
  setup.ranks_per_node = std::min(input.shape.per_node, input.shape.ranks);
  setup.micro_batch = option.micro;
  setup.checkpointing = option.checkpointing;
  if (option.accumulate > 1) setup.keeps_gradients = true;
  setup.format = FormatUnder(option.strategy, setup.format, setup.lora_rank);
  return setup;
}

Result<Choice> ChoosePlan(const ChoiceInput& input) {
  if (!(input.gpu_bytes > 0)) {
    return Fail(ErrorCode::kInvalidArgument, "the memory of the GPUs is not known");
  }
  const auto needed = CapabilityFor(input.time.precision);
  if (needed && input.capability && *input.capability < *needed) {
    return Fail(ErrorCode::kCannotFit,
                "precision: " + std::string(ToString(input.time.precision)) +
                    " needs compute capability " + ToString(*needed) + " or newer; the GPU has " +
                    ToString(*input.capability),
                "write precision: auto");
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto options, OptionsOf(input.limits, input.shape));
  LAUNCH_ASSIGN_OR_RETURN(ModelCard card, CompleteCard(input.card));
  Judge judge(input, std::move(card));
  Choice choice;
  choice.judged.reserve(options.size());
  const bool many = options.size() > kManyOptions;
  bool predicted = false;
  for (const PlanOption& option : options) {
    if (many && !choice.judged.empty() && NeedsMore(option, choice.judged.back(), input)) continue;
    choice.judged.push_back(judge.Of(option));
    predicted = predicted || choice.judged.back().verdict != OptionVerdict::kNoFormula;
  }
  if (!predicted && judge.error()) return Unexpected(*judge.error());
  Pick(choice, BestOfWays(choice.judged, input));
  if (!choice.chosen) return choice;
  LAUNCH_RETURN_IF_ERROR(TakeOption(*choice.chosen, input, choice));
  return choice;
}

Result<void> TakeOption(std::size_t position, const ChoiceInput& input, Choice& choice) {
  const PlanOption& option = choice.judged[position].option;
  const TrainingSetup setup = SetupOf(input, option);
  LAUNCH_ASSIGN_OR_RETURN(const ModelCard card, CompleteCard(input.card));
  LAUNCH_ASSIGN_OR_RETURN(MemoryEstimate memory, PredictMemory(card, setup));
  Correct(input.lessons, option.strategy, memory);
  choice.memory = std::move(memory);
  if (auto time = PredictTime(card, setup, TimeOf(input, option), input.machine)) {
    choice.time = std::move(*time);
  }
  choice.chosen = position;
  return {};
}

const JudgedOption* LeastHostMemory(const Choice& choice) {
  const JudgedOption* least = nullptr;
  for (const JudgedOption& one : choice.judged) {
    if (one.verdict != OptionVerdict::kHostMemory) continue;
    if (least == nullptr || one.host_bytes < least->host_bytes) least = &one;
  }
  return least;
}

const JudgedOption* LeastMemory(const Choice& choice) {
  const JudgedOption* least = nullptr;
  for (const JudgedOption& one : choice.judged) {
    if (one.decision_bytes <= 0) continue;
    if (least == nullptr || one.decision_bytes < least->decision_bytes) least = &one;
  }
  return least;
}

std::string_view CodeOf(OptionVerdict v) {
  switch (v) {
    case OptionVerdict::kChosen:
      return "CHOSEN";
    case OptionVerdict::kGpuMemory:
      return "GPU_MEM";
    case OptionVerdict::kHostMemory:
      return "HOST_MEM";
    case OptionVerdict::kSlower:
      return "SLOWER";
    case OptionVerdict::kNotSimpler:
      return "NOT_SIMPLER";
    case OptionVerdict::kOtherBatch:
      return "OTHER_BATCH";
    case OptionVerdict::kNoFormula:
      return "NO_FORMULA";
  }
  return "NO_FORMULA";
}

}  // namespace launch
