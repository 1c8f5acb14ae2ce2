// What a log alone is found to be, and the forms that launchers and collectors give its lines.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "diagnosis/verdict.h"

namespace launch {

inline const CompiledSignatures& Table() {
  static const CompiledSignatures table;
  return table;
}

inline Verdict Of(std::string_view log, std::optional<int> exit_code = 1) {
  NodeEvidence node;
  node.exit_code = exit_code;
  return Diagnose(log, node, Table());
}

inline std::string EachLine(std::string_view log, std::string_view before, std::string_view after) {
  std::string out;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    out += std::string(before) + std::string(log.substr(0, end)) + std::string(after);
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return out;
}

}  // namespace launch
