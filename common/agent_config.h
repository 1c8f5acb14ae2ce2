// Settings of one agent: agent.yaml, overridden by flags of the same names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/ids.h"
#include "common/yaml_reader.h"

namespace launch {

// "single_user": ranks run as the agent's own user. "multi_user": as the submitter, never as root.
enum class RunAs { kSingleUser, kMultiUser };

// Part of the machine's cores that this agent may give away, counted in physical cores.
struct CoreSubset {
  int first = 0;
  int count = 0;
  friend bool operator==(const CoreSubset&, const CoreSubset&) = default;
};

// Both ends included.
struct PortRange {
  int first = 20000;
  int last = 29999;
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

struct AgentConfig {
  NodeId node;                           // empty: the name it joined with
  std::vector<std::string> controllers;  // "host:port", tried in this order
  std::string state_dir = "/var/lib/launch/agent";
  std::string lock_dir = "/run/launch/locks";  // GPU locks: one per machine, shared by its agents
  std::string cgroup_root;                     // directory that ranks go below; empty: found
  RunAs run_as = RunAs::kSingleUser;
  std::map<std::string, std::string> users;  // owner of a job -> account; others: the same name
  std::uint32_t min_uid = 1000;              // no jobs as accounts below it
  bool root_jobs = false;                    // jobs of the owner "root" run as root
  std::string path;                          // PATH of ranks; empty: the agent's
  std::string ld_library_path;               // LD_LIBRARY_PATH of ranks; empty: unset
  std::string nvml_library;                  // empty: found by name
  std::optional<Millis> sample_period;       // unset: as the controller says
  std::string proc_root = "/proc";
  std::vector<std::string> interpreters;  // absolute paths, besides python3 on PATH
  std::map<std::string, std::string> labels;
  std::optional<std::vector<int>> gpu_ids;  // positions in PCI order, ascending; unset: all
  std::optional<CoreSubset> cores;          // unset: all
  PortRange ports;
  std::uint64_t log_cap = 1ull << 30;                   // bytes a rank's output may hold on disk
  Millis keep_logs{std::int64_t{30} * 24 * 3'600'000};  // of attempts that ended
  std::string inventory_file;  // report this instead of the machine; marked simulated
  friend bool operator==(const AgentConfig&, const AgentConfig&) = default;
};

// One setting, for the reader, the flags ("--state-dir" for "state_dir") and the help.
struct AgentSetting {
  std::string name;
  std::string value;  // form of the value: "DIR"
  std::string help;
};
std::vector<AgentSetting> AgentSettings();

// Strict: unknown keys, wrong types and values out of range are errors with file, line and column.
Result<AgentConfig> ParseAgentConfig(std::string_view text, const std::string& file);
Result<AgentConfig> ReadAgentConfig(const std::string& path);
// A map inside of another file, below the key `path`.
Result<AgentConfig> AgentConfigOf(const YamlNode& map, const std::string& file,
                                  const std::string& path);

// (setting, text) pairs over `config`; lists are separated by commas, labels are NAME=VALUE.
Result<AgentConfig> WithFlags(AgentConfig config,
                              const std::vector<std::pair<std::string, std::string>>& flags);

}  // namespace launch
