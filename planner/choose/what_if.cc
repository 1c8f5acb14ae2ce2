#include "planner/choose/what_if.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "common/gpu_catalog.h"
#include "common/units.h"
#include "planner/choose/change_words.h"
#include "planner/choose/choice_text.h"
#include "planner/choose/duration.h"
#include "planner/choose/mixed_gpus.h"
#include "planner/model/strategy.h"
#include "planner/model/training_setup.h"

namespace launch {
namespace {

constexpr double kWorthShowing = 0.05;

// What was measured of this job holds for its own model, length, ranks and devices only.
void KeepLessons(const ChoiceInput& base, ChoiceInput& changed) {
  const GpuFigures& now = base.machine.gpu;
  const GpuFigures& then = changed.machine.gpu;
  const bool same = now.tflops == then.tflops && now.memory_gbps == then.memory_gbps &&
                    base.gpu_bytes == changed.gpu_bytes;
  if (!same) changed.lessons = {};
  if (changed.setup != base.setup || changed.shape.ranks != base.shape.ranks)
    changed.lessons.ways.clear();
}

// Without a given batch nothing is known of a step's length: only memory is compared.
Change RowOf(std::string text, ChoiceInput changed, const Forecast& forecast,
             const ForecastInput& input) {
  KeepLessons(forecast.input, changed);
  Change row;
  row.change = std::move(text);
  const auto choice = ChoosePlan(changed);
  if (!choice) {
    row.says = choice.error().message;
    return row;
  }
  // What the host cannot hold does not fit, whatever its GPUs could.
  const JudgedOption* host = choice->chosen ? nullptr : LeastHostMemory(*choice);
  const JudgedOption* judged = choice->chosen    ? &choice->judged[*choice->chosen]
                               : host != nullptr ? host
                                                 : LeastMemory(*choice);
  if (judged == nullptr) {
    row.says = "no formula for it";
    return row;
  }
  const PlanOption& option = judged->option;
  row.strategy = std::string(ToString(option.strategy));
  row.offload = option.offload;
  row.fits = choice->chosen ? std::string(ToString(judged->fit)) : "no";
  row.peak_gib = RoundedGib(judged->decision_bytes);
  if (choice->memory && !judged->measured) {
    row.peak_gib = RoundedGib(PeakOf(*choice->memory, MemoryMetric::kProcess).bytes);
  }
  if (forecast.batch_given) {
    row.batch = {option.micro * option.accumulate * changed.shape.ranks, option.micro,
                 option.accumulate};
    row.step_seconds = judged->step_seconds;
    if (choice->time) {
      const TimeEstimate& time = *choice->time;
      row.duration_seconds =
          DurationOf(input.steps, {time.step_seconds, time.low, time.high, Basis::kCold}).seconds;
    }
  }
  row.says = NameOf(option);
  if (host != nullptr) {
    row.says = "nothing fits: " + row.says + " needs " + GibText(host->host_bytes) +
               " of host memory, and a node has " + GibText(changed.host_bytes.value_or(0));
  } else if (!choice->chosen) {
    row.says = "nothing fits; the least is " + row.says;
  }
  return row;
}

bool Differs(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b) return a.has_value() != b.has_value();
  return std::fabs(*a - *b) > kWorthShowing * std::max(std::fabs(*a), std::fabs(*b));
}

bool WorthShowing(const Change& row, const Change& now) {
  if (row.strategy.empty()) return false;
  return row.strategy != now.strategy || row.offload != now.offload || row.fits != now.fits ||
         Differs(row.peak_gib, now.peak_gib) || Differs(row.step_seconds, now.step_seconds);
}

// Every GPU class of the cluster once, by name: its machine and usable memory.
std::vector<std::pair<std::string, GpuDevice>> OtherClasses(const std::vector<PlannerOffer>& offers,
                                                            const RankLayout& layout) {
  std::set<std::string> used;
  for (const NodeShare& share : layout.nodes) {
    for (int index : share.gpus) {
      used.insert(ClassOf(share.inventory->gpus[static_cast<std::size_t>(index)]));
    }
  }
  std::vector<std::pair<std::string, GpuDevice>> others;
  for (const PlannerOffer& offer : offers) {
    for (const GpuDevice& gpu : offer.inventory->gpus) {
      if (gpu.device_class != DeviceClass::kCuda) continue;
      const std::string name = ClassOf(gpu);
      if (used.insert(name).second) others.emplace_back(name, gpu);
    }
  }
  return others;
}

void TakeDevice(const GpuDevice& gpu, ChoiceInput& changed) {
  SetDevice(changed, MachineOf(GpuCatalog::BuiltIn(), gpu), CapabilityOf(gpu),
            static_cast<double>(UsableBytes(gpu)));
}

// A mixed gang goes at the pace, and in the precision, of its weakest GPU; one class alone need
// not.
void TakeClass(const ClassShare& share, ChoiceInput& changed) {
  SetRanks(changed, share.count, share.most_per_node);
  TakeDevice(share.gpu, changed);
}

}  // namespace

