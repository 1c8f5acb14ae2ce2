#include "agent/runner/launcher_processes.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "common/foreign_file.h"
#include "common/json_number.h"

namespace launch::agent {
namespace {

using nlohmann::json;

constexpr std::size_t kMostText = 64 << 10;  // a line has some 100 bytes
constexpr std::size_t kMostProcesses = 32;
constexpr std::size_t kLongestClass = 128;

bool IsClassName(const std::string& text) {
  if (text.empty() || text.size() > kLongestClass) return false;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(c >= '0' && c <= '9') && c != '.') return false;
  }
  return true;
}

std::optional<LauncherProcess> ProcessOf(const std::string& text) {
  const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return std::nullopt;
  const auto rank = WholeNumberIn(line, "rank", 0, 65'535);
  const auto local_rank = WholeNumberIn(line, "local_rank", 0, 65'535);
  if (!rank || !local_rank) return std::nullopt;
  LauncherProcess process;
  process.rank = static_cast<Rank>(*rank);
  process.local_rank = static_cast<int>(*local_rank);
  process.pid = WholeNumberIn(line, "pid", 0, INT32_MAX).value_or(0);
  if (const auto code = WholeNumberIn(line, "exit_code", 0, 255))
    process.end = Exited{static_cast<int>(*code)};
  else if (const auto signal = WholeNumberIn(line, "signal", 1, 64))
    process.end = Signalled{static_cast<int>(*signal), false};
  const auto error = line.find("error");
  if (error != line.end() && error->is_string() && IsClassName(error->get<std::string>()))
    process.error = error->get<std::string>();
  return process;
}

}  // namespace

std::vector<LauncherProcess> LauncherProcessesIn(const std::string& directory) {
  const auto text = ReadAll(directory + "/processes.jsonl", kMostText, Links::kRefuse);
  if (!text) return {};
  std::map<Rank, LauncherProcess> found;
  std::istringstream lines(*text);
  for (std::string line; found.size() < kMostProcesses && std::getline(lines, line);) {
    if (auto process = ProcessOf(line)) found[process->rank] = std::move(*process);
  }
  std::vector<LauncherProcess> processes;
  for (auto& [rank, process] : found) processes.push_back(std::move(process));
  return processes;
}

}  // namespace launch::agent
