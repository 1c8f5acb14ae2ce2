#include "cli/render_forecast.h"

#include <algorithm>
#include <vector>

#include "cli/table.h"
#include "common/bounded_number.h"
#include "common/units.h"

namespace launch {
namespace {

std::string Gib(double gib) { return FormatNumber(gib, "%.1fGiB"); }

std::string ShortSeconds(double seconds) {
  if (seconds < 60) return FormatNumber(seconds, seconds < 10 ? "%.2f s" : "%.1f s");
  return FormatDurationShort(MillisOf(seconds));
}

std::string SplitText(const BatchSplit& batch) {
  if (!batch.micro || !batch.accumulate) return "-";
  return std::to_string(*batch.micro) + " x " + std::to_string(*batch.accumulate);
}

std::string WithOffload(std::string strategy, Offload offload) {
  if (offload == Offload::kOptimizer) strategy += " + optimizer offload";
  if (offload == Offload::kAll) strategy += " + full offload";
  return strategy;
}

std::vector<std::string> PhasesOf(const MemoryForecast& memory) {
  std::vector<std::string> phases;
  for (const PlannedTerm& term : memory.terms) {
    if (std::find(phases.begin(), phases.end(), term.phase) == phases.end())
      phases.push_back(term.phase);
  }
  return phases;
}

double GibOf(const MemoryForecast& memory, const std::string& phase, const std::string& name) {
  double gib = 0;
  for (const PlannedTerm& term : memory.terms) {
    if (term.phase == phase && (name.empty() || term.name == name)) gib += term.gib;
  }
  return gib;
}

// Two decimals, so that the column adds up as it is printed.
std::string Cell(double gib) { return gib <= 0 ? "" : FormatNumber(gib, "%.2f"); }

std::string MemoryTable(const MemoryForecast& memory, int width) {
  const std::vector<std::string> phases = PhasesOf(memory);
  std::vector<std::string> names;
  for (const PlannedTerm& term : memory.terms) {
    if (std::find(names.begin(), names.end(), term.name) == names.end()) names.push_back(term.name);
  }
  Table table;
  table.columns.push_back({"GiB PER GPU", false, false});
  for (const std::string& phase : phases)
    table.columns.push_back({phase == memory.phase ? phase + "*" : phase, true, false});
  for (const std::string& name : names) {
    std::vector<std::string> row = {name};
    for (const std::string& phase : phases) row.push_back(Cell(GibOf(memory, phase, name)));
    table.rows.push_back(std::move(row));
  }
  std::vector<std::string> total = {"total"};
  for (const std::string& phase : phases) total.push_back(Cell(GibOf(memory, phase, "")));
  table.rows.push_back(std::move(total));
  return FormatTable(table, width);
}

std::string LargestTerm(const MemoryForecast& memory) {
  const PlannedTerm* largest = nullptr;
  for (const PlannedTerm& term : memory.terms) {
    if (term.phase == memory.phase && (largest == nullptr || term.gib > largest->gib))
      largest = &term;
  }
  return largest == nullptr ? "" : largest->name + " " + Gib(largest->gib);
}

std::string FallbackTable(const std::vector<Fallback>& fallbacks, int width) {
  Table table;
  table.columns = {{"STRATEGY", false, false},
                   {"CHECKPOINTING", false, false},
                   {"MICRO x ACCUM", false, false},
                   {"MEMORY", true, false},
                   {"STEP", true, false}};
  for (const Fallback& one : fallbacks) {
    table.rows.push_back({WithOffload(std::string(ToString(one.strategy)), one.offload),
                          one.checkpointing.empty() ? "-" : one.checkpointing, SplitText(one.batch),
                          Gib(one.peak_gib),
                          one.step_seconds ? ShortSeconds(*one.step_seconds) : "-"});
  }
  return FormatTable(table, width);
}

// The whole way where one is chosen: what a row says then names recomputation too.
std::string WayOf(const Change& one) {
  if (one.strategy.empty()) return "-";
  const bool named = one.fits != "no" && one.says.starts_with(one.strategy);
  return named ? one.says : WithOffload(one.strategy, one.offload);
}

std::string ChangeTable(const std::vector<Change>& changes, int width) {
  Table table;
  std::string says;
  table.columns = {{"WHAT IF", false, false},       {"STRATEGY", false, false},
                   {"MICRO x ACCUM", false, false}, {"MEMORY", true, false},
                   {"FITS", false, false},          {"STEP", true, false},
                   {"DURATION", true, false}};
  for (const Change& one : changes) {
    const std::string way = WayOf(one);
    if (!one.says.empty() && one.says != way) says += one.change + ": " + one.says + "\n";
    table.rows.push_back({one.change, way, SplitText(one.batch),
                          one.peak_gib ? Gib(*one.peak_gib) : "-",
                          one.fits.empty() ? "-" : one.fits,
                          one.step_seconds ? ShortSeconds(*one.step_seconds) : "-",
                          one.duration_seconds ? ShortSeconds(*one.duration_seconds) : "-"});
  }
  return FormatTable(table, width) + says;
}

}  // namespace

std::string MemoryLine(const Plan& plan) {
  const MemoryForecast& memory = plan.memory;
  const std::string unit = plan.device == DeviceClass::kCpu ? " usable" : " usable per GPU";
  if (!memory.peak_gib)
    return memory.limit_gib > 0 ? "not predicted; " + Gib(memory.limit_gib) + unit : "";
  std::string text = "predicted " + Gib(*memory.peak_gib) + " of " + Gib(memory.limit_gib) + unit;
  if (memory.limit_gib > 0)
    text += FormatNumber(*memory.peak_gib / memory.limit_gib * 100, ", %.0f %%");
  text += " (";
  if (memory.low_gib && memory.high_gib)
    text += Gib(*memory.low_gib) + " to " + Gib(*memory.high_gib) + ", ";
  return text + std::string(ToString(memory.basis)) + ")";
}

std::string DurationLine(const Plan& plan) {
  const DurationForecast& duration = plan.duration;
  std::string text;
  if (duration.seconds) {
    text = ShortSeconds(*duration.seconds);
    text += " (";
    if (duration.low && duration.high)
      text += ShortSeconds(*duration.low) + " to " + ShortSeconds(*duration.high) + ", ";
    text += std::string(ToString(duration.basis)) + ")";
  }
  if (duration.step_seconds) {
    text += (text.empty() ? "" : "; ") + ShortSeconds(*duration.step_seconds) + " a step";
    if (!duration.seconds) text += " (" + std::string(ToString(duration.basis)) + ")";
  }
  if (duration.tokens_per_second_per_gpu)
    text += FormatNumber(*duration.tokens_per_second_per_gpu, ", %.0f tokens/s per GPU");
  if (!duration.bound.empty() && !text.empty()) text += ", bound by " + duration.bound;
  return text;
}

std::string ForecastText(const Plan& plan, int width) {
  std::string text;
  const MemoryForecast& memory = plan.memory;
  if (!memory.terms.empty()) {
    text += "\n" + MemoryTable(memory, width);
    text += "  * limits; largest there: " + LargestTerm(memory) + "\n";
    if (memory.host_gib)
      text += "  host memory: " + Gib(*memory.host_gib) + " of " + Gib(memory.host_limit_gib) +
              " free on each node, without what the script itself holds\n";
  }
  if (!memory.assumptions.empty()) text += "\nassumed\n";
  for (const std::string& sentence : memory.assumptions) text += "  " + sentence + "\n";
  if (!plan.fallbacks.empty())
    text += "\nif it runs out of memory, with the same global batch\n" +
            FallbackTable(plan.fallbacks, width);
  if (!plan.changes.empty()) text += "\n" + ChangeTable(plan.changes, width);
  return text;
}

}  // namespace launch
