// Words of a command line and the shell text that gives them back.
#pragma once

#include <string>
#include <vector>

namespace launch {

// Words as one line that bash reads back.
std::string JoinWords(const std::vector<std::string>& words);

}  // namespace launch
