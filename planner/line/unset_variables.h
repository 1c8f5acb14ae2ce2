// Variables of a text that nothing in it sets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace launch {

// "${DATA:?}" stops bash where it is not set; elsewhere it becomes nothing.
struct UnsetUse {
  std::string name;
  bool stops = false;
};

// In the order of the text, each once. None where the text may set what cannot be seen in it
// (source, eval, read, module ...), and none that has a default, that is tested, or whose name
// stands anywhere but behind a dollar.
std::vector<UnsetUse> NeverSet(std::string_view text);

// Set by bash itself or by the node, maybe.
bool IsOfTheNode(std::string_view name);

}  // namespace launch
