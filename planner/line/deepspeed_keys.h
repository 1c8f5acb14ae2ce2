// The keys DeepSpeed knows: it takes a misspelled one without a word, so we compare.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace launch {

// Keys of the block `name` ("" = the file itself, "zero_optimization", "offload_optimizer" ...);
// empty when the block is not checked.
const std::vector<std::string>& DeepspeedKeys(std::string_view block);

// Keys of zero_optimization that only stage 3 reads.
bool OnlyStage3(std::string_view key);

}  // namespace launch
