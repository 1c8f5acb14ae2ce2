#include "cli/up/hosts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cli/up/host_words.h"
#include "cli/up/settings.h"
#include "common/quoted.h"
#include "common/text.h"
#include "common/yaml_reader.h"

namespace launch::up {
namespace {

Unexpected Bad(const std::string& file, int line, std::string message, std::string hint) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint),
              Where{file, line, 0, ""});
}

// It becomes words of a command line of ssh.
Result<void> CheckJump(const std::string& jump) {
  if (jump.empty()) return {};
  const bool bracket = jump.find('[') != std::string::npos;
  std::vector<Host> hosts;
  if (AppendHosts(jump, hosts) && hosts.size() == 1 && bracket != hosts[0].address.empty())
    return {};
  return Fail(ErrorCode::kInvalidArgument, "jump '" + jump + "' is not a host",
              "write bastion, ana@bastion:2222 or [fd00::9]; several hops belong into ssh's own "
              "ProxyJump");
}

Result<void> CheckHowReached(const Host& host) {
  if (!host.user.empty()) LAUNCH_RETURN_IF_ERROR(CheckUser(host.user));
  return CheckJump(host.jump);
}

// Each host has one name, and a name one host.
class Names {
 public:
  // Of the hosts from `begin` on.
  Result<void> Take(const std::vector<Host>& hosts, std::size_t begin) {
    for (std::size_t i = begin; i < hosts.size(); ++i) {
      if (!seen_.insert(hosts[i].name).second)
        return Fail(ErrorCode::kInvalidArgument, "host " + hosts[i].name + " is named twice",
                    "name each host once");
    }
    return {};
  }

 private:
  std::set<std::string> seen_;
};

Result<int> PortOf(const YamlMap& map, std::string_view key) {
  LAUNCH_ASSIGN_OR_RETURN(const auto text, map.String(key));
  if (!text) return 0;
  const Result<int> port = ReadPort(*text);
  if (!port) return map.Bad(*map.Get(key), key, port.error().message, port.error().hint);
  return *port;
}

Result<std::string> UserOf(const YamlMap& map) {
  LAUNCH_ASSIGN_OR_RETURN(const auto user, map.String("user"));
  if (!user || user->empty()) return std::string();
  if (const auto good = CheckUser(*user); !good)
    return map.Bad(*map.Get("user"), "user", good.error().message, good.error().hint);
  return *user;
}

Result<Host> ReadEntry(const YamlNode& node, const std::string& file, const Host& defaults,
                       const YamlNode* agent) {
  const YamlMap map(node, file, "hosts");
  LAUNCH_RETURN_IF_ERROR(
      map.AllowOnly({"name", "address", "user", "port", "key", "jump", "local", "sudo", "agent"}));
  Host host = defaults;
  LAUNCH_ASSIGN_OR_RETURN(const auto name, map.String("name"));
  if (!name) return map.Bad(node, "name", "a host needs a name", "write name: gpu01");
  host.name = *name;
  LAUNCH_RETURN_IF_ERROR(CheckHostName(host.name));
  LAUNCH_ASSIGN_OR_RETURN(const auto address, map.String("address"));
  if (address) {
    LAUNCH_ASSIGN_OR_RETURN(host.address, ReadAddress(*address));
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::string user, UserOf(map));
  LAUNCH_ASSIGN_OR_RETURN(const int port, PortOf(map, "port"));
  LAUNCH_ASSIGN_OR_RETURN(const auto key, map.String("key"));
  LAUNCH_ASSIGN_OR_RETURN(const auto jump, map.String("jump"));
  LAUNCH_ASSIGN_OR_RETURN(const auto local, map.Bool("local"));
  LAUNCH_ASSIGN_OR_RETURN(const auto sudo, map.Bool("sudo"));
  LAUNCH_ASSIGN_OR_RETURN(host.agent, ReadAgentSettings(agent, map.Get("agent"), file));
  host.local = local.value_or(false);
  host.sudo = sudo.value_or(defaults.sudo);
  if (!user.empty()) host.user = user;
  if (key) host.key = *key;
  if (jump) host.jump = *jump;
  if (port != 0) host.port = port;
  return host;
}

