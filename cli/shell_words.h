// Words of a command line and the shell text that gives them back.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace launch {

// Length of the `NAME=` at the start of the word; 0: it does not begin so.
std::size_t AssignedName(std::string_view word);

// Words as one line that bash reads back.
std::string JoinWords(const std::vector<std::string>& words);

}  // namespace launch
