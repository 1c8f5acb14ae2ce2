#include "planner/model/optimizer_names.h"

#include <algorithm>
#include <vector>

#include "common/text.h"

namespace launch {
namespace {

// Names in torch, DeepSpeed and transformers' `optim`; OptimizerOf knows the states of each.
const std::vector<std::string>& Names() {
  static const std::vector<std::string> names = {
      "adam", "adamw",   "adafactor", "adagrad", "adadelta", "ademamix", "adan",
      "came", "lamb",    "lars",      "lion",    "lomo",     "adalomo",  "momentum",
      "muon", "prodigy", "rmsprop",   "sgd",     "sophia"};
  return names;
}

}  // namespace

bool NamesOptimizer(std::string_view word) {
  const std::string text = Lower(word);
  return std::any_of(Names().begin(), Names().end(),
                     [&](const std::string& name) { return text.find(name) != std::string::npos; });
}

Unexpected UnknownOptimizer(const std::string& place, std::string_view word) {
  const std::string near = NearestName(Lower(word), Names());
  return Fail(ErrorCode::kInvalidArgument,
              place + "\"" + std::string(word.substr(0, 60)) + "\" is not a known optimizer",
              (near.empty() ? std::string() : "write " + near + ", or ") +
                  "one with as many states a parameter: adamw (2), lion (1), sgd (0)");
}

}  // namespace launch
