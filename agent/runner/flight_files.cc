#include "agent/runner/flight_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "common/flight_record.h"
#include "common/foreign_file.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFlightLines = 32;
constexpr std::size_t kMostFiles = 64;
constexpr std::size_t kLargestFile = 8
                                     << 20;  // 2,000 entries, as the plan asks for, are about 2 MiB

}  // namespace

std::vector<std::string> FlightLinesIn(const std::string& directory) {
  std::map<Rank, std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kFlightFile) || files.size() >= kMostFiles) continue;
    const std::string_view digits =
        std::string_view(name).substr(std::string_view(kFlightFile).size());
    Rank rank = -1;
    const auto [rest, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (bad == std::errc{} && rest == digits.data() + digits.size() && rank >= 0)
      files[rank] = at->path().string();
  }
  std::vector<std::string> lines;
  for (const auto& [rank, path] : files) {
    const auto bytes = ReadAll(path, kLargestFile, Links::kRefuse);
    if (!bytes) continue;
    const auto record = ReadFlightRecord(*bytes);
    if (!record) continue;
    for (const FlightGroup& group : record->groups) {
      if (lines.size() >= kMostFlightLines) return lines;
      if (group.id == "0" || group.waits_in != 0) lines.push_back(FlightLine(rank, group));
    }
  }
  return lines;
}

}  // namespace launch::agent