Result<HostSet> ReadYamlHosts(std::string_view text, const std::string& file) {
  LAUNCH_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, file));
  const YamlMap map(root, file, "");
  if (root.kind == YamlNode::Kind::kList)
    return map.Bad(root, "hosts", "the list of hosts has no name", "write `hosts:` above it");
  LAUNCH_RETURN_IF_ERROR(
      map.AllowOnly({"hosts", "head", "user", "port", "key", "jump", "sudo", "controller_port",
                     "slurm_jobs", "ssh_config", "founding", "agent", "controller"}));
  HostSet set;
  Host defaults;
  LAUNCH_ASSIGN_OR_RETURN(const auto head, map.String("head"));
  LAUNCH_ASSIGN_OR_RETURN(defaults.user, UserOf(map));
  LAUNCH_ASSIGN_OR_RETURN(defaults.port, PortOf(map, "port"));
  LAUNCH_ASSIGN_OR_RETURN(const auto key, map.String("key"));
  LAUNCH_ASSIGN_OR_RETURN(const auto jump, map.String("jump"));
  LAUNCH_ASSIGN_OR_RETURN(const auto sudo, map.Bool("sudo"));
  LAUNCH_ASSIGN_OR_RETURN(set.controller_port, PortOf(map, "controller_port"));
  LAUNCH_ASSIGN_OR_RETURN(const auto ssh_config, map.String("ssh_config"));
  set.head = head.value_or("");
  set.ssh_config = ssh_config.value_or("");
  defaults.key = key.value_or("");
  defaults.jump = jump.value_or("");
  defaults.sudo = sudo.value_or(false);
  const YamlNode* agent = map.Get("agent");
  LAUNCH_ASSIGN_OR_RETURN(defaults.agent, ReadAgentSettings(agent, nullptr, file));
  LAUNCH_ASSIGN_OR_RETURN(set.controller, ReadControllerSettings(map.Get("controller"), file));
  const YamlNode* list = map.Get("hosts");
  if (list == nullptr || list->kind != YamlNode::Kind::kList)
    return map.Bad(list == nullptr ? root : *list, "hosts", "hosts is not a list",
                   "write hosts: [gpu01, gpu02], or entries with name, address, user ...");
  Names names;
  for (const YamlNode& item : list->items) {
    const std::size_t before = set.hosts.size();
    if (item.kind == YamlNode::Kind::kMap) {
      LAUNCH_ASSIGN_OR_RETURN(Host host, ReadEntry(item, file, defaults, agent));
      set.hosts.push_back(std::move(host));
      if (const auto once = names.Take(set.hosts, before); !once)
        return map.Bad(item, "hosts", once.error().message, once.error().hint);
      continue;
    }
    if (auto added = AppendHosts(item.scalar, set.hosts); !added)
      return map.Bad(item, "hosts", added.error().message, added.error().hint);
    if (const auto once = names.Take(set.hosts, before); !once)
      return map.Bad(item, "hosts", once.error().message, once.error().hint);
    for (std::size_t i = before; i < set.hosts.size(); ++i) {
      Host& host = set.hosts[i];
      if (host.user.empty()) host.user = defaults.user;
      if (host.port == 0) host.port = defaults.port;
      host.key = defaults.key;
      host.jump = defaults.jump;
      host.sudo = defaults.sudo;
      host.agent = defaults.agent;
    }
  }
  LAUNCH_ASSIGN_OR_RETURN(set.slurm_jobs, map.StringList("slurm_jobs"));
  LAUNCH_ASSIGN_OR_RETURN(set.founding, map.StringList("founding"));
  return set;
}

enum class Kind { kYaml, kSshConfig, kLines };

// "head: gpu01", "hosts:"
bool HasYamlKey(std::string_view line) {
  const std::size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  return end != 0 && end != std::string_view::npos && line[end] == ':' &&
         (end + 1 == line.size() || line[end + 1] == ' ');
}

// `host slots=8` of MPI: a machine that is called host.
bool IsSlots(std::string_view rest) {
  return rest.starts_with("slots=") || rest.starts_with("max_slots=") ||
         rest.starts_with("max-slots=");
}

Kind KindOf(std::string_view text) {
  for (const std::string_view one : Split(text, '\n')) {
    const std::string line = Lower(Trim(one));
    if (line.starts_with('{') || line.starts_with("- ") || line == "---" || HasYamlKey(line))
      return Kind::kYaml;
    const std::string word = line.substr(0, line.find_first_of(" \t="));
    if (word.size() < line.size() && (word == "host" || word == "include" || word == "match") &&
        !IsSlots(Trim(std::string_view(line).substr(word.size()))))
      return Kind::kSshConfig;
  }
  return Kind::kLines;
}

