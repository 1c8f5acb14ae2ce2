// Logs written for the tests: message forms of many versions, one label each.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace launch {

struct Snippet {
  std::string_view label;
  std::string_view log;
  std::optional<int> exit_code = 1;
};

std::span<const Snippet> MemorySnippets();
std::span<const Snippet> EnvironmentSnippets();
std::span<const Snippet> CommunicationSnippets();
std::span<const Snippet> ProgramSnippets();
std::span<const Snippet> HardwareSnippets();
std::span<const std::string_view> BenignLogs();  // exit code 0, or not known

}  // namespace launch
