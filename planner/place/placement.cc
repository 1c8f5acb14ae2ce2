// Place: which nodes and GPUs one attempt gets, or why none.
#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "common/mig.h"
#include "planner/place/demand.h"
#include "planner/place/natural_order.h"
#include "planner/planner.h"

namespace launch {
namespace {

std::string Number(std::size_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

// How a node is looked at: as it is now, or as if empty and in service. A job that fits only in the
// second view waits; one that fits in neither is refused.
enum class View { kNow, kEmpty };

struct Slot {  // a node that can take the job's share
  std::size_t offer = 0;
  std::vector<int> gpus;
  int spare = 0;         // suitable GPUs it would keep
  bool crowded = false;  // it has not enough without those whose memory others use
  std::string kind;      // model of its GPUs: nodes of one kind are preferred
};

class Placer {
 public:
  Placer(const JobSpec& spec, const Demand& demand, const NodeFilter& filter,
         const std::vector<PlannerOffer>& offers)
      : spec_(spec), demand_(demand), filter_(filter), offers_(offers) {
    if (demand.device == DeviceClass::kCpu) {
      alternatives_.push_back({{}, 0});
    } else {
      alternatives_ = demand.alternatives;
    }
  }

  tl::expected<Placement, Unplaced> Place() const {
    if (const auto unplaced = RefuseSecondMps()) return tl::unexpected(*unplaced);
    if (const auto unplaced = RefuseSecondSlice()) return tl::unexpected(*unplaced);
    if (auto placement = Fit(View::kNow, true)) return std::move(*placement);
    return tl::unexpected(Explain());
  }

 private:
  // Counts of nodes and GPUs per node to try, largest first.
  std::vector<std::pair<int, int>> Shapes(const GpuAlternative& alternative) const {
    std::vector<std::pair<int, int>> shapes;
    if (demand_.total_gpus) {
      const int total = *demand_.total_gpus;
      // nodes: 1 is also what an unset field reads as, so a total may spread over more.
      const bool free_choice = demand_.nodes_max == 1;
      const int low = free_choice ? 1 : demand_.nodes_min;
      const int high = free_choice ? Known() : std::min(demand_.nodes_max, Known());
      for (int n = low; n <= std::min(high, total); ++n) {
        if (total % n == 0) shapes.emplace_back(n, total / n);
      }
      return shapes;  // fewest nodes first: GPUs of one job belong together
    }
    const int most = std::min(demand_.nodes_max, std::max(demand_.nodes_min, Known()));
    for (int n = most; n >= demand_.nodes_min; --n) {
      shapes.emplace_back(n, alternative.count);
    }
    return shapes;
  }

  int Known() const { return static_cast<int>(offers_.size()); }

  std::optional<Placement> Fit(View view, bool only_schedulable) const {
    for (const GpuAlternative& alternative : alternatives_) {
      std::vector<Slot> slots;
      std::optional<int> slots_of;  // GPUs per node: the same for most shapes
      for (const auto& [nodes, gpus] : Shapes(alternative)) {
        if (slots_of != gpus) slots = Slots(alternative, gpus, view, only_schedulable);
        slots_of = gpus;
        if (static_cast<int>(slots.size()) < nodes) continue;
        return Choose(std::move(slots), static_cast<std::size_t>(nodes));
      }
    }
    return std::nullopt;
  }

  std::vector<Slot> Slots(const GpuAlternative& alternative, int gpus, View view,
                          bool only_schedulable) const {
    std::vector<Slot> slots;
    for (std::size_t i = 0; i < offers_.size(); ++i) {
      const PlannerOffer& offer = offers_[i];
      if (only_schedulable && !offer.schedulable) continue;
      if (!filter_.Lacks(offer).empty()) continue;
      if (view == View::kNow && !HostFits(offer)) continue;
      if (auto slot = SlotOn(i, alternative, gpus, view)) slots.push_back(std::move(*slot));
    }
    return slots;
  }

  // Unset cpus or memory never makes a job unplaceable.
  bool HostFits(const PlannerOffer& offer) const {
    if (spec_.memory_bytes && spec_.memory_bytes->value > offer.free_memory_bytes) return false;
    return CpusOn(offer) <= std::max(offer.free_cpus, 0);
  }

  int CpusOn(const PlannerOffer& offer) const {
    if (spec_.cpus) {
      return static_cast<int>(
          std::min<std::uint64_t>(spec_.cpus->value, std::numeric_limits<int>::max()));
    }
    return demand_.device == DeviceClass::kCpu ? CpuNeed(offer) : 0;
  }

  int CpuNeed(const PlannerOffer& offer) const {
    const int cores = offer.inventory->cores;
    if (demand_.procs_per_core) return cores;
    return std::min(demand_.procs_per_node.value_or(1), cores);
  }

  std::vector<int> Candidates(const PlannerOffer& offer, View view) const {
    std::vector<int> all(offer.inventory->gpus.size());
    std::iota(all.begin(), all.end(), 0);
    if (view == View::kEmpty) return all;
    std::vector<int> healthy;
    for (int index : offer.free_gpus) {
      if (index < 0 || index >= static_cast<int>(all.size())) continue;
      if (offer.inventory->gpus[static_cast<std::size_t>(index)].health == Health::kBad) continue;
      healthy.push_back(index);
    }
    return healthy;
  }

  std::optional<Slot> SlotOn(std::size_t position, const GpuAlternative& alternative, int gpus,
                             View view) const {
    const PlannerOffer& offer = offers_[position];
    Slot slot;
    slot.offer = position;
    if (demand_.device == DeviceClass::kCpu) return slot;
    const std::vector<int> suitable =
        filter_.Gpus(demand_.device, alternative, *offer.inventory, Candidates(offer, view));
    if (static_cast<int>(suitable.size()) < gpus) return std::nullopt;
    if (!spec_.gpu_ids.empty() && suitable.size() != spec_.gpu_ids.size()) return std::nullopt;
    std::vector<int> quiet;
    std::ranges::copy_if(suitable, std::back_inserter(quiet), [&](int index) {
      return std::ranges::find(offer.crowded_gpus, index) == offer.crowded_gpus.end();
    });
    slot.crowded = static_cast<int>(quiet.size()) < gpus;
    slot.gpus = OneKind(*offer.inventory, slot.crowded ? suitable : quiet, gpus);
    slot.kind = offer.inventory->gpus[static_cast<std::size_t>(slot.gpus[0])].model;
    slot.spare = static_cast<int>(suitable.size()) - gpus;
    return slot;
  }

  // Devices of one model, and of one NUMA node, where enough of them are to be had.
  static std::vector<int> OneKind(const NodeInventory& node, const std::vector<int>& suitable,
                                  int gpus) {
    const auto device = [&](int index) -> const GpuDevice& {
      return node.gpus[static_cast<std::size_t>(index)];
    };
    const auto first_alike = [&](auto alike) -> std::vector<int> {
      for (int leader : suitable) {
        std::vector<int> group;
        for (int index : suitable) {
          if (alike(device(leader), device(index))) group.push_back(index);
        }
        if (static_cast<int>(group.size()) >= gpus) {
          group.resize(static_cast<std::size_t>(gpus));
          return group;
        }
      }
      return {};
    };
    auto chosen = first_alike([](const GpuDevice& a, const GpuDevice& b) {
      return a.model == b.model && a.memory_bytes == b.memory_bytes && a.numa == b.numa;
    });
    if (chosen.empty()) {
      chosen = first_alike([](const GpuDevice& a, const GpuDevice& b) {
        return a.model == b.model && a.memory_bytes == b.memory_bytes;
      });
    }
    if (chosen.empty()) chosen.assign(suitable.begin(), suitable.begin() + gpus);
    return chosen;
  }

  Placement Choose(std::vector<Slot> slots, std::size_t nodes) const {
    const auto by_name = [&](const Slot& a, const Slot& b) {
      return NaturalLess(offers_[a.offer].inventory->node.value,
                         offers_[b.offer].inventory->node.value);
    };
    std::sort(slots.begin(), slots.end(), [&](const Slot& a, const Slot& b) {
      if (a.crowded != b.crowded) return b.crowded;
      return a.spare != b.spare ? a.spare < b.spare : by_name(a, b);
    });
    // The first kind, in that order, of which there are enough nodes; else any.
    for (const Slot& leader : slots) {
      std::vector<Slot> alike;
      for (const Slot& slot : slots) {
        if (slot.kind == leader.kind) alike.push_back(slot);
      }
      if (alike.size() >= nodes) {
        slots = std::move(alike);
        break;
      }
    }
    slots.resize(nodes);
    std::sort(slots.begin(), slots.end(), by_name);
    Placement placement;
    for (Slot& slot : slots) {
      placement.offers.push_back(slot.offer);
      placement.gpus.push_back(std::move(slot.gpus));
      placement.cpus.push_back(CpusOn(offers_[slot.offer]));
    }
    return placement;
  }

  // An Apple GPU is one device: there is no second one, on this node or over nodes.
  std::optional<Unplaced> RefuseSecondMps() const {
    if (demand_.device != DeviceClass::kMps) return std::nullopt;
    const bool sharded = spec_.strategy != Strategy::kAuto && spec_.strategy != Strategy::kSingle &&
                         spec_.strategy != Strategy::kDdp;
    const bool more = demand_.nodes_min > 1 || demand_.total_gpus.value_or(1) > 1 ||
                      demand_.procs_per_node.value_or(1) > 1 ||
                      std::all_of(alternatives_.begin(), alternatives_.end(),
                                  [](const GpuAlternative& a) { return a.count > 1; });
    if (!sharded && !more) return std::nullopt;
    Unplaced unplaced;
    unplaced.never = true;
    for (const PlannerOffer& offer : offers_) {
      for (const GpuDevice& gpu : offer.inventory->gpus) {
        if (gpu.device_class != DeviceClass::kMps || !unplaced.closest_node.empty()) continue;
        unplaced.closest_node = offer.inventory->node.value;
        unplaced.missing = gpu.model + " (mps) is one device";
      }
    }
    if (unplaced.missing.empty()) unplaced.missing = "an mps GPU is one device";
    unplaced.closest_node.clear();  // no node comes closer than another
    unplaced.reason = {"NeverFits", sharded
                                        ? "strategy " + std::string(ToString(spec_.strategy)) +
                                              " needs several devices, and " + unplaced.missing
                                        : "asks for more than one GPU, and " + unplaced.missing};
    return unplaced;
  }

  // A process uses one slice, and NCCL refuses a group of slices.
  std::optional<Unplaced> RefuseSecondSlice() const {
    const auto names = [](const GpuAlternative& alternative) {
      return std::ranges::any_of(alternative.models,
                                 [](const std::string& model) { return IsMigProfile(model); });
    };
    if (alternatives_.empty() || !std::ranges::all_of(alternatives_, names)) return std::nullopt;
    const bool more =
        demand_.nodes_min > 1 || demand_.total_gpus.value_or(1) > 1 ||
        demand_.procs_per_node.value_or(1) > 1 ||
        std::ranges::all_of(alternatives_, [](const GpuAlternative& a) { return a.count > 1; });
    if (!more) return std::nullopt;
    Unplaced unplaced;
    unplaced.never = true;
    unplaced.missing =
        "a process uses one MIG slice, and NCCL does not join processes on slices; ask for one "
        "slice and one process (array: for many of them), or for whole GPUs";
    unplaced.reason = {"NeverFits",
                       "asks for more than one process on MIG slices: " + unplaced.missing};
    return unplaced;
  }

  Unplaced Explain() const {
    Unplaced unplaced;
    if (offers_.empty()) {
      unplaced.reason = {"ReqNodeNotAvail", "no node is known yet"};
      return unplaced;
    }
    if (!Fit(View::kEmpty, false)) return Never();
    if (Fit(View::kEmpty, true)) {
      unplaced.reason = {"Resources", Shortage()};
      return unplaced;
    }
    std::vector<NodeId> nodes;
    for (const PlannerOffer& offer : offers_) {
      if (!offer.schedulable && offer.refuses.empty()) nodes.push_back(offer.inventory->node);
    }
    std::ranges::sort(nodes, NaturalLess, &NodeId::value);
    std::string evidence = "only with nodes that are silent, drained or unhealthy: ";
    for (std::size_t i = 0; i < nodes.size() && i < 5; ++i) {
      evidence += (i == 0 ? "" : ", ") + nodes[i].value;
    }
    unplaced.reason = {"ReqNodeNotAvail", std::move(evidence), std::move(nodes)};
    return unplaced;
  }

  // "8 H100", "2 cores and 100GiB memory": what each node must give.
  std::string Share(const GpuAlternative& alternative, int gpus) const {
    if (demand_.device != DeviceClass::kCpu) {
      if (!spec_.gpu_ids.empty()) {
        std::string ids = "GPU ids ";
        for (std::size_t i = 0; i < spec_.gpu_ids.size(); ++i) {
          ids += (i == 0 ? "" : ",") + std::to_string(spec_.gpu_ids[i]);
        }
        return ids;
      }
      GpuAlternative shown = alternative;
      shown.count = gpus;
      return Describe(shown);
    }
    const int cores =
        spec_.cpus ? static_cast<int>(spec_.cpus->value) : demand_.procs_per_node.value_or(1);
    return Number(static_cast<std::size_t>(cores), "core");
  }

  std::string Shortage() const {
    const GpuAlternative& alternative = alternatives_.front();
    const auto shapes = Shapes(alternative);  // not empty: the job fits when nodes are
    LAUNCH_CHECK(!shapes.empty(), "a job that fits has a shape");
    const auto [nodes, gpus] = shapes.back();
    const std::size_t now = Slots(alternative, gpus, View::kNow, true).size();
    const std::string share = Share(alternative, gpus) + " free on ";
    if (now == 0) return share + "no node";
    return share + Number(now, "node") + " of " + std::to_string(nodes) + " needed";
  }

  Unplaced Never() const {
    const GpuAlternative& alternative = alternatives_.front();
    const auto shapes = Shapes(alternative);
    const auto [nodes, gpus] =
        shapes.empty() ? std::pair<int, int>{1, alternative.count} : shapes.back();
    Unplaced unplaced;
    unplaced.never = true;
    const std::size_t fitting = Slots(alternative, gpus, View::kEmpty, false).size();
    std::string needs = "needs " + Share(alternative, gpus) + " per node";
    if (demand_.total_gpus) {
      needs = "needs " + Share(alternative, *demand_.total_gpus) +
              " in total, the same number on each node";
    }
    if (nodes > 1) needs += " on " + std::to_string(nodes) + " nodes";
    if (fitting > 0)
      needs += "; " + Number(fitting, "node") + (fitting == 1 ? " has" : " have") + " them";
    const auto [closest, lacks] = Closest(alternative, gpus);
    if (closest != nullptr) {
      unplaced.closest_node = closest->node.value;
      unplaced.missing = lacks;
    } else {
      const std::size_t wanted = static_cast<std::size_t>(nodes);
      unplaced.missing = Number(wanted > fitting ? wanted - fitting : 1, "node");
    }
    unplaced.reason = {"NeverFits", needs};
    return unplaced;
  }

  // The node that does not fit but has the most suitable GPUs; nodes that fail nothing else first.
  std::pair<const NodeInventory*, std::string> Closest(const GpuAlternative& alternative,
                                                       int gpus) const {
    const NodeInventory* best = nullptr;
    std::string best_lacks;
    std::pair<int, int> best_score{-1, -1};
    for (std::size_t i = 0; i < offers_.size(); ++i) {
      const NodeInventory& node = *offers_[i].inventory;
      std::string lacks = filter_.Lacks(offers_[i]);
      const int has = static_cast<int>(
          filter_.Gpus(demand_.device, alternative, node, Candidates(offers_[i], View::kEmpty))
              .size());
      if (lacks.empty() && SlotOn(i, alternative, gpus, View::kEmpty)) continue;
      const std::pair<int, int> score{lacks.empty() ? 1 : 0, has};
      if (lacks.empty()) lacks = GpusLack(alternative, node, has);
      const bool better = score > best_score ||
                          (score == best_score && NaturalLess(node.node.value, best->node.value));
      if (!better) continue;
      best = &node;
      best_lacks = std::move(lacks);
      best_score = score;
    }
    return {best, best_lacks};
  }

  std::string GpusLack(const GpuAlternative& alternative, const NodeInventory& node,
                       int has) const {
    if (!spec_.gpu_ids.empty() && !node.gpus.empty()) return IdsLack(alternative, node);
    if (has > 0) {
      GpuAlternative shown = alternative;
      shown.count = has;
      return "has " + Describe(shown);
    }
    if (node.gpus.empty()) {
      return node.driver_problem.empty() ? "has no GPU (device: cpu runs the job without one)"
                                         : "has no GPU (" + node.driver_problem + ")";
    }
    std::vector<std::pair<std::string, int>> kinds;
    for (const GpuDevice& gpu : node.gpus) {
      const std::string& kind = gpu.type.empty() ? gpu.model : gpu.type;
      const auto same = std::ranges::find(kinds, kind, &std::pair<std::string, int>::first);
      if (same == kinds.end()) {
        kinds.emplace_back(kind, 1);
      } else {
        ++same->second;
      }
    }
    std::string text;
    for (const auto& [kind, count] : kinds) {
      text += (text.empty() ? "has " : ", ") + std::to_string(count) + " " + kind;
    }
    return text;
  }

  // Why the first of gpu_ids that is not to be had is not.
  std::string IdsLack(const GpuAlternative& alternative, const NodeInventory& node) const {
    std::vector<int> all(node.gpus.size());
    std::iota(all.begin(), all.end(), 0);
    const std::vector<int> suitable = filter_.Gpus(demand_.device, alternative, node, all);
    const auto number = [&](int index) { return GpuNumber(node, static_cast<std::size_t>(index)); };
    for (const int id : spec_.gpu_ids) {
      if (std::ranges::find(suitable, id, number) != suitable.end()) continue;
      const auto named = std::ranges::find(all, id, number);
      if (named == all.end()) break;
      const GpuDevice& gpu = node.gpus[static_cast<std::size_t>(*named)];
      const std::string name = "GPU " + std::to_string(id) + " is ";
      if (IsMigSlice(gpu)) {
        return name + "cut into MIG slices, which are asked for by their profile: gpus: {mig: " +
               gpu.type + "}";
      }
      return name + (gpu.type.empty() ? gpu.model : gpu.type) + ", which the job does not ask for";
    }
    const std::size_t gpus = static_cast<std::size_t>(number(all.back())) + 1;
    if (!node.gpu_subset) return "has " + Number(gpus, "GPU") + ", numbered from 0";
    return "has " + Number(gpus, "GPU") + " of its machine's, numbered from 0 in `launch nodes " +
           node.node.value + "`";
  }

  const JobSpec& spec_;
  const Demand& demand_;
  const NodeFilter& filter_;
  const std::vector<PlannerOffer>& offers_;
  std::vector<GpuAlternative> alternatives_;
};

Unplaced Unreadable(const Error& error) {
  Unplaced unplaced;
  unplaced.never = true;
  unplaced.reason = {"BadConstraints", error.message};
  unplaced.missing = error.message;
  return unplaced;
}

}  // namespace

tl::expected<Placement, Unplaced> Place(const JobSpec& spec,
                                        const std::vector<PlannerOffer>& offers,
                                        const Result<LineDemand>& line) {
  if (!line) return tl::unexpected(Unreadable(line.error()));
  auto filter = NodeFilter::Make(spec);
  if (!filter) return tl::unexpected(Unreadable(filter.error()));
  const bool runtimes = std::any_of(offers.begin(), offers.end(), [](const PlannerOffer& offer) {
    return !offer.inventory->container_runtimes.empty();
  });
  if (!runtimes) filter->AllowWithoutRuntime();
  const auto demand = DemandOf(spec, *line, *filter, offers);
  if (!demand) return tl::unexpected(Unreadable(demand.error()));
  return Placer(spec, *demand, *filter, offers).Place();
}

}  // namespace launch