// The words of a line of an OpenSSH config: `Host a "b"`, `Host=a`. The keyword in small letters.
std::vector<std::string> ConfigWords(std::string_view line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '#' && !quoted && words.back().empty()) break;
    const bool between = c == ' ' || c == '\t' || (c == '=' && words.size() <= 2);
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted || !between) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  if (!words.empty()) words.front() = Lower(words.front());
  return words;
}

// "ana@gate:2222" -> "gate"
std::string HopName(const std::string& hop) {
  const std::size_t at = hop.rfind('@') + 1;  // none: 0
  return hop.substr(at, hop.find(':', at) - at);
}

// Its hosts; one that others are reached through is left out.
Result<HostSet> ReadSshConfig(std::string_view text, const std::string& file) {
  HostSet set;
  set.ssh_config = file;
  std::vector<std::string> names;
  std::set<std::string> jumps;
  bool includes = false;
  for (const std::string_view one : Split(text, '\n')) {
    const std::string_view line = Trim(one);
    if (line.starts_with("#")) continue;
    const std::vector<std::string> words = ConfigWords(line);
    if (words.size() < 2) continue;
    includes = includes || words.front() == "include";
    if (words.front() == "proxyjump") {
      for (const std::string& hop : HostParts(words[1])) jumps.insert(HopName(hop));
    }
    if (words.front() != "host") continue;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string& name = words[i];
      if (name.find_first_of("*?!") != std::string::npos) continue;
      LAUNCH_RETURN_IF_ERROR(CheckHostName(name));
      // A host may have several blocks: the first value of each keyword counts.
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    if (jumps.contains(name)) {
      set.left_out.push_back(name);
    } else {
      set.hosts.push_back({name, "", "", 0, "", ""});
    }
  }
  if (set.hosts.empty() && includes)
    return Bad(file, 0, "no host is named in the file itself, and its Include is not followed",
               "name the hosts: launch up gpu[01-16] -F " + file);
  return set;
}

Result<HostSet> ReadLines(std::string_view text, const std::string& file) {
  HostSet set;
  Names names;
  int number = 0;
  for (const std::string_view one : Split(text, '\n')) {
    ++number;
    const std::string_view line = Trim(one.substr(0, one.find('#')));
    if (line.empty()) continue;
    const std::size_t before = set.hosts.size();
    // What follows the name is for another launcher: slots=8, max-slots=8.
    auto taken = AppendHosts(line.substr(0, line.find_first_of(" \t")), set.hosts);
    if (taken) taken = names.Take(set.hosts, before);
    if (!taken) return Bad(file, number, taken.error().message, taken.error().hint);
  }
  return set;
}

Result<HostSet> ReadByKind(std::string_view text, const std::string& file) {
  switch (KindOf(text)) {
    case Kind::kYaml:
      return ReadYamlHosts(text, file);
    case Kind::kSshConfig:
      return ReadSshConfig(text, file);
    case Kind::kLines:
      break;
  }
  return ReadLines(text, file);
}

}  // namespace

Result<HostSet> CheckHosts(HostSet set, const std::string& file) {
  for (const Host& host : set.hosts) LAUNCH_RETURN_IF_ERROR(CheckHowReached(host));
  if (set.hosts.empty())
    return Bad(file, 0, "no host is named",
               "write one a line, or `hosts:` with a list; an OpenSSH config needs a Host without "
               "wildcards");
  if (const auto once = Names().Take(set.hosts, 0); !once)
    return Bad(file, 0, once.error().message, once.error().hint);
  if (!set.head.empty() && HostNamed(set, set.head) == nullptr)
    return Bad(file, 0, "head: " + set.head + " is not among the hosts",
               "name one of them: the controller runs there");
  return set;
}

Result<HostSet> ReadHosts(std::string_view text, const std::string& file) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  LAUNCH_ASSIGN_OR_RETURN(HostSet set, ReadByKind(text, file));
  return CheckHosts(std::move(set), file);
}

Result<HostSet> ReadHostlist(std::string_view text) {
  HostSet set;
  LAUNCH_RETURN_IF_ERROR(AppendHosts(text, set.hosts));
  return CheckHosts(std::move(set), "");
}

