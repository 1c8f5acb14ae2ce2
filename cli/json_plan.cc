#include "cli/json_views.h"

namespace launch {
namespace {

OrderedJson JsonOf(const Finding& finding) {
  return {{"code", finding.code},
          {"severity", Word(ToString(finding.severity))},
          {"node", finding.node ? OrderedJson(finding.node->value) : OrderedJson(nullptr)},
          {"says", finding.says},
          {"evidence", finding.evidence},
          {"remedy", finding.remedy},
          {"fix", finding.fix}};
}

OrderedJson JsonOf(const MemoryForecast& memory) {
  OrderedJson terms = OrderedJson::array();
  for (const PlannedTerm& term : memory.terms)
    terms.push_back({{"name", term.name}, {"phase", term.phase}, {"gib", term.gib}});
  OrderedJson interval = nullptr;
  if (memory.low_gib && memory.high_gib) interval = {*memory.low_gib, *memory.high_gib};
  return {{"terms", terms},
          {"peak_gib", OrNull(memory.peak_gib)},
          {"limit_gib", memory.limit_gib},
          {"interval", interval},
          {"basis", Word(ToString(memory.basis))},
          {"phase", memory.phase.empty() ? OrderedJson(nullptr) : OrderedJson(memory.phase)},
          {"fits", memory.fits.empty() ? OrderedJson(nullptr) : OrderedJson(memory.fits)},
          {"assumptions", memory.assumptions}};
}

OrderedJson JsonOf(const DurationForecast& duration) {
  return {{"seconds", OrNull(duration.seconds)},
          {"low", OrNull(duration.low)},
          {"high", OrNull(duration.high)},
          {"basis", Word(ToString(duration.basis))},
          {"step_seconds", OrNull(duration.step_seconds)},
          {"tokens_per_second_per_gpu", OrNull(duration.tokens_per_second_per_gpu)},
          {"samples_per_second", OrNull(duration.samples_per_second)},
          {"bound", duration.bound.empty() ? OrderedJson(nullptr) : OrderedJson(duration.bound)}};
}

OrderedJson OfFallbacks(const std::vector<Fallback>& fallbacks) {
  OrderedJson list = OrderedJson::array();
  for (const Fallback& one : fallbacks)
    list.push_back({{"strategy", Word(ToString(one.strategy))},
                    {"offload", Word(ToString(one.offload))},
                    {"checkpointing", one.checkpointing},
                    {"batch", JsonOf(one.batch)},
                    {"peak_gib", one.peak_gib},
                    {"step_seconds", OrNull(one.step_seconds)}});
  return list;
}

OrderedJson OfChanges(const std::vector<Change>& changes) {
  OrderedJson list = OrderedJson::array();
  for (const Change& one : changes)
    list.push_back(
        {{"change", one.change},
         {"strategy", one.strategy.empty() ? OrderedJson(nullptr) : OrderedJson(one.strategy)},
         {"offload", Word(ToString(one.offload))},
         {"batch", JsonOf(one.batch)},
         {"peak_gib", OrNull(one.peak_gib)},
         {"fits", one.fits.empty() ? OrderedJson(nullptr) : OrderedJson(one.fits)},
         {"step_seconds", OrNull(one.step_seconds)},
         {"duration_seconds", OrNull(one.duration_seconds)},
         {"says", one.says}});
  return list;
}

}  // namespace

OrderedJson JsonOf(const std::vector<Finding>& findings) {
  OrderedJson list = OrderedJson::array();
  for (const Finding& finding : findings) list.push_back(JsonOf(finding));
  return list;
}

OrderedJson JsonOf(const BatchSplit& batch) {
  return {{"global", OrNull(batch.global)},
          {"micro", OrNull(batch.micro)},
          {"accumulate", OrNull(batch.accumulate)}};
}

OrderedJson JsonOf(const Plan& plan) {
  OrderedJson assignments = OrderedJson::array();
  for (const RankAssignment& one : plan.assignments) {
    OrderedJson uuids = OrderedJson::array();
    for (const GpuUuid& uuid : one.gpu_uuids) uuids.push_back(uuid.value);
    assignments.push_back({{"rank", one.rank},
                           {"local_rank", one.local_rank},
                           {"node", one.node.value},
                           {"gpus", one.gpus},
                           {"gpu_uuids", uuids},
                           {"env", TextMap(one.env)}});
  }
  OrderedJson files = OrderedJson::array();
  for (const GeneratedFile& file : plan.files)
    files.push_back({{"name", file.name}, {"text", file.bytes}});
  OrderedJson rejected = OrderedJson::array();
  for (const Candidate& candidate : plan.rejected)
    rejected.push_back(
        {{"strategy", candidate.strategy}, {"code", candidate.code}, {"reason", candidate.reason}});
  return {{"strategy", Word(ToString(plan.strategy))},
          {"why", plan.why},
          {"offload", Word(ToString(plan.offload))},
          {"device", Word(ToString(plan.device))},
          {"device_name", plan.device_name},
          {"device_reason", plan.device_reason},
          {"precision", Word(ToString(plan.precision))},
          {"precision_reason", plan.precision_reason},
          {"batch", JsonOf(plan.batch)},
          {"world_size", plan.world_size},
          {"processes",
           {{"total", plan.processes.total},
            {"per_node", plan.processes.per_node},
            {"cpus_per_process", plan.processes.cpus_per_process}}},
          {"start", Word(ToString(plan.start))},
          {"launcher", Word(ToString(plan.launcher))},
          {"read", plan.read},
          {"command", plan.command},
          {"workdir", plan.workdir},
          {"memory", JsonOf(plan.memory)},
          {"loader",
           {{"num_workers", plan.loader.num_workers},
            {"pin_memory", plan.loader.pin_memory},
            {"persistent_workers", plan.loader.persistent_workers}}},
          {"steps", OrNull(plan.steps)},
          {"duration", JsonOf(plan.duration)},
          {"host_memory",
           {{"gib", OrNull(plan.memory.host_gib)}, {"limit_gib", plan.memory.host_limit_gib}}},
          {"checkpointing",
           plan.checkpointing.empty() ? OrderedJson(nullptr) : OrderedJson(plan.checkpointing)},
          {"assignments", assignments},
          {"late", plan.late},
          {"files", files},
          {"warnings", JsonOf(plan.warnings)},
          {"rejected", rejected},
          {"fallbacks", OfFallbacks(plan.fallbacks)},
          {"changes", OfChanges(plan.changes)}};
}

}  // namespace launch
