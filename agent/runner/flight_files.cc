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
// A rank has a directory of its own, and its account may write there: all of it together is read
// within a fraction of a second, for it is read on the runner's thread.
constexpr std::size_t kMostNames = 4'096;
constexpr std::size_t kMostFiles = 8;
constexpr std::size_t kMostBytes = 4 << 20;  // 2,000 entries, as the plan asks for, are about 2 MiB

}  // namespace

std::vector<std::string> FlightLinesIn(const std::string& directory) {
  std::map<Rank, std::string> files;
  std::error_code error;
  std::size_t names = 0;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (++names > kMostNames || files.size() >= kMostFiles) break;
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kFlightFile)) continue;
    const std::string_view digits =
        std::string_view(name).substr(std::string_view(kFlightFile).size());
    Rank rank = -1;
    const auto [rest, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (bad == std::errc{} && rest == digits.data() + digits.size() && rank >= 0)
      files[rank] = at->path().string();
  }
  std::vector<std::string> lines;
  std::size_t left = kMostBytes;
  for (const auto& [rank, path] : files) {
    const auto bytes = ReadAll(path, left, Links::kRefuse);
    if (!bytes) continue;
    left -= std::min(left, bytes->size());
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
