#include "planner/line/script_flags.h"

#include <algorithm>
#include <utility>

namespace launch {
namespace {

bool IsValue(const std::string& word) {
  return word.empty() || word[0] != '-' || (word.size() > 1 && word[1] >= '0' && word[1] <= '9');
}

}  // namespace

std::vector<ScriptFlag> ReadScriptFlags(const std::vector<ShellWord>& words) {
  std::vector<ScriptFlag> flags;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].value;
    if (word.size() < 3 || word.rfind("--", 0) != 0) continue;
    const std::size_t equals = word.find('=');
    ScriptFlag flag;
    flag.flag = word.substr(0, equals);
    flag.name = flag.flag.substr(2);
    std::replace(flag.name.begin(), flag.name.end(), '-', '_');
    flag.text = words[i].raw;
    if (equals != std::string::npos) {
      flag.late = !words[i].fixed;
      if (!flag.late) flag.value = word.substr(equals + 1);
    } else if (i + 1 < words.size() && IsValue(words[i + 1].value)) {
      const ShellWord& next = words[++i];
      flag.text += " " + next.raw;
      flag.late = !next.fixed;
      if (!flag.late) flag.value = next.value;
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

}  // namespace launch
