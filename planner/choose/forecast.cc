#include "planner/choose/forecast.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/gpu_catalog.h"
#include "common/units.h"
#include "planner/choose/choice_text.h"
#include "planner/choose/duration.h"
#include "planner/choose/fallbacks.h"
#include "planner/choose/nothing_fits.h"
#include "planner/model/strategy.h"
#include "planner/place/network_speed.h"

namespace launch {
namespace {

// More than one where a node has more processes than GPUs.
double ProcessesOnAGpu(const NodeShare& share) {
  const auto gpus = static_cast<double>(std::max<std::size_t>(1, share.gpus.size()));
  return std::max(1.0, std::ceil(share.processes / gpus));
}

// The slowest device decides a gang's pace, the smallest what fits.
void ReadDevices(const RankLayout& layout, Precision precision, ChoiceInput& input) {
  double slowest = 0;
  bool first = true;
  bool known = true;
  for (const NodeShare& share : layout.nodes) {
    for (int index : share.gpus) {
      const GpuDevice& gpu = share.inventory->gpus[static_cast<std::size_t>(index)];
      const Machine machine = MachineOf(GpuCatalog::BuiltIn(), gpu);
      const double rate = MatmulRate(machine.gpu, precision, TimeConstants{});
      if (first || rate < slowest) {
        input.machine = machine;
        slowest = rate;
      }
      const double usable = static_cast<double>(UsableBytes(gpu)) / ProcessesOnAGpu(share);
      input.gpu_bytes = first ? usable : std::min(input.gpu_bytes, usable);
      const auto cc = CapabilityOf(gpu);
      if (cc && (!input.capability || *cc < *input.capability)) input.capability = cc;
      known = known && cc.has_value();
      if (LoadsKernelsAtOnce(cc)) input.setup.volta_context = true;
      first = false;
    }
  }
  if (!known) input.capability.reset();
}

// GPUs of one node reach each other over NVLink when the inventory says so; a node that tells no
// links at all is taken by its class.
bool HasNvlink(const RankLayout& layout, const Machine& machine) {
  bool told = false;
  bool linked = true;
  for (const NodeShare& share : layout.nodes) {
    if (share.gpus.size() < 2) continue;
    for (int index : share.gpus) {
      const GpuDevice& gpu = share.inventory->gpus[static_cast<std::size_t>(index)];
      told = told || !gpu.links.empty();
      linked = linked && std::any_of(gpu.links.begin(), gpu.links.end(), [](const GpuLink& link) {
                 return link.kind == LinkKind::kNvlink;
               });
    }
  }
  return told ? linked : machine.gpu.link_gbps.value_or(0) > 0;
}

void ReadNodes(const RankLayout& layout, const std::vector<MeasuredPair>& measured,
               ChoiceInput& input) {
  int most = 1;
  for (const NodeShare& share : layout.nodes) {
    const NodeInventory& node = *share.inventory;
    most = std::max(most, share.processes);
    const double host = static_cast<double>(share.free_memory_bytes > 0 ? share.free_memory_bytes
                                                                        : node.memory_bytes);
    if (host > 0) input.host_bytes = std::min(input.host_bytes.value_or(host), host);
    if (node.coherent == CoherentMode::kNuma) input.setup.coherent_host = true;
  }
  input.machine.node_network_gbps = NetworkOf(layout, measured).node_gbps;
  input.machine.gpus_per_node = most;
  input.machine.nvlink = HasNvlink(layout, input.machine);
  input.shape = {layout.world_size, most};
}

OptionLimits LimitsOf(const UserChoices& choices, const ModelInput& model) {
  const JobSpec& job = choices.job;
  OptionLimits limits;
  if (job.strategy != Strategy::kAuto) limits.strategy = job.strategy;
  if (job.offload != Offload::kAuto) limits.offload = job.offload;
  if (model.checkpointing_fixed) limits.checkpointing = model.setup.checkpointing;
  limits.batch = job.batch;
  limits.can_shard = choices.trainer != Trainer::kPlain;
  limits.can_checkpoint = choices.trainer != Trainer::kPlain;
  limits.can_accumulate = !model.setup.optimizer.in_backward;
  return limits;
}

// The one candidate that the user fixed in every respect; absent when anything was free.
std::optional<std::size_t> FixedByUser(const Forecast& forecast) {
  const OptionLimits& limits = forecast.input.limits;
  const bool fixed = limits.strategy && (limits.batch.micro || !forecast.batch_given);
  if (!fixed) return std::nullopt;
  std::optional<std::size_t> least;
  for (std::size_t i = 0; i < forecast.choice.judged.size(); ++i) {
    const JudgedOption& one = forecast.choice.judged[i];
    if (one.verdict == OptionVerdict::kHostMemory) return std::nullopt;
    if (one.verdict != OptionVerdict::kGpuMemory) continue;
    if (!least || one.decision_bytes < forecast.choice.judged[*least].decision_bytes) least = i;
  }
  return least;
}

// PyTorch's allocator gives back what it keeps before it fails: where the rest fits, the plan shows
// no more of it than there is room for. Returns the new total.
double ShowWhatIsKept(const Forecast& forecast, MemoryForecast& memory, double total) {
  const double limit = std::floor(forecast.input.gpu_bytes / kGiBytes * 100) / 100;
  for (PlannedTerm& term : memory.terms) {
    if (total <= limit || term.phase != memory.phase || term.name != "allocator cache") continue;
    const double less = std::min(term.gib, total - limit);
    term.gib = std::round((term.gib - less) * 100) / 100;
    total = std::round((total - less) * 100) / 100;
  }
  return total;
}

void FillMemory(const Forecast& forecast, Plan& plan) {
  const MemoryEstimate& estimate = *forecast.choice.memory;
  MemoryForecast& memory = plan.memory;
  const MemoryPeak peak = PeakOf(estimate, MemoryMetric::kProcess);
  memory.phase = std::string(ToString(peak.phase));
  double total = 0;
  double grows = 0;  // with batch and sequence, as the formula said it
  for (const MemoryPhase& phase : estimate.phases) {
    for (const MemoryTerm& term : phase.terms) {
      const double gib = RoundedGib(term.bytes);
      if (gib <= 0) continue;
      memory.terms.push_back({term.name, std::string(ToString(phase.kind)), gib});
      if (phase.kind != peak.phase) continue;
      total += gib;
      if (term.kind == TermKind::kDynamic || term.kind == TermKind::kReserve)
        grows += gib / estimate.factor;
    }
  }
  total = std::round(total * 100) / 100;
  memory.fits = std::string(ToString(JudgeFit(estimate, forecast.input.gpu_bytes)));
  if (memory.fits != "no") total = ShowWhatIsKept(forecast, memory, total);
  memory.peak_gib = total;
  memory.low_gib = std::min(total, RoundedGib(peak.low));
  memory.high_gib = std::max(total, RoundedGib(peak.high));
  memory.limit_gib = forecast.input.gpu_bytes / kGiBytes;
  memory.basis = Basis::kCold;
  const double fixed = total - grows * estimate.factor;
  plan.run.cold_fixed_gib = std::max(0.0, fixed);
  plan.run.cold_peak_gib = std::max(0.0, fixed) + grows;
  memory.host_gib = RoundedGib(estimate.host.bytes);
  memory.host_limit_gib = forecast.input.host_bytes.value_or(0) / kGiBytes;
  memory.assumptions = forecast.assumptions;
  memory.assumptions.insert(memory.assumptions.end(), estimate.assumptions.begin(),
                            estimate.assumptions.end());
}

void FillRejected(const Forecast& forecast, Plan& plan) {
  for (RejectedWay& way : RejectedWays(forecast.choice, forecast.input)) {
    plan.rejected.push_back({std::move(way.name), std::move(way.code), std::move(way.reason)});
  }
}

// Slowest link between the nodes of the job, as its owner would call it; empty on one node.
std::string LinkBetweenNodes(const RankLayout& layout) {
  if (layout.nodes.size() < 2) return "";
  int slowest = 0;
  bool rdma = true;
  for (const NodeShare& share : layout.nodes) {
    int fastest = 0;
    for (const NetworkAddress& address : share.inventory->addresses) {
      if (address.mbit.value_or(0) <= fastest) continue;
      fastest = *address.mbit;
      rdma = rdma && address.rdma;
    }
    if (fastest == 0) return "";
    slowest = slowest == 0 ? fastest : std::min(slowest, fastest);
  }
  const std::string gbit = FormatNumber(slowest / 1000.0, "%.4g");
  return rdma ? gbit + " Gbit/s" : gbit + " GbE link (" + gbit + " Gbit/s)";
}

std::string WhyOf(const Forecast& forecast, const ForecastInput& input) {
  const std::string measured = NetworkOf(input.layout, input.network).says;
  const std::string basis = measured.empty() ? "" : "; " + measured;
  if (forecast.input.limits.strategy) return "asked for" + basis;
  std::string why = WhyChosen(forecast.choice, forecast.input);
  const std::string link = LinkBetweenNodes(input.layout);
  if (!link.empty()) why += "; between the nodes a " + link;
  return why + basis;
}

}  // namespace

Forecast PrepareForecast(const ForecastInput& input) {
  Forecast forecast;
  ChoiceInput& ask = forecast.input;
  ask.card = input.model.card;
  ask.setup = input.model.setup;
  ask.lessons = input.lessons;
  ask.pure_16_bit = input.model.pure_16_bit;
  ask.precision_is_open = input.choices.job.precision == Precision::kAuto;
  ask.setup.format = FormatOf(input.precision, ask.setup.lora_rank > 0 || ask.pure_16_bit);
  ask.time.precision = input.precision;
  ask.time.tuned_code = IsTuned(ask.setup.framework, ask.setup.compiled);
  ReadDevices(input.layout, input.precision, ask);
  ReadNodes(input.layout, input.network, ask);
  ask.limits = LimitsOf(input.choices, input.model);
  const BatchSpec& batch = ask.limits.batch;
  forecast.batch_given = batch.global || batch.micro || batch.accumulate;
  forecast.assumptions = input.model.assumptions;
  if (!forecast.batch_given) {
    ask.limits.batch = {std::nullopt, 1, 1};
    forecast.assumptions.push_back("one sample at a time: batch is not given");
  } else if (batch.micro && !batch.global && !batch.accumulate) {
    ask.limits.batch.accumulate = 1;  // micro alone means no accumulation
  }
  if (!ask.machine.gpu_known) {
    forecast.assumptions.push_back("speed of a similar GPU: this one is not in the data sheet");
  }
  return forecast;
}

Result<Forecast> MakeForecast(const ForecastInput& input) {
  Forecast forecast = PrepareForecast(input);
  LAUNCH_ASSIGN_OR_RETURN(forecast.choice, ChoosePlan(forecast.input));
  if (forecast.choice.chosen) return forecast;
  const auto fixed = FixedByUser(forecast);
  if (!fixed) return NothingFits(forecast, input);
  LAUNCH_RETURN_IF_ERROR(TakeOption(*fixed, forecast.input, forecast.choice));
  return forecast;
}

void ApplyDuration(const Forecast& forecast, const ForecastInput& input, Plan& plan) {
  if (!forecast.choice.time) return;
  const TimeEstimate& time = *forecast.choice.time;
  if (!forecast.batch_given) return;  // a step of a batch that nobody asked for
  plan.duration = DurationOf(input.steps, {time.step_seconds, time.low, time.high, Basis::kCold});
  plan.duration.basis = Basis::kCold;
  plan.duration.step_seconds = time.step_seconds;
  plan.duration.tokens_per_second_per_gpu = time.tokens_per_second_per_gpu;
  plan.duration.samples_per_second = time.samples_per_second;
  plan.duration.bound = std::string(ToString(time.bound));
}

void ApplyForecast(const Forecast& forecast, const ForecastInput& input, Plan& plan) {
  const PlanOption& option = forecast.choice.judged[*forecast.choice.chosen].option;
  plan.strategy = option.strategy;
  plan.offload = option.offload;
  plan.checkpointing = std::string(NameOf(option.checkpointing));
  if (forecast.batch_given) {
    plan.batch = {option.micro * option.accumulate * forecast.input.shape.ranks, option.micro,
                  option.accumulate};
  }
  FillMemory(forecast, plan);
  FillRejected(forecast, plan);
  if (forecast.batch_given) {
    plan.fallbacks = FallbacksOf(forecast.input, forecast.choice.judged[*forecast.choice.chosen]);
  }
  plan.why = WhyOf(forecast, input);
  if (plan.memory.fits != "no") return;
  plan.warnings.push_back(
      MakeFinding("predicted_out_of_memory", Severity::kWarning,
                  "predicted " + FormatNumber(*plan.memory.peak_gib, "%.1f GiB") + " of " +
                      FormatNumber(plan.memory.limit_gib, "%.1f GiB") +
                      " per GPU: it may run out of memory (strategy and micro-batch are yours)",
                  "leave batch.micro or strategy open, and launch chooses what fits"));
}

}  // namespace launch
