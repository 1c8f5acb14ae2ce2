#include "controller/core/offers.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/mig.h"

namespace launch::controller {
namespace {

constexpr std::size_t kMostNamed = 4;

// Why the GPU can serve nobody; empty: it can.
std::string WhyBroken(const State& state, const GpuDevice& gpu) {
  if (gpu.health == Health::kBad) return gpu.why.empty() ? "bad" : gpu.why;
  const auto record = state.quarantine.find(gpu.uuid);
  if (record == state.quarantine.end()) return {};
  const std::string why = WhyHeld(state, record->second);
  return "quarantined" + (why.empty() ? "" : ": " + why);
}

struct Broken {
  std::vector<std::string> gpus;  // "GPU 0 of node1 (row_remap_failed)"
  std::vector<PlannerOffer> rest;
};

// The nodes as if empty, but for the GPUs that are broken; of those, `ids` alone where given.
Broken WithoutBroken(const State& state, std::vector<PlannerOffer> offers,
                     const std::vector<int>& ids) {
  Broken broken;
  broken.rest = WhenEmpty(std::move(offers));
  for (PlannerOffer& offer : broken.rest) {
    if (!offer.schedulable || !offer.refuses.empty()) continue;
    std::erase_if(offer.free_gpus, [&](int index) {
      const GpuDevice& gpu = offer.inventory->gpus[static_cast<std::size_t>(index)];
      const std::string why = WhyBroken(state, gpu);
      const int number = GpuNumber(*offer.inventory, static_cast<std::size_t>(index));
      const bool wanted = ids.empty() || std::ranges::find(ids, number) != ids.end();
      if (why.empty() || !wanted) return false;
      broken.gpus.push_back(
          fmt::format("GPU {} of {} ({})", number, offer.inventory->node.value, why));
      return true;
    });
  }
  return broken;
}

}  // namespace

std::vector<PlannerOffer> ForPlanner(const std::vector<effect::NodeOffer>& offers,
                                     const UserName& owner) {
  std::vector<PlannerOffer> result;
  for (const effect::NodeOffer& offer : offers) {
    PlannerOffer& one = result.emplace_back();
    one.inventory = offer.inventory.get();
    one.free_gpus = offer.free_gpus;
    one.crowded_gpus = offer.crowded_gpus;
    one.free_cpus = offer.free_cpus;
    one.free_memory_bytes = offer.free_memory_bytes;
    one.schedulable = offer.schedulable;
    if (offer.account && *offer.account != owner) {
      one.refuses = fmt::format("runs jobs of account {} only, and the owner is {}",
                                offer.account->value, owner.value);
    }
  }
  return result;
}

std::vector<PlannerOffer> WhenEmpty(std::vector<PlannerOffer> offers) {
  for (PlannerOffer& offer : offers) {
    offer.free_gpus.resize(offer.inventory->gpus.size());
    std::iota(offer.free_gpus.begin(), offer.free_gpus.end(), 0);
    offer.crowded_gpus.clear();
    offer.free_cpus = offer.inventory->cores;
    offer.free_memory_bytes = offer.inventory->memory_bytes;
  }
  return offers;
}

Error NeverFits(const Unplaced& unplaced) {
  std::string message = "no known node could ever run this job";
  if (!unplaced.reason.evidence.empty()) message += ": " + unplaced.reason.evidence;
  std::string hint = "ask for less, or for what a node has: launch nodes -o wide";
  if (!unplaced.closest_node.empty()) {
    hint = fmt::format("closest is {}: {}", unplaced.closest_node, unplaced.missing);
  }
  return Error{ErrorCode::kCannotFit, std::move(message), std::move(hint), std::nullopt};
}

std::optional<WaitReason> WaitsForRepair(const State& state, const Unplaced& unplaced,
                                         const JobSpec& spec, const Result<LineDemand>& line,
                                         const UserName& owner,
                                         const std::vector<effect::NodeOffer>& offers) {
  if (unplaced.reason.code != "Resources") return std::nullopt;
  const Broken broken = WithoutBroken(state, ForPlanner(offers, owner), spec.gpu_ids);
  if (broken.gpus.empty() || Place(spec, broken.rest, line)) return std::nullopt;
  std::string evidence = "only with GPUs that are broken: ";
  for (std::size_t i = 0; i < broken.gpus.size() && i < kMostNamed; ++i) {
    evidence += (i == 0 ? "" : ", ") + broken.gpus[i];
  }
  if (broken.gpus.size() > kMostNamed) {
    evidence += fmt::format(" and {} more", broken.gpus.size() - kMostNamed);
  }
  return WaitReason{"ReqNodeNotAvail", evidence};
}

}  // namespace launch::controller
