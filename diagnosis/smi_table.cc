#include "diagnosis/smi_table.h"

#include <algorithm>

#include "diagnosis/bounded_pattern.h"
#include "diagnosis/log_line.h"

namespace launch {
namespace {

constexpr int kHeldPercent = 20;  // a context without work holds some hundred MiB

}  // namespace

SmiReading ReadSmi(std::string_view text) {
  static const BoundedPattern gpu(R"((\d+)MiB\s*/\s*(\d+)MiB\s*\|\s*(\d+)%)");
  static const BoundedPattern process(R"(^\s*\|\s+\d+\s.*\s\d+MiB\s*\|)");
  SmiReading reading;
  bool list = false;
  bool listed = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\r"), text.size());
    const std::string line = CleanText(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find("NVIDIA-SMI") != std::string::npos) break;
    if (line.find("Processes:") != std::string::npos) list = true;
    long long used = 0;
    long long total = 0;
    int busy = 0;
    if (RE2::PartialMatch(line, gpu, &used, &total, &busy)) {
      if (busy == 0 && used * 100 > total * kHeldPercent && reading.line.empty())
        reading.line = ReadLine(line).text;
    } else if (list && RE2::PartialMatch(line, process)) {
      listed = true;
    }
  }
  reading.held_by_nobody = list && !listed && !reading.line.empty();
  return reading;
}

}  // namespace launch
