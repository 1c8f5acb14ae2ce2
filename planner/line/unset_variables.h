// Variables of a text that nothing in it sets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace launch {

// A use of a variable that nothing sets. "${DATA:?}" stops bash; any other use becomes nothing.
struct UnsetUse {
  std::string name;
  bool stops = false;
};

// Variables that nothing sets, in the order of the text, each once. None where the text may set
// what cannot be seen in it (source, eval, read, module ...), and none that has a default, that is
// tested, or whose name stands anywhere but behind a dollar.
std::vector<UnsetUse> NeverSet(std::string_view text);

// Set by bash itself or by the node, maybe.
bool IsOfTheNode(std::string_view name);

}  // namespace launch
