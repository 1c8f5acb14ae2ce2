#include "planner/place/interface_names.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "common/text.h"
#include "planner/line/called_script.h"

namespace launch {
namespace {

struct NamedInterfaces {
  std::string value;  // as the library reads it
  std::string place;  // "`env:`", "`run`", "train.sh"
};

// NAME=VALUE of a shell text, the last of several. Empty: none, or one that only the node knows.
std::string SetIn(std::string_view text, std::string_view name) {
  std::string value;
  const std::string what = std::string(name) + "=";
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) {
    const std::size_t line = at == 0 ? text.npos : text.rfind('\n', at - 1);
    const std::string_view before = text.substr(line + 1, at - line - 1);  // npos + 1 is 0
    const bool whole = before.empty() ||
                       std::string_view(" \t;&(\"'").find(before.back()) != std::string_view::npos;
    if (!whole || before.find('#') != before.npos) continue;
    const std::size_t begin = at + what.size();
    const std::size_t end = std::min(text.find_first_of(" \t\r\n;&|)", begin), text.size());
    value = text.substr(begin, end - begin);
    std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
  }
  return value.find_first_of("$`") == std::string::npos ? value : std::string();
}

// What counts at last: a script sets it behind `run`, which sets it behind `env:`.
NamedInterfaces NamedIn(const JobSpec& spec, const std::map<std::string, std::string>& files,
                        const Plan& plan, const std::string& name) {
  for (const auto& [path, text] : files) {
    if (!path.ends_with(".sh") && !IsShellScript(text)) continue;
    if (std::string value = SetIn(text, name); !value.empty()) return {std::move(value), path};
  }
  if (std::string value = SetIn(spec.run, name); !value.empty()) return {std::move(value), "`run`"};
  const bool in_env =
      std::ranges::any_of(spec.env, [&](const EnvEntry& entry) { return entry.name == name; });
  if (!in_env || plan.assignments.empty()) return {};
  const auto found = plan.assignments[0].env.find(name);
  return found == plan.assignments[0].env.end() ? NamedInterfaces{}
                                                : NamedInterfaces{found->second, "`env:`"};
}

// NCCL takes beginnings of names ("eth" is eth0), or whole ones behind '='; gloo whole ones.
bool NamesInterface(std::string_view names, std::string_view interface, bool beginnings) {
  if (beginnings && names.starts_with('=')) {
    beginnings = false;
    names.remove_prefix(1);
  }
  while (!names.empty()) {
    const std::size_t comma = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, comma);
    names.remove_prefix(std::min(comma + 1, names.size()));
    if (beginnings ? !name.empty() && interface.starts_with(name) : interface == name) return true;
  }
  return false;
}

}  // namespace

std::vector<Finding> InterfacesMissing(const JobSpec& spec,
                                       const std::map<std::string, std::string>& files,
                                       const RankLayout& layout, const Plan& plan) {
  std::vector<Finding> findings;
  if (plan.world_size < 2) return findings;
  for (const char* name : {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    const bool nccl = name == std::string_view("NCCL_SOCKET_IFNAME");
    if (nccl && plan.device != DeviceClass::kCuda) continue;
    const NamedInterfaces named = NamedIn(spec, files, plan, name);
    if (named.value.empty() || named.value.starts_with('^')) continue;  // all but these
    std::vector<std::string> without;
    std::set<std::string> there;
    for (const NodeShare& share : layout.nodes) {
      bool has = share.inventory->addresses.empty();  // not known
      for (const NetworkAddress& address : share.inventory->addresses) {
        has = has || NamesInterface(named.value, address.interface, nccl);
        there.insert(address.interface);
      }
      if (!has) without.push_back(share.inventory->node.value);
    }
    if (without.empty()) continue;
    Finding finding = MakeFinding(
        "interface_missing", Severity::kWarning,
        std::string(name) + "=" + named.value + " of " + named.place + " names no interface of " +
            Joined(without, ", ") + ": " + (nccl ? "NCCL" : "gloo") + " cannot start there",
        "leave it out: launch names the interface of the route that it proved; or write one that "
        "the nodes have");
    finding.evidence = "the nodes have addresses on " + Joined({there.begin(), there.end()}, ", ");
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace launch
