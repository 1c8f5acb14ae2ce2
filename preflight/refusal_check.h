// A node that refuses its part of an attempt says why in a word and a sentence: here they become
// findings like those of any other check.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/diagnosis.h"

namespace launch {

// What a node says of a refusal: its first line, and what it saw, in the lines behind it.
struct RefusalText {
  std::string says;
  std::string evidence;
};
RefusalText SplitRefusal(std::string_view why);

// port_busy, gpu_busy, gpu_unhealthy and disk_low, for the codes of from_node::Refused that speak
// of the node's state. Nothing for the others: they are about the attempt.
std::optional<Finding> JudgeRefusal(const NodeId& node, std::string_view code,
                                    std::string_view why);

}  // namespace launch
