// `launch --help`: the verbs in groups, a line of at most 80 columns each.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace launch {

std::string TopHelp(const CLI::App& parser);

}  // namespace launch
