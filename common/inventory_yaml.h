// Inventory files: a YAML list of NodeInventory, hand-editable, same words as `launch nodes -o
// yaml`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/inventory.h"

namespace launch {

// Sizes and versions are written as people write them ("97871MiB", "12.8"). Errors have Where.
// Sparse files are legal: what is absent keeps its default, `cores` and `node` are required.
Result<std::vector<NodeInventory>> ParseInventories(std::string_view text, const std::string& file);
Result<std::vector<NodeInventory>> ReadInventoryFile(const std::string& path);
std::string FormatInventories(
    const std::vector<NodeInventory>& nodes);  // parses back to equal values

}  // namespace launch
