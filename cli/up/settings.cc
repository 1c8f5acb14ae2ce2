#include "cli/up/settings.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "common/agent_config.h"
#include "common/controller_config.h"
#include "common/quoted.h"

namespace launch::up {
namespace {

constexpr std::string_view kHeader =
    "# Written by `launch up`: change them in the hosts file, and run it again.\n";

struct Reserved {
  const char* key;
  const char* instead;
};
constexpr Reserved kOfAgents[] = {
    {"node", "it is the name of the host"},
    {"controllers", "the agent learns them when it joins; `address:` of the head says which"},
    {"state_dir", "it is below /var/lib/launch for root, else in the home directory"}};
constexpr Reserved kOfAllocations[] = {{"gpu_ids", "Slurm says which GPUs it gave"},
                                       {"lock_dir", "it is beside the agent's state"}};
constexpr Reserved kOfControllers[] = {{"listen", "write controller_port:"}};

template <std::size_t kCount>
Result<void> RefuseReserved(const YamlNode& node, const std::string& file, const char* path,
                            const Reserved (&reserved)[kCount]) {
  const YamlMap map(node, file, path);
  for (const Reserved& one : reserved) {
    const YamlNode* found = map.Get(one.key);
    if (found != nullptr)
      return map.Bad(*found, one.key, std::string(one.key) + " is set by `launch up` itself",
                     one.instead);
  }
  return {};
}

// As the readers take it: true and numbers without quotes, the rest with where it needs them.
std::string Scalar(const YamlNode& node) {
  const std::string& text = node.scalar;
  const bool plain = !node.quoted && !text.empty() && text.back() != ':' &&
                     (std::isalnum(static_cast<unsigned char>(text[0])) != 0 || text[0] == '/') &&
                     std::all_of(text.begin(), text.end(), [](char c) {
                       return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
                              c == '.' || c == '/' || c == ':' || c == '-';
                     });
  return plain ? text : Quoted(text);
}

std::string Flow(const YamlNode& node) {
  std::string text;
  if (node.kind == YamlNode::Kind::kMap) {
    for (const YamlEntry& entry : node.entries)
      text += (text.empty() ? "" : ", ") + Scalar(entry.key) + ": " + Flow(entry.value);
    return "{" + text + "}";
  }
  if (node.kind != YamlNode::Kind::kList) return Scalar(node);
  for (const YamlNode& item : node.items) text += (text.empty() ? "" : ", ") + Flow(item);
  return "[" + text + "]";
}

void Put(std::vector<YamlEntry>& entries, const YamlEntry& entry) {
  const auto same = std::find_if(entries.begin(), entries.end(), [&](const YamlEntry& one) {
    return one.key.scalar == entry.key.scalar;
  });
  if (same == entries.end()) {
    entries.push_back(entry);
  } else if (same->value.kind == YamlNode::Kind::kMap && entry.value.kind == YamlNode::Kind::kMap) {
    for (const YamlEntry& inner : entry.value.entries) Put(same->value.entries, inner);
  } else {
    same->value = entry.value;
  }
}

std::string Format(std::vector<YamlEntry> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const YamlEntry& a, const YamlEntry& b) { return a.key.scalar < b.key.scalar; });
  std::string text;
  for (const YamlEntry& entry : entries) text += entry.key.scalar + ": " + Flow(entry.value) + "\n";
  return text;
}

bool Says(const std::string& settings, std::string_view key) {
  const std::string begin = std::string(key) + ": ";
  return settings.starts_with(begin) || settings.find("\n" + begin) != std::string::npos;
}

bool IsEmpty(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kNull ||
         (node.kind == YamlNode::Kind::kMap && node.entries.empty());
}

}  // namespace

Result<std::optional<std::string>> ReadAgentSettings(const YamlNode* common, const YamlNode* own,
                                                     const std::string& file) {
  if (common == nullptr && own == nullptr) return std::optional<std::string>();
  std::vector<YamlEntry> entries;
  for (const YamlNode* node : {common, own}) {
    if (node == nullptr || IsEmpty(*node)) continue;
    LAUNCH_RETURN_IF_ERROR(AgentConfigOf(*node, file, "agent"));
    LAUNCH_RETURN_IF_ERROR(RefuseReserved(*node, file, "agent", kOfAgents));
    for (const YamlEntry& entry : node->entries) Put(entries, entry);
  }
  return std::optional(Format(std::move(entries)));
}

Result<std::optional<std::string>> ReadControllerSettings(const YamlNode* node,
                                                          const std::string& file) {
  if (node == nullptr) return std::optional<std::string>();
  if (IsEmpty(*node)) return std::optional(std::string());
  LAUNCH_RETURN_IF_ERROR(ControllerConfigOf(*node, file, "controller"));
  LAUNCH_RETURN_IF_ERROR(RefuseReserved(*node, file, "controller", kOfControllers));
  return std::optional(Format(node->entries));
}

Result<Settings> ReadSlurmSettings(std::string_view text, const std::string& file) {
  LAUNCH_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, file));
  const YamlMap map(root, file, "");
  LAUNCH_RETURN_IF_ERROR(map.AllowOnly({"agent", "controller"}));
  Settings settings;
  const YamlNode* agent = map.Get("agent");
  if (agent != nullptr && !IsEmpty(*agent))
    LAUNCH_RETURN_IF_ERROR(RefuseReserved(*agent, file, "agent", kOfAllocations));
  LAUNCH_ASSIGN_OR_RETURN(settings.agent, ReadAgentSettings(agent, nullptr, file));
  if (NeedsRoot(settings.agent))
    return map.Bad(*agent, "agent", "run_as: multi_user takes an agent that is root",
                   "agents of an allocation run as you: leave it out");
  LAUNCH_ASSIGN_OR_RETURN(settings.controller, ReadControllerSettings(map.Get("controller"), file));
  return settings;
}

std::string AgentFile(const std::optional<std::string>& settings, bool root) {
  std::string text = settings.value_or("");
  if (root && !Says(text, "run_as")) {
    if (!Says(text, "root_jobs")) text += "root_jobs: true\n";
    text += "run_as: multi_user\n";
  }
  return text.empty() ? text : std::string(kHeader) + text;
}

std::string ControllerFile(const std::optional<std::string>& settings) {
  return settings.value_or("").empty() ? "" : std::string(kHeader) + *settings;
}

bool NeedsRoot(const std::optional<std::string>& settings) {
  return settings && Says(*settings, "run_as") &&
         settings->find("run_as: multi_user\n") != std::string::npos;
}

}  // namespace launch::up
