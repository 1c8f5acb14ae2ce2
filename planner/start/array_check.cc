#include "planner/start/array_check.h"

#include <map>
#include <string>

#include "planner/start/environment.h"
#include "planner/start/expansion.h"

namespace launch {

Result<void> CheckArray(const JobSpec& whole, const SubmitContext& context) {
  if (!whole.array || whole.checkpoint.dir.empty()) return {};
  std::map<std::string, int> used;  // directory -> index of the element
  for (const ArrayElement& element : ElementsOf(*whole.array)) {
    const JobSpec spec = ElementSpec(whole, element);
    const auto job = JobEnvironment(spec, context, NodeInventory());
    if (!job) return {};  // of the element's own checks
    const auto dir = ExpandVariables(spec.checkpoint.dir, "checkpoint.dir", *job);
    if (!dir) return {};
    const auto [other, fresh] = used.emplace(*dir, element.index);
    if (fresh) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "checkpoint.dir is `" + *dir + "` for element " + std::to_string(other->second) +
                    " and for element " + std::to_string(element.index) +
                    ": one would resume from the other's checkpoint",
                "write $LAUNCH_ARRAY_INDEX or a parameter of sweep into it");
  }
  return {};
}

}  // namespace launch
