#include "planner/choose/mixed_gpus.h"

#include <algorithm>

#include "common/gpu_catalog.h"
#include "common/units.h"
#include "planner/choose/precision.h"
#include "planner/cost/device_speed.h"

namespace launch {
namespace {

double Pace(const ClassShare& share, Precision precision) {
  return MatmulRate(MachineOf(GpuCatalog::BuiltIn(), share.gpu).gpu, precision, TimeConstants{});
}

Precision BestOf(const ClassShare& share, Precision planned, bool open) {
  const auto cc = CapabilityOf(share.gpu);
  return open && cc ? SixteenBitsOf(*cc) : planned;
}

double SlowestPace(const std::map<std::string, ClassShare>& shares, Precision precision) {
  double slowest = 0;
  for (const auto& [name, share] : shares) {
    const double pace = Pace(share, precision);
    slowest = slowest == 0 ? pace : std::min(slowest, pace);
  }
  return slowest;
}

std::string GibOf(const ClassShare& share) {
  return FormatNumber(static_cast<double>(UsableBytes(share.gpu)) / kGiBytes, "%.1f GiB");
}

}  // namespace

std::string ClassOf(const GpuDevice& gpu) { return gpu.type.empty() ? gpu.model : gpu.type; }

std::map<std::string, ClassShare> SharesOf(const RankLayout& layout) {
  std::map<std::string, ClassShare> shares;
  for (const NodeShare& node : layout.nodes) {
    std::map<std::string, int> here;
    for (int index : node.gpus) {
      const GpuDevice& gpu = node.inventory->gpus[static_cast<std::size_t>(index)];
      ClassShare& share = shares[ClassOf(gpu)];
      share.gpu = gpu;
      ++share.count;
      share.most_per_node = std::max(share.most_per_node, ++here[ClassOf(gpu)]);
    }
  }
  return shares;
}

std::vector<Finding> MixedGpus(const RankLayout& layout, const Plan& plan) {
  const auto shares = SharesOf(layout);
  if (shares.size() < 2 || plan.device != DeviceClass::kCuda) return {};
  std::string names;
  const std::string* slowest = nullptr;
  const std::string* smallest = nullptr;
  for (const auto& [name, share] : shares) {
    names += (names.empty() ? "" : " and ") + std::to_string(share.count) + " x " + name;
    if (slowest == nullptr ||
        Pace(share, plan.precision) < Pace(shares.at(*slowest), plan.precision))
      slowest = &name;
    if (smallest == nullptr || UsableBytes(share.gpu) < UsableBytes(shares.at(*smallest).gpu))
      smallest = &name;
  }
  return {MakeFinding(
      "mixed_gpus", Severity::kNotice,
      names + " in one job: planned for the weakest, " + std::string(ToString(plan.precision)) +
          ", " + GibOf(shares.at(*smallest)) + " (" + *smallest + ") and the pace of the " +
          *slowest,
      "launch plan shows what each class alone would take; gpus: CLASS:N leaves the others out")};
}

std::vector<Change> EachClassAlone(const RankLayout& layout, const Plan& plan,
                                   bool precision_is_open) {
  const auto shares = SharesOf(layout);
  if (shares.size() < 2 || plan.device != DeviceClass::kCuda) return {};
  int all = 0;
  for (const auto& [name, share] : shares) all += share.count;
  const double together = all * SlowestPace(shares, plan.precision);
  std::vector<Change> rows;
  for (const auto& [name, share] : shares) {
    const Precision precision = BestOf(share, plan.precision, precision_is_open);
    const double alone = share.count * Pace(share, precision);
    Change row;
    row.change = "only the " + std::to_string(share.count) + " x " + name;
    row.strategy = std::string(ToString(
        share.count == 1 && plan.strategy == Strategy::kDdp ? Strategy::kSingle : plan.strategy));
    row.offload = plan.offload;
    row.says = FormatNumber(alone / together, "%.2gx") + " the work of all " + std::to_string(all) +
               " in the same time by data sheet, if computing decides; " +
               std::string(ToString(precision)) + ", " + GibOf(share) + " a GPU";
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace launch
