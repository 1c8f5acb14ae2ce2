#include "planner/choose/nothing_fits.h"

#include <cmath>
#include <string>
#include <vector>

#include "common/units.h"
#include "planner/choose/choice_text.h"
#include "planner/choose/remedies.h"
#include "planner/choose/what_if.h"

namespace launch {
namespace {

constexpr std::size_t kMostShown = 5;

std::string Words(const Remedy& remedy) {
  const TrainingSetup& setup = remedy.setup;
  switch (remedy.kind) {
    case RemedyKind::kMicroBatch:
      return "batch.micro " + std::to_string(setup.micro_batch) + " accumulated " +
             std::to_string(remedy.accumulate) + " times";
    case RemedyKind::kPrecision:
      return "16-bit precision";
    case RemedyKind::kCheckpointing:
      return "activation_checkpointing " + std::string(NameOf(setup.checkpointing));
    case RemedyKind::kStage:
      return "strategy " + std::string(ToString(setup.strategy));
    case RemedyKind::kOffload:
      return "strategy " + std::string(ToString(setup.strategy)) + " with offload " +
             std::string(ToString(setup.offload));
  }
  return "";
}

// What the user's own choices kept from being tried.
std::vector<std::string> ByRemedies(const ChoiceInput& ask, const JudgedOption& least) {
  RemedyInput in;
  in.card = ask.card;
  in.setup = SetupOf(ask, least.option);
  in.accumulate = least.option.accumulate;
  in.limit_bytes = ask.gpu_bytes;
  in.host_bytes = ask.host_bytes.value_or(0);
  std::vector<std::string> words;
  const auto remedies = MemoryRemedies(in);
  if (!remedies) return words;
  for (const Remedy& remedy : *remedies) {
    if (remedy.fit == FitVerdict::kNo) continue;
    words.push_back(Words(remedy) + " (" + GibText(remedy.bytes) + ")");
  }
  return words;
}

// What the job itself would have to be.
std::vector<std::string> ByAnotherJob(const Forecast& forecast, const ForecastInput& input) {
  const ChoiceInput& ask = forecast.input;
  std::vector<std::string> changes;
  if (ask.setup.optimizer.moments > 0 && ask.setup.optimizer.moment_bytes == 0)
    changes.emplace_back("optimizer=adamw8bit");
  if (ask.setup.lora_rank == 0) changes.emplace_back("lora.rank=16");
  if (ask.setup.seq > 1) changes.push_back("seq_len=" + std::to_string(ask.setup.seq / 2));
  const bool nodes = ask.shape.ranks > ask.shape.per_node;
  changes.push_back(nodes ? "nodes=" + std::to_string(2 * ask.shape.ranks / ask.shape.per_node)
                          : "gpus=" + std::to_string(2 * ask.shape.ranks));
  std::vector<std::string> words;
  for (const std::string& change : changes) {
    const auto row = AskedChange(change, forecast, input);
    if (!row || row->fits == "no" || row->fits.empty() || !row->peak_gib) continue;
    words.push_back(change + " (" + row->says + ", " + FormatNumber(*row->peak_gib, "%.1f GiB") +
                    ")");
  }
  return words;
}

// What would leave the host enough: what the user fixed set free, then another job. Each with both
// figures, because what the host is spared the GPUs may have to hold.
std::vector<std::string> ForTheHost(const Forecast& forecast) {
  const ChoiceInput& ask = forecast.input;
  std::vector<std::string> changes;
  if (ask.limits.offload || ask.limits.strategy) changes.emplace_back("strategy=auto,offload=auto");
  if (ask.setup.lora_rank == 0) changes.emplace_back("lora.rank=16");
  if (ask.setup.optimizer.moments > 0 && ask.setup.optimizer.moment_bytes == 0)
    changes.emplace_back("strategy=auto,offload=auto,optimizer=adamw8bit");
  const int nodes = std::max(1, ask.shape.ranks / std::max(1, ask.shape.per_node));
  for (const int more : {2, 4}) changes.push_back("nodes=" + std::to_string(nodes * more));
  if (ask.setup.seq > 1) changes.push_back("seq_len=" + std::to_string(ask.setup.seq / 2));
  if (ask.limits.checkpointing == Checkpointing::kNone)
    changes.emplace_back("activation_checkpointing=full");
  std::vector<std::string> words;
  for (const std::string& change : changes) {
    const auto changed = ChangedInput(change, forecast);
    const auto choice = changed ? ChoosePlan(*changed) : Result<Choice>(Choice{});
    if (!choice || !choice->chosen) continue;
    const JudgedOption& one = choice->judged[*choice->chosen];
    words.push_back(change + " (" + NameOf(one.option) + ", " + GibText(one.host_bytes) +
                    " of host memory, " + GibText(one.decision_bytes) + " of a GPU)");
  }
  return words;
}

std::string Listed(const std::vector<std::string>& words) {
  std::string text = "what would fit: ";
  for (std::size_t i = 0; i < words.size() && i < kMostShown; ++i)
    text += (i == 0 ? "" : "; ") + words[i];
  return text;
}

}  // namespace

Unexpected NothingFits(const Forecast& forecast, const ForecastInput& input) {
  const ChoiceInput& ask = forecast.input;
  const JudgedOption* host = LeastHostMemory(forecast.choice);
  if (host != nullptr) {
    const std::vector<std::string> words = ForTheHost(forecast);
    return Fail(ErrorCode::kCannotFit,
                "HOST_MEM: " + NameOf(host->option) + " needs " + GibText(host->host_bytes) +
                    " of host memory on a node, and " + GibText(ask.host_bytes.value_or(0)) +
                    " are there",
                (words.empty() ? std::string() : Listed(words) + "; or ") +
                    "ask for nodes with more memory (memory: " +
                    FormatNumber(std::ceil(host->host_bytes / kGiBytes), "%.0fGiB+") + ")");
  }
  const JudgedOption* least = LeastMemory(forecast.choice);
  std::string message =
      "GPU_MEM: no plan is predicted to fit in " + GibText(ask.gpu_bytes) + " per GPU";
  std::vector<std::string> words;
  if (least != nullptr) {
    message +=
        "; the least is " + NameOf(least->option) + " with " + GibText(least->decision_bytes);
    words = ByRemedies(ask, *least);
    for (std::string& more : ByAnotherJob(forecast, input)) words.push_back(std::move(more));
  }
  if (words.empty()) {
    return Fail(ErrorCode::kCannotFit, std::move(message),
                "more GPUs, a shorter model.seq_len, model.lora, an 8-bit optimizer "
                "(model.optimizer: adamw8bit) or a larger GPU would help, none of them alone");
  }
  return Fail(ErrorCode::kCannotFit, std::move(message),
              Listed(words) + "; launch plan --what-if KEY=VALUE shows others");
}

}  // namespace launch
