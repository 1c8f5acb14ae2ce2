// Settings that a hosts file hands over to agents and controller, as files on their machines.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/yaml_reader.h"

namespace launch::up {

// The settings as YAML with one key a line, always the same for the same settings; empty: nothing
// is set. A key of `own` counts before that of `common`; labels and users are joined by name.
// Absent: neither map is there. kInvalidArgument with the line in `file`, also for what `launch up`
// sets itself.
Result<std::optional<std::string>> ReadAgentSettings(const YamlNode* common, const YamlNode* own,
                                                     const std::string& file);
Result<std::optional<std::string>> ReadControllerSettings(const YamlNode* node,
                                                          const std::string& file);

// `agent:` and `controller:` of a file that names no hosts, for nodes that Slurm gives.
struct Settings {
  std::optional<std::string> agent;
  std::optional<std::string> controller;
};
// Reads the settings for nodes of Slurm. kInvalidArgument with the line in `file`, also for what
// allocation.sh sets itself and for what only an agent that is root can do.
Result<Settings> ReadSlurmSettings(std::string_view text, const std::string& file);

// What agent.yaml of a machine is to hold; empty: no file. An agent that is root and was told
// nothing else runs the jobs of all its users, each as their account (docs/decisions/0009).
std::string AgentFile(const std::optional<std::string>& settings, bool root);
std::string ControllerFile(const std::optional<std::string>& settings);

// Whether the settings ask for what only root can do.
bool NeedsRoot(const std::optional<std::string>& settings);

}  // namespace launch::up
