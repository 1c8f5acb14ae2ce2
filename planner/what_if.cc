#include "planner/what_if.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "common/gpu_catalog.h"
#include "common/units.h"
#include "planner/choice_text.h"
#include "planner/duration.h"
#include "planner/mixed_gpus.h"
#include "planner/model_block.h"

namespace launch {
namespace {

constexpr double kWorthShowing = 0.05;
constexpr int kMaxRanks = 65'536;

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
  const JudgedOption* judged =
      choice->chosen ? &choice->judged[*choice->chosen] : LeastMemory(*choice);
  if (judged == nullptr) {
    row.says = "no formula for it";
    return row;
  }
  const PlanOption& option = judged->option;
  row.strategy = std::string(ToString(option.strategy));
  row.offload = option.offload;
  // What the host cannot hold does not fit, whatever its GPUs could.
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
  row.says = choice->chosen ? NameOf(option) : "nothing fits; the least is " + NameOf(option);
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

void SetRanks(ChoiceInput& input, int ranks, int per_node) {
  input.shape = {ranks, per_node};
  input.machine.gpus_per_node = per_node;
}

void SetDevice(ChoiceInput& input, const Machine& machine, double bytes) {
  const bool nvlink = machine.gpu.link_gbps.value_or(0) > 0;
  const auto network = input.machine.node_network_gbps;
  const int per_node = input.machine.gpus_per_node;
  input.machine = machine;
  input.machine.nvlink = nvlink;
  input.machine.node_network_gbps = network;
  input.machine.gpus_per_node = per_node;
  input.gpu_bytes = bytes;
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

// A mixed gang goes at the pace, and in the precision, of its weakest GPU; one class alone need
// not.
void TakeClass(const ClassShare& share, const ForecastInput& input, ChoiceInput& changed) {
  SetRanks(changed, share.count, share.most_per_node);
  SetDevice(changed, MachineOf(GpuCatalog::BuiltIn(), share.gpu),
            static_cast<double>(UsableBytes(share.gpu)));
  changed.setup.volta_context = share.gpu.cc && *share.gpu.cc < ComputeCapability{8, 0};
  const bool open = input.choices.job.precision == Precision::kAuto;
  if (!open || !share.gpu.cc || changed.setup.volta_context) return;
  changed.time.precision = Precision::kBf16;
  changed.setup.format = FormatOf(Strategy::kDdp, Precision::kBf16, changed.setup.lora_rank > 0);
}

Unexpected BadChange(const std::string& text, const std::string& hint) {
  return Fail(ErrorCode::kInvalidArgument, "--what-if " + text, hint);
}

Result<std::int64_t> Count(const std::string& key, const std::string& value, std::int64_t most) {
  const auto number = ParseInt(value);
  if (!number || *number < 1 || *number > most) {
    return BadChange(key + "=" + value + " is not a whole number from 1 to " + std::to_string(most),
                     "write " + key + "=N");
  }
  return *number;
}

const std::vector<std::string>& KnownKeys() {
  static const std::vector<std::string> keys = {"nodes",
                                                "gpus",
                                                "gpu",
                                                "seq_len",
                                                "batch.global",
                                                "batch.micro",
                                                "batch.accumulate",
                                                "strategy",
                                                "offload",
                                                "activation_checkpointing",
                                                "optimizer",
                                                "lora.rank"};
  return keys;
}

Result<void> ApplyOne(const std::string& key, const std::string& value, ChoiceInput& input) {
  const auto count = [&](std::int64_t most) { return Count(key, value, most); };
  const int nodes = std::max(
      1, input.shape.ranks / std::max(1, std::min(input.shape.per_node, input.shape.ranks)));
  if (key == "nodes") {
    LAUNCH_ASSIGN_OR_RETURN(const auto number, count(kMaxRanks / input.shape.per_node));
    SetRanks(input, static_cast<int>(number) * input.shape.per_node, input.shape.per_node);
  } else if (key == "gpus") {
    LAUNCH_ASSIGN_OR_RETURN(const auto number, count(kMaxRanks / nodes));
    SetRanks(input, static_cast<int>(number) * nodes, static_cast<int>(number));
  } else if (key == "gpu") {
    const GpuType* type = GpuCatalog::BuiltIn().Find(value, std::nullopt);
    if (type == nullptr || !type->memory_gib) {
      const std::string near = NearestName(value, GpuCatalog::BuiltIn().Names());
      return BadChange("gpu=" + value + ": no such class in the data sheet",
                       near.empty() ? "see configs/gpus.yaml" : "write gpu=" + near);
    }
    Machine machine;
    machine.gpu = GpuCatalog::VariantOf(*type, value);
    SetDevice(input, machine, *type->memory_gib * kGiBytes);
  } else if (key == "seq_len") {
    LAUNCH_ASSIGN_OR_RETURN(input.setup.seq, count(kMaxLength));
  } else if (key == "batch.global") {
    LAUNCH_ASSIGN_OR_RETURN(input.limits.batch.global, count(kMaxParams));
    if (input.limits.batch.micro) input.limits.batch.accumulate.reset();
  } else if (key == "batch.micro") {
    LAUNCH_ASSIGN_OR_RETURN(input.limits.batch.micro, count(kMaxParams));
    if (input.limits.batch.global) input.limits.batch.accumulate.reset();
  } else if (key == "batch.accumulate") {
    LAUNCH_ASSIGN_OR_RETURN(input.limits.batch.accumulate, count(kMaxParams));
    if (input.limits.batch.global) input.limits.batch.micro.reset();
  } else if (key == "strategy") {
    const auto strategy = ParseStrategy(value);
    if (!strategy) return BadChange("strategy=" + value, "write a strategy of the job file");
    input.limits.strategy = *strategy == Strategy::kAuto ? std::nullopt : strategy;
  } else if (key == "offload") {
    const auto offload = ParseOffload(value);
    if (!offload) return BadChange("offload=" + value, "write none, optimizer or all");
    input.limits.offload = *offload == Offload::kAuto ? std::nullopt : offload;
  } else if (key == "activation_checkpointing") {
    if (value != "none" && value != "selective" && value != "full") {
      return BadChange(key + "=" + value, "write none, selective or full");
    }
    input.limits.checkpointing = value == "none"   ? Checkpointing::kNone
                                 : value == "full" ? Checkpointing::kFull
                                                   : Checkpointing::kSelectiveOp;
  } else if (key == "optimizer") {
    input.setup.optimizer = OptimizerOf(value);
  } else if (key == "lora.rank") {
    LAUNCH_ASSIGN_OR_RETURN(input.setup.lora_rank, count(kMaxRanks));
    if (input.setup.format != StateFormat::kFp32) input.setup.format = StateFormat::kPure16;
  } else {
    const std::string near = NearestName(key, KnownKeys());
    return BadChange(key + ": not something that can be changed",
                     near.empty()
                         ? "write nodes=4, gpus=8, gpu=H100, seq_len=8192, batch.micro=2 ..."
                         : "write " + near + "=" + value);
  }
  return {};
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
    const bool sharded = changed.limits.strategy && *changed.limits.strategy != Strategy::kSingle &&
                         *changed.limits.strategy != Strategy::kDdp;
    if (!sharded) changed.limits.strategy.reset();
  });
  if (base.setup.optimizer.moments > 0 && base.setup.optimizer.moment_bytes == 0)
    add("optimizer=adamw8bit",
        [](ChoiceInput& changed) { changed.setup.optimizer = OptimizerOf("adamw8bit"); });
  const auto shares = SharesOf(input.layout);
  for (const auto& [name, share] : shares) {
    if (shares.size() < 2) break;
    add("only the " + std::to_string(share.count) + " x " + name,
        [&, &one = share](ChoiceInput& changed) { TakeClass(one, input, changed); });
  }
  for (const auto& [name, gpu] : OtherClasses(offers, input.layout)) {
    add("gpu=" + name, [&, &device = gpu](ChoiceInput& changed) {
      SetDevice(changed, MachineOf(GpuCatalog::BuiltIn(), device),
                static_cast<double>(UsableBytes(device)));
    });
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
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string one(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == one.size()) {
      return BadChange(one + " is not KEY=VALUE", "write e.g. nodes=4,seq_len=8192");
    }
    LAUNCH_RETURN_IF_ERROR(ApplyOne(one.substr(0, equals), one.substr(equals + 1), changed));
  }
  KeepLessons(forecast.input, changed);
  return changed;
}

Result<Change> AskedChange(std::string_view text, const Forecast& forecast,
                           const ForecastInput& input) {
  LAUNCH_ASSIGN_OR_RETURN(ChoiceInput changed, ChangedInput(text, forecast));
  Forecast asked = forecast;
  if (text.find("batch.") != std::string_view::npos) asked.batch_given = true;
  return RowOf(std::string(text), std::move(changed), asked, input);
}

}  // namespace launch
