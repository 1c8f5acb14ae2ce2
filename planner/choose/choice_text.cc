#include "planner/choose/choice_text.h"

#include "common/units.h"

namespace launch {

namespace {

std::string Gib(double bytes) { return FormatNumber(bytes / static_cast<double>(kGiB), "%.1f"); }

std::string Seconds(double seconds) {
  return FormatNumber(seconds, seconds < 0.1 ? "%.4f s" : (seconds < 10 ? "%.2f s" : "%.1f s"));
}

std::string Gpus(int ranks) { return std::to_string(ranks) + (ranks == 1 ? " GPU" : " GPUs"); }

std::string ReasonOf(const JudgedOption& one, const JudgedOption* chosen,
                     const ChoiceInput& input) {
  switch (one.verdict) {
    case OptionVerdict::kGpuMemory:
      return "needs " + Gib(one.decision_bytes) + " GiB of " + Gib(input.gpu_bytes);
    case OptionVerdict::kHostMemory:
      return "needs " + Gib(one.host_bytes) + " GiB of host memory, a node has " +
             Gib(input.host_bytes.value_or(0));
    case OptionVerdict::kNoFormula:
      return "sizes that no formula accepts";
    default:
      break;
  }
  if (chosen == nullptr || !one.step_seconds || !chosen->step_seconds) return "not taken";
  const double slower = 100 * (*one.step_seconds / *chosen->step_seconds - 1);
  std::string reason = slower >= 0.5 ? "slower by " + FormatNumber(slower, "%.0f %%")
                                     : std::string("not faster, and less simple or riskier");
  if (one.verdict == OptionVerdict::kNotSimpler) reason = "as fast within 5 %, and less simple";
  if (one.fit == FitVerdict::kTight) reason += ", and fits tightly";
  return reason;
}

// Which micro-batch speaks for a way: what fits before what does not, then the better score, then
// the smaller need.
bool SpeaksBefore(const JudgedOption& a, const JudgedOption& b) {
  if (a.step_seconds.has_value() != b.step_seconds.has_value()) return a.step_seconds.has_value();
  const bool other_a = a.verdict == OptionVerdict::kOtherBatch;
  const bool other_b = b.verdict == OptionVerdict::kOtherBatch;
  if (other_a != other_b) return other_b;
  if (a.step_seconds) return a.score < b.score;
  return a.decision_bytes < b.decision_bytes;
}

}  // namespace

std::string GibText(double bytes) { return Gib(bytes) + " GiB"; }

std::string NameOf(const PlanOption& option) {
  std::string name(ToString(option.strategy));
  if (option.offload == Offload::kOptimizer) name += " with optimizer offload";
  if (option.offload == Offload::kAll) name += " with parameter and optimizer offload";
  if (option.checkpointing == Checkpointing::kFull) name += ", activation checkpointing";
  return name;
}

std::string WhyChosen(const Choice& choice, const ChoiceInput& input) {
  if (!choice.chosen) return {};
  const JudgedOption& chosen = choice.judged[*choice.chosen];
  std::string why = NameOf(chosen.option) + " on " + Gpus(input.shape.ranks) + ": ";
  // What is simpler and does not fit is the reason for going further.
  const JudgedOption* simpler = nullptr;
  for (const JudgedOption& one : choice.judged) {
    if (one.verdict != OptionVerdict::kGpuMemory) continue;
    if (ComplexityOf(one.option) >= ComplexityOf(chosen.option)) continue;
    if (one.option.micro > chosen.option.micro) continue;
    // The same micro-batch, or of many the largest that was asked.
    if (simpler == nullptr || ComplexityOf(one.option) > ComplexityOf(simpler->option) ||
        (SameWay(one.option, simpler->option) && one.option.micro > simpler->option.micro)) {
      simpler = &one;
    }
  }
  if (simpler != nullptr) {
    why += NameOf(simpler->option) + " needs " + Gib(simpler->decision_bytes) + " GiB of " +
           Gib(input.gpu_bytes) + "; ";
  }
  // The number that the memory table ends with; `decision_bytes` is what the fit was judged on.
  const double peak = choice.memory && !chosen.measured
                          ? PeakOf(*choice.memory, MemoryMetric::kProcess).bytes
                          : chosen.decision_bytes;
  why +=
      "predicted " + Gib(peak) + " GiB (" + FormatNumber(100 * peak / input.gpu_bytes, "%.0f %%)");
  if (chosen.fit == FitVerdict::kTight) why += ", tight";
  if (choice.time) {
    why += ", " + Seconds(choice.time->step_seconds) + " a step, most of it " +
           std::string(ToString(choice.time->bound));
  }
  return why;
}

std::vector<RejectedWay> RejectedWays(const Choice& choice, const ChoiceInput& input) {
  const JudgedOption* chosen = choice.chosen ? &choice.judged[*choice.chosen] : nullptr;
  std::vector<RejectedWay> rejected;
  for (std::size_t first = 0; first < choice.judged.size();) {
    const JudgedOption* speaker = &choice.judged[first];
    std::size_t last = first;
    while (last < choice.judged.size() &&
           SameWay(choice.judged[first].option, choice.judged[last].option)) {
      if (SpeaksBefore(choice.judged[last], *speaker)) speaker = &choice.judged[last];
      ++last;
    }
    first = last;
    if (chosen != nullptr && SameWay(speaker->option, chosen->option)) continue;
    rejected.push_back({NameOf(speaker->option), std::string(CodeOf(speaker->verdict)),
                        ReasonOf(*speaker, chosen, input)});
  }
  return rejected;
}

}  // namespace launch