std::vector<Change> UsualChanges(const Forecast& forecast, const ForecastInput& input,
                                 const std::vector<PlannerOffer>& offers) {
  const ChoiceInput& base = forecast.input;
  const Change now = RowOf("", base, forecast, input);
  std::vector<Change> rows;
  const auto add = [&](const std::string& text, const std::function<void(ChoiceInput&)>& change) {
    ChoiceInput changed = base;
    change(changed);
    Change row = RowOf(text, changed, forecast, input);
    if (WorthShowing(row, now)) rows.push_back(std::move(row));
  };
  const int ranks = base.shape.ranks;
  const int per_node = base.shape.per_node;
  const auto gpus = [&](const std::string& text, int number) {
    if (number < 1 || number == ranks || number > kMaxRanks) return;
    add(text, [&](ChoiceInput& changed) {
      SetRanks(changed, number, ranks > per_node ? std::min(number, per_node) : number);
    });
  };
  gpus("one GPU fewer", ranks - 1);
  gpus("one GPU more", ranks + 1);
  if (ranks > 3) gpus("half the GPUs", ranks / 2);
  if (ranks > 1) gpus("twice the GPUs", ranks * 2);
  add("seq_len=" + std::to_string(base.setup.seq * 2),
      [](ChoiceInput& changed) { changed.setup.seq *= 2; });
  for (const auto& [value, text] :
       {std::pair{Checkpointing::kNone, "activation_checkpointing=none"},
        std::pair{Checkpointing::kFull, "activation_checkpointing=full"}}) {
    add(text, [&](ChoiceInput& changed) { changed.limits.checkpointing = value; });
  }
  add("offload=optimizer", [](ChoiceInput& changed) {
    changed.limits.offload = Offload::kOptimizer;
    const auto& strategy = changed.limits.strategy;
    if (strategy && !TakesOffload(*strategy, Offload::kOptimizer)) changed.limits.strategy.reset();
  });
  if (base.setup.optimizer.moments > 0 && base.setup.optimizer.moment_bytes == 0)
    add("optimizer=adamw8bit",
        [](ChoiceInput& changed) { changed.setup.optimizer = OptimizerOf("adamw8bit"); });
  const auto shares = SharesOf(input.layout);
  for (const auto& [name, share] : shares) {
    if (shares.size() < 2) break;
    add("only the " + std::to_string(share.count) + " x " + name,
        [&one = share](ChoiceInput& changed) { TakeClass(one, changed); });
  }
  for (const auto& [name, gpu] : OtherClasses(offers, input.layout)) {
    add("gpu=" + name, [&device = gpu](ChoiceInput& changed) { TakeDevice(device, changed); });
  }
  return rows;
}

Result<ChoiceInput> ChangedInput(std::string_view text, const Forecast& forecast) {
  ChoiceInput changed = forecast.input;
  // Another batch is asked of the plan as it is; everything else chooses anew.
  const bool same_way = text.find("strategy") == std::string_view::npos &&
                        text.find("nodes") == std::string_view::npos &&
                        text.find("gpu") == std::string_view::npos &&
                        text.find("batch.") != std::string_view::npos;
  if (same_way && forecast.choice.chosen) {
    const PlanOption& now = forecast.choice.judged[*forecast.choice.chosen].option;
    changed.limits.strategy = now.strategy;
    changed.limits.offload = now.offload;
    changed.limits.checkpointing = now.checkpointing;
  }
  LAUNCH_RETURN_IF_ERROR(ApplyChange(text, changed));
  KeepLessons(forecast.input, changed);
  return changed;
}

Result<Change> AskedChange(std::string_view text, const Forecast& forecast,
                           const ForecastInput& input) {
  LAUNCH_ASSIGN_OR_RETURN(ChoiceInput changed, ChangedInput(text, forecast));
  Forecast asked = forecast;
  if (text.find("batch.") != std::string_view::npos) asked.batch_given = true;
  Change row = RowOf(std::string(text), std::move(changed), asked, input);
  if (row.fits != "no") return row;
  // In the way of this plan it does not fit; a job file that says so is planned anew.
  ChoiceInput anew = forecast.input;
  LAUNCH_RETURN_IF_ERROR(ApplyChange(text, anew));
  KeepLessons(forecast.input, anew);
  const auto choice = ChoosePlan(anew);
  if (!choice || !choice->chosen) return row;
  row.says += "; written into the job it would be planned as " +
              NameOf(choice->judged[*choice->chosen].option);
  return row;
}

Result<std::vector<Change>> UnansweredChanges(const std::vector<std::string>& questions,
                                              DeviceClass device) {
  std::vector<Change> rows;
  for (const std::string& text : questions) {
    ChoiceInput nothing;
    LAUNCH_RETURN_IF_ERROR(ApplyChange(text, nothing));
    Change row;
    row.change = text;
    row.says = device == DeviceClass::kCuda
                   ? "not answered: without model.params or model.config nothing is predicted"
                   : "not answered: memory and time are predicted for CUDA GPUs, and the plan is "
                     "for " +
                         std::string(ToString(device));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace launch
