#include <algorithm>
#include <utility>

#include "cli/up/bring_up.h"
#include "cli/up/host_setup.h"
#include "cli/up/owner.h"
#include "cli/up/site.h"

namespace launch::up {

std::vector<HostResult> TakeDown(const HostSet& set, const UpOptions& options,
                                 const Ending& ending) {
  std::vector<Site> sites = SitesOf(set);
  const std::size_t head = HeadOf(set);
  const auto remove = [&](Site& site) -> Result<void> {
    LAUNCH_RETURN_IF_ERROR(Open(site, options));
    Enter(options, site, Stage::kEnding);
    LAUNCH_ASSIGN_OR_RETURN(site.result.facts, Probe(*site.remote));
    LAUNCH_RETURN_IF_ERROR(MustBeEnded(site.result, set, options, ending));
    if (ending.of_anybody) {
      if (const std::string what = WhatIsThere(site.result.facts); !what.empty())
        Say(options, site, "ends " + what);
    }
    LAUNCH_RETURN_IF_ERROR(
        Remove(*site.remote, site.result.facts, {.purge = ending.purge, .leaves = ending.leaves}));
    Say(options, site, ending.purge ? "ended and removed" : "ended");
    site.result.done = true;
    Enter(options, site, Stage::kEnded);
    return {};
  };
  // The controller last: agents say goodbye to it.
  std::vector<Site> last(1);
  std::swap(last[0], sites[head]);
  sites.erase(sites.begin() + static_cast<std::ptrdiff_t>(head));
  ForEach(sites, options, options.parallel, remove);
  ForEach(last, options, 1, remove);
  sites.insert(sites.begin() + static_cast<std::ptrdiff_t>(head), std::move(last[0]));
  return ResultsOf(sites);
}

}  // namespace launch::up
