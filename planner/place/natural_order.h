// Order of node names as people count: gpu2 before gpu10.
#pragma once

#include <string>

namespace launch {

bool NaturalLess(const std::string& a, const std::string& b);

}  // namespace launch
