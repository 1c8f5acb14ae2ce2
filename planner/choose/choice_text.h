// The sentences of a choice: why this plan, and why not each of the others.
#pragma once

#include <string>
#include <vector>

#include "planner/choose/choice.h"

namespace launch {

// The option in words: "zero2", "zero3 with optimizer offload, activation checkpointing".
std::string NameOf(const PlanOption& option);

std::string GibText(double bytes);  // "12.3 GiB"

// One sentence from the numbers: "zero1 on 8 GPUs: ddp needs 104.0 GiB of 79.2; predicted 42.0 GiB
// (53 %), 0.71 s a step". Empty when nothing was chosen.
std::string WhyChosen(const Choice& choice, const ChoiceInput& input);

struct RejectedWay {
  std::string name;
  std::string code;    // CodeOf
  std::string reason;  // "needs 104.0 GiB of 79.2"
  friend bool operator==(const RejectedWay&, const RejectedWay&) = default;
};
// One entry for each way (strategy, offload, checkpointing) but the chosen one, with the
// micro-batch that came nearest to fitting; in the order of the candidates.
std::vector<RejectedWay> RejectedWays(const Choice& choice, const ChoiceInput& input);

}  // namespace launch
