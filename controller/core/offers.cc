#include "controller/core/offers.h"

#include <fmt/format.h>

#include <numeric>

namespace launch::controller {

std::vector<PlannerOffer> ForPlanner(const std::vector<effect::NodeOffer>& offers,
                                     const UserName& owner) {
  std::vector<PlannerOffer> result;
  for (const effect::NodeOffer& offer : offers) {
    PlannerOffer& one = result.emplace_back();
    one.inventory = offer.inventory.get();
    one.free_gpus = offer.free_gpus;
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
    offer.free_cpus = offer.inventory->cores;
    offer.free_memory_bytes = offer.inventory->memory_bytes;
  }
  return offers;
}

}  // namespace launch::controller