Result<HostSet> WithHead(HostSet set, const HostSet& known) {
  if (set.ssh_config.empty()) set.ssh_config = known.ssh_config;
  if (known.head.empty()) {
    if (set.head.empty()) set.head = set.hosts.front().name;
    return set;
  }
  if (!set.head.empty() && set.head != known.head)
    return Fail(ErrorCode::kFailedPrecondition,
                "the controller of this cluster runs on " + known.head + ", not on " + set.head,
                "leave --head out, or make another cluster with --cluster");
  if (set.controller_port != 0 && set.controller_port != known.Port())
    return Fail(ErrorCode::kFailedPrecondition,
                "the controller of this cluster listens on port " + std::to_string(known.Port()) +
                    ", not on " + std::to_string(set.controller_port),
                "its agents know no other: leave the port out, or `launch down` first");
  set.head = known.head;
  set.controller_port = known.controller_port;
  // What is not said stays.
  if (!set.controller) set.controller = known.controller;
  for (Host& host : set.hosts) {
    for (const Host& one : known.hosts)
      if (one.name == host.name && !host.agent) host.agent = one.agent;
  }
  const auto is_head = [&](const Host& host) { return host.name == known.head; };
  const auto head = std::find_if(known.hosts.begin(), known.hosts.end(), is_head);
  if (std::none_of(set.hosts.begin(), set.hosts.end(), is_head) && head != known.hosts.end())
    set.hosts.insert(set.hosts.begin(), *head);
  return set;
}

const Host* HostNamed(const HostSet& set, const std::string& name) {
  const auto found = std::ranges::find(set.hosts, name, &Host::name);
  return found == set.hosts.end() ? nullptr : &*found;
}

namespace {

std::string Indented(const char* key, const std::optional<std::string>& settings, int depth) {
  if (!settings) return {};
  const std::string space(static_cast<std::size_t>(depth), ' ');
  if (settings->empty()) return space + key + ": {}\n";
  std::string text = space + key + ":\n";
  for (std::size_t begin = 0; begin < settings->size();) {
    const std::size_t end = settings->find('\n', begin);
    text += space + "  " + settings->substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return text;
}

}  // namespace

std::string FormatHosts(const HostSet& set) {
  std::string text;
  if (!set.head.empty()) text += "head: " + Quoted(set.head) + "\n";
  if (set.controller_port != 0)
    text += "controller_port: " + std::to_string(set.controller_port) + "\n";
  if (!set.ssh_config.empty()) text += "ssh_config: " + Quoted(set.ssh_config) + "\n";
  const auto list = [&](const char* key, const std::vector<std::string>& items) {
    if (!items.empty()) text += std::string(key) + ":\n";
    for (const std::string& item : items) text += "  - " + Quoted(item) + "\n";
  };
  list("slurm_jobs", set.slurm_jobs);
  list("founding", set.founding);
  text += Indented("controller", set.controller, 0);
  text += "hosts:\n";
  for (const Host& host : set.hosts) {
    text += "  - name: " + Quoted(host.name) + "\n";
    const auto add = [&](const char* key, const std::string& value) {
      if (!value.empty()) text += std::string("    ") + key + ": " + Quoted(value) + "\n";
    };
    add("address", host.address);
    add("user", host.user);
    if (host.port != 0) text += "    port: " + std::to_string(host.port) + "\n";
    add("key", host.key);
    add("jump", host.jump);
    if (host.local) text += "    local: true\n";
    if (host.sudo) text += "    sudo: true\n";
    text += Indented("agent", host.agent, 4);
  }
  return text;
}

HostSet Merged(HostSet known, const HostSet& more) {
  for (const Host& host : more.hosts) {
    const auto same = std::find_if(known.hosts.begin(), known.hosts.end(),
                                   [&](const Host& one) { return one.name == host.name; });
    if (same == known.hosts.end()) {
      known.hosts.push_back(host);
    } else {
      const auto agent = same->agent;
      *same = host;
      if (!host.agent) same->agent = agent;
    }
  }
  known.slurm_jobs.insert(known.slurm_jobs.end(), more.slurm_jobs.begin(), more.slurm_jobs.end());
  for (const std::string& head : more.founding)
    if (std::ranges::find(known.founding, head) == known.founding.end())
      known.founding.push_back(head);
  if (known.head.empty()) known.head = more.head;
  if (more.controller) known.controller = more.controller;
  if (!more.ssh_config.empty()) known.ssh_config = more.ssh_config;
  if (more.controller_port != 0) known.controller_port = more.controller_port;
  return known;
}

}  // namespace launch::up
