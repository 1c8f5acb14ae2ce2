// Words of a command line and the shell text that gives them back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace launch {

// One word as bash reads it back; plain words stay as they are.
std::string QuoteWord(std::string_view word);
std::string JoinWords(const std::vector<std::string>& words);

}  // namespace launch
