#include "common/agent_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "common/units.h"
#include "common/yaml_reader.h"

namespace launch {
namespace {

// The value of a setting, from YAML or a flag: lists have several texts, labels are NAME=VALUE.
using Texts = std::vector<std::string>;
using Status = Result<void>;

enum class Shape { kOne, kList, kMap };

struct Setting {
  AgentSetting shown;
  Shape shape = Shape::kOne;
  std::function<Status(AgentConfig&, const Texts&)> set;
};

Unexpected Bad(const std::string& message, const std::string& hint = {}) {
  return Fail(ErrorCode::kInvalidArgument, message, hint);
}

Status SetPath(std::string& to, const std::string& text) {
  if (!text.starts_with('/')) return Bad("\"" + text + "\" is not an absolute path");
  to = text;
  return {};
}

Status SetSearchPath(std::string& to, const std::string& text) {
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    if (text[at] != '/')
      return Bad("\"" + text + "\" has an entry that is not an absolute directory");
    at = end + 1;
  }
  to = text;
  return {};
}

Result<int> NumberIn(const std::string& text, int low, int high) {
  const std::optional<std::int64_t> number = ParseInt(text);
  if (!number || *number < low || *number > high)
    return Bad("\"" + text + "\" is not a number from " + std::to_string(low) + " to " +
               std::to_string(high));
  return static_cast<int>(*number);
}

struct IntRange {
  int first = 0;
  int last = 0;
};

// "20000-29999"
Result<IntRange> RangeIn(const std::string& text, int low, int high) {
  const auto dash = text.find('-', 1);
  if (dash == std::string::npos) return Bad("\"" + text + "\" is not a range like 8-15");
  LAUNCH_ASSIGN_OR_RETURN(const int first, NumberIn(text.substr(0, dash), low, high));
  LAUNCH_ASSIGN_OR_RETURN(const int last, NumberIn(text.substr(dash + 1), low, high));
  if (first > last) return Bad("\"" + text + "\" ends before it begins");
  return IntRange{first, last};
}

bool IsHostPort(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const auto port = ParseInt(text.substr(colon + 1));
  return port && *port >= 1 && *port <= 65535;
}

Status SetNode(AgentConfig& c, const Texts& v) {
  if (!IsValidName(v[0]))
    return Bad("\"" + v[0] + "\" is not a node name",
               "1 to 63 letters, digits, '.', '_' and '-', not starting with '-' or '.'");
  c.node.value = v[0];
  return {};
}

Status SetControllers(AgentConfig& c, const Texts& v) {
  for (const std::string& address : v)
    if (!IsHostPort(address)) return Bad("\"" + address + "\" is not HOST:PORT");
  c.controllers = v;
  return {};
}

Status SetRunAs(AgentConfig& c, const Texts& v) {
  if (v[0] != "single_user" && v[0] != "multi_user")
    return Bad("run_as is single_user or multi_user, not \"" + v[0] + "\"");
  c.run_as = v[0] == "multi_user" ? RunAs::kMultiUser : RunAs::kSingleUser;
  return {};
}

Status SetSamplePeriod(AgentConfig& c, const Texts& v) {
  LAUNCH_ASSIGN_OR_RETURN(const Millis period, ParseDuration(v[0]));
  if (period < Millis{100} || period > Millis{3'600'000})
    return Bad("sample_period \"" + v[0] + "\" is not between 100ms and 1h");
  c.sample_period = period;
  return {};
}

Status SetInterpreters(AgentConfig& c, const Texts& v) {
  for (const std::string& path : v)
    if (!path.starts_with('/')) return Bad("\"" + path + "\" is not an absolute path");
  c.interpreters = v;
  return {};
}

Status SetUsers(AgentConfig& c, const Texts& v) {
  std::map<std::string, std::string> users;
  for (const std::string& text : v) {
    const auto equals = text.find('=');
    const std::string owner = text.substr(0, equals);
    const std::string account = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (owner.empty() || account.empty())
      return Bad("\"" + text + "\" does not name an account for an owner of jobs",
                 "write users: {ana: ana.lopez}");
    if (account == "root")
      return Bad("jobs of " + owner + " cannot run as root",
                 "root_jobs: true runs those of the user root so, and nobody else's");
    if (!users.emplace(owner, account).second) return Bad("\"" + owner + "\" is given twice");
  }
  c.users = std::move(users);
  return {};
}

Status SetMinUid(AgentConfig& c, const Texts& v) {
  LAUNCH_ASSIGN_OR_RETURN(const int uid, NumberIn(v[0], 1, 2'000'000'000));
  c.min_uid = static_cast<std::uint32_t>(uid);
  return {};
}

Status SetRootJobs(AgentConfig& c, const Texts& v) {
  if (v[0] != "true" && v[0] != "false")
    return Bad("root_jobs is true or false, not \"" + v[0] + "\"");
  c.root_jobs = v[0] == "true";
  return {};
}

Status SetLabels(AgentConfig& c, const Texts& v) {
  std::map<std::string, std::string> labels;
  for (const std::string& text : v) {
    const auto equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || !IsValidName(name))
      return Bad("\"" + text + "\" is not a label NAME=VALUE");
    if (!labels.emplace(name, text.substr(equals + 1)).second)
      return Bad("label \"" + name + "\" is given twice");
  }
  c.labels = std::move(labels);
  return {};
}

Status SetGpuIds(AgentConfig& c, const Texts& v) {
  std::vector<int> ids;
  if (v == Texts{"none"}) {
    c.gpu_ids = std::move(ids);
    return {};
  }
  for (const std::string& text : v) {
    LAUNCH_ASSIGN_OR_RETURN(const int id, NumberIn(text, 0, 1023));
    if (std::find(ids.begin(), ids.end(), id) != ids.end())
      return Bad("GPU " + text + " is named twice");
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  c.gpu_ids = std::move(ids);
  return {};
}

Status SetCores(AgentConfig& c, const Texts& v) {
  LAUNCH_ASSIGN_OR_RETURN(const IntRange range, RangeIn(v[0], 0, 65535));
  c.cores = CoreSubset{range.first, range.last - range.first + 1};
  return {};
}

Status SetPorts(AgentConfig& c, const Texts& v) {
  LAUNCH_ASSIGN_OR_RETURN(const IntRange range, RangeIn(v[0], 1024, 65535));
  if (range.last - range.first < 3)
    return Bad("port_range \"" + v[0] + "\" holds fewer than 4 ports",
               "an attempt takes a block of 4");
  c.ports = {range.first, range.last};
  return {};
}

Status SetLogCap(AgentConfig& c, const Texts& v) {
  LAUNCH_ASSIGN_OR_RETURN(const ByteSize size, ParseBytes(v[0]));
  if (size.bytes < 16 * kMiB)
    return Bad("log_cap \"" + v[0] + "\" is below 16MiB", "the first 8 MiB are always kept");
  c.log_cap = size.bytes;
  return {};
}

Status SetKeepLogs(AgentConfig& c, const Texts& v) {
  LAUNCH_ASSIGN_OR_RETURN(const Millis keep, ParseDuration(v[0]));
  if (keep < Millis{3'600'000}) return Bad("keep_logs \"" + v[0] + "\" is below 1h");
  c.keep_logs = keep;
  return {};
}

template <std::string AgentConfig::*kField>
Status PathOf(AgentConfig& c, const Texts& v) {
  return SetPath(c.*kField, v[0]);
}
template <std::string AgentConfig::*kField>
Status SearchPathOf(AgentConfig& c, const Texts& v) {
  return SetSearchPath(c.*kField, v[0]);
}

const std::vector<Setting>& Settings() {
  using C = AgentConfig;
  static const auto* const kSettings = new std::vector<Setting>{
      {{"node", "NAME", "Name of this node in the cluster; default: the one it joined with"},
       Shape::kOne,
       SetNode},
      {{"controllers", "HOST:PORT,...", "Addresses of the controller, tried in this order"},
       Shape::kList,
       SetControllers},
      {{"state_dir", "DIR", "Identity, attempts and logs of this agent"},
       Shape::kOne,
       PathOf<&C::state_dir>},
      {{"lock_dir", "DIR", "GPU locks, shared by all agents of this machine"},
       Shape::kOne,
       PathOf<&C::lock_dir>},
      {{"cgroup_root", "DIR", "Cgroup below which ranks go; default: found"},
       Shape::kOne,
       PathOf<&C::cgroup_root>},
      {{"run_as", "MODE", "single_user (ranks run as the agent) or multi_user (as the submitter)"},
       Shape::kOne,
       SetRunAs},
      {{"users", "OWNER=ACCOUNT,...", "multi_user: other accounts than those of the owners' names"},
       Shape::kMap,
       SetUsers},
      {{"min_uid", "UID", "multi_user: accounts below it run no jobs; default: 1000"},
       Shape::kOne,
       SetMinUid},
      {{"root_jobs", "BOOL", "multi_user: run the jobs of the user root, as root; default: false"},
       Shape::kOne,
       SetRootJobs},
      {{"path", "DIRS", "PATH of ranks; default: the agent's"},
       Shape::kOne,
       SearchPathOf<&C::path>},
      {{"ld_library_path", "DIRS", "LD_LIBRARY_PATH of ranks; default: unset"},
       Shape::kOne,
       SearchPathOf<&C::ld_library_path>},
      {{"nvml_library", "FILE", "The GPU driver's library; default: found by name"},
       Shape::kOne,
       PathOf<&C::nvml_library>},
      {{"sample_period", "TIME", "How often to measure; default: as the controller says"},
       Shape::kOne,
       SetSamplePeriod},
      {{"proc_root", "DIR", "Where memory and load are read"}, Shape::kOne, PathOf<&C::proc_root>},
      {{"interpreters", "FILE,...", "Python interpreters to probe for torch, besides python3"},
       Shape::kList,
       SetInterpreters},
      {{"labels", "NAME=VALUE,...", "Labels of this node, for constraints"},
       Shape::kMap,
       SetLabels},
      {{"gpu_ids", "N,...", "GPUs this agent may give away, in PCI order, or none; default: all"},
       Shape::kList,
       SetGpuIds},
      {{"cores", "FIRST-LAST", "Physical cores this agent may give away; default: all"},
       Shape::kOne,
       SetCores},
      {{"port_range", "FIRST-LAST", "Ports for the master addresses of jobs"},
       Shape::kOne,
       SetPorts},
      {{"log_cap", "SIZE", "Disk space that the output of one rank may take"},
       Shape::kOne,
       SetLogCap},
      {{"keep_logs", "TIME", "How long the output of ended jobs stays; default: 30d"},
       Shape::kOne,
       SetKeepLogs},
      {{"inventory_file", "FILE", "Report this inventory instead of the machine: a dry run"},
       Shape::kOne,
       PathOf<&C::inventory_file>},
  };
  return *kSettings;
}

const Setting* FindSetting(std::string_view name) {
  for (const Setting& setting : Settings())
    if (setting.shown.name == name) return &setting;
  return nullptr;
}

std::vector<std::string> SettingNames() {
  std::vector<std::string> names;
  for (const Setting& setting : Settings()) names.push_back(setting.shown.name);
  return names;
}

Result<Texts> TextsOf(const YamlMap& map, const Setting& setting, const YamlNode& value) {
  const std::string& name = setting.shown.name;
  if (setting.shape == Shape::kMap) {
    if (value.kind != YamlNode::Kind::kMap)
      return map.Bad(value, name, "must be a map of names to values");
    Texts texts;
    for (const auto& [key, one] : value.entries) {
      if (one.kind != YamlNode::Kind::kScalar)
        return map.Bad(one, name, "the value of \"" + key.scalar + "\" must be a single text");
      texts.push_back(key.scalar + "=" + one.scalar);
    }
    return texts;
  }
  if (setting.shape == Shape::kList) return map.StringList(name);
  LAUNCH_ASSIGN_OR_RETURN(std::optional<std::string> text, map.String(name));
  if (!text || text->empty()) return map.Bad(value, name, "must not be empty");
  return Texts{std::move(*text)};
}

Texts SplitCommas(const std::string& text) {
  Texts parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Result<AgentConfig> FromYaml(const YamlNode& root, const std::string& file,
                             const std::string& path = "") {
  const YamlMap map(root, file, path);
  LAUNCH_RETURN_IF_ERROR(map.AllowOnly(SettingNames()));
  AgentConfig config;
  for (const Setting& setting : Settings()) {
    const YamlNode* value = map.Get(setting.shown.name);
    if (value == nullptr) continue;
    LAUNCH_ASSIGN_OR_RETURN(const Texts texts, TextsOf(map, setting, *value));
    if (const Status set = setting.set(config, texts); !set)
      return map.Bad(*value, setting.shown.name, set.error().message, set.error().hint);
  }
  return config;
}

constexpr std::size_t kMostRead = std::size_t{256} << 10;  // of a file of comments

// Comments only, as configs/agent.yaml comes: all defaults. A file without even these may have lost
// its text.
bool SetsNothing(std::string_view text) {
  if (text.find('#') == std::string_view::npos) return false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string_view::npos && line[first] != '#') return false;
  }
  return true;
}

}  // namespace

std::vector<AgentSetting> AgentSettings() {
  std::vector<AgentSetting> shown;
  for (const Setting& setting : Settings()) shown.push_back(setting.shown);
  return shown;
}

Result<AgentConfig> ParseAgentConfig(std::string_view text, const std::string& file) {
  if (SetsNothing(text)) return AgentConfig{};
  LAUNCH_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, file));
  return FromYaml(root, file);
}

Result<AgentConfig> AgentConfigOf(const YamlNode& map, const std::string& file,
                                  const std::string& path) {
  return FromYaml(map, file, path);
}

Result<AgentConfig> ReadAgentConfig(const std::string& path) {
  const auto root = ReadYamlFile(path);
  if (root) return FromYaml(*root, path);
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    std::ifstream in(path);
    std::string text(kMostRead, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    if (SetsNothing(text)) return AgentConfig{};
  }
  return Unexpected(root.error());
}

Result<AgentConfig> WithFlags(AgentConfig config,
                              const std::vector<std::pair<std::string, std::string>>& flags) {
  std::map<std::string, Texts> given;
  for (const auto& [flag, text] : flags) {
    std::string name = flag;
    std::replace(name.begin(), name.end(), '-', '_');
    const Setting* setting = FindSetting(name);
    if (setting == nullptr) {
      const std::string near = NearestName(name, SettingNames());
      return Bad("unknown setting \"" + name + "\"",
                 near.empty() ? "" : "did you mean " + near + "?");
    }
    Texts& texts = given[name];
    if (setting->shape == Shape::kOne) texts.clear();  // the last one counts
    const Texts parts = setting->shape == Shape::kOne ? Texts{text} : SplitCommas(text);
    texts.insert(texts.end(), parts.begin(), parts.end());
  }
  for (const auto& [name, texts] : given) {
    if (texts.front().empty()) return Bad("--" + name + " must not be empty");
    if (Status set = FindSetting(name)->set(config, texts); !set) {
      set.error().message = name + ": " + set.error().message;
      return Unexpected(std::move(set).error());
    }
  }
  return config;
}

}  // namespace launch
