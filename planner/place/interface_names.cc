#include "planner/place/interface_names.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "common/text.h"
#include "planner/line/called_script.h"

namespace launch {
namespace {

struct NamedInterfaces {
  std::vector<std::string> values;  // as the library reads them; of several the node takes one
  std::string place;                // "`env:`", "`run`", "train.sh"
};

// NAME=VALUE of a shell text, each of them: of two branches nobody here knows which one is taken.
// Absent: there is none; empty: only the node knows.
std::optional<std::vector<std::string>> SetIn(std::string_view text, const std::string& name) {
  std::vector<std::string> values;
  const std::string what = name + "=";
  bool set = false;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) {
    const std::size_t line = at == 0 ? text.npos : text.rfind('\n', at - 1);
    const std::string_view before = text.substr(line + 1, at - line - 1);  // npos + 1 is 0
    const bool whole = before.empty() ||
                       std::string_view(" \t;&(\"'").find(before.back()) != std::string_view::npos;
    if (!whole || before.find('#') != before.npos) continue;
    const std::size_t begin = at + what.size();
    const std::size_t end = std::min(text.find_first_of(" \t\r\n;&|)", begin), text.size());
    std::string value(text.substr(begin, end - begin));
    std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
    if (value == "$" + name || value == "${" + name + "}") continue;  // `echo NAME=$NAME`
    set = true;
    if (value.find_first_of("$`") != value.npos) return std::vector<std::string>();
    if (!value.empty()) values.push_back(std::move(value));
  }
  if (text.find("unset " + name) != text.npos) return std::vector<std::string>();
  return set ? std::optional(std::move(values)) : std::nullopt;
}

// What counts at last: a script sets it behind `run`, which sets it behind `env:`.
NamedInterfaces NamedIn(const JobSpec& spec, const std::map<std::string, std::string>& files,
                        const Plan& plan, const std::string& name) {
  for (const auto& [path, text] : files) {
    if (!path.ends_with(".sh") && !IsShellScript(text)) continue;
    if (auto values = SetIn(text, name)) return {*std::move(values), path};
  }
  if (auto values = SetIn(spec.run, name)) return {*std::move(values), "`run`"};
  const bool in_env =
      std::ranges::any_of(spec.env, [&](const EnvEntry& entry) { return entry.name == name; });
  if (!in_env || plan.assignments.empty()) return {};
  const auto found = plan.assignments[0].env.find(name);
  return found == plan.assignments[0].env.end() ? NamedInterfaces{}
                                                : NamedInterfaces{{found->second}, "`env:`"};
}

std::vector<std::string> NamesOf(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view name : Split(list, ','))
    if (!name.empty()) names.emplace_back(name);
  return names;
}

// NCCL takes one of the beginnings of names ("eth" is eth0), or of whole ones behind '=', or all
// but those behind '^'.
bool NcclFinds(std::string_view names, const NodeInventory& node) {
  if (names.starts_with('^')) return true;
  const bool whole = names.starts_with('=');
  if (whole) names.remove_prefix(1);
  return std::ranges::any_of(NamesOf(names), [&](const std::string& name) {
    return std::ranges::any_of(node.addresses, [&](const NetworkAddress& own) {
      return whole ? own.interface == name : own.interface.starts_with(name);
    });
  });
}

// Gloo opens each of them.
bool GlooFinds(std::string_view names, const NodeInventory& node) {
  return std::ranges::all_of(NamesOf(names), [&](const std::string& name) {
    return std::ranges::find(node.addresses, name, &NetworkAddress::interface) !=
           node.addresses.end();
  });
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
    if (named.values.empty()) continue;
    std::vector<std::string> without;
    std::set<std::string> there;
    for (const NodeShare& share : layout.nodes) {
      const NodeInventory& node = *share.inventory;
      for (const NetworkAddress& address : node.addresses) there.insert(address.interface);
      const bool finds = std::ranges::any_of(named.values, [&](const std::string& value) {
        return nccl ? NcclFinds(value, node) : GlooFinds(value, node);
      });
      if (!finds && !node.addresses.empty()) without.push_back(node.node.value);
    }
    if (without.empty()) continue;
    Finding finding = MakeFinding(
        "interface_missing", Severity::kWarning,
        std::string(name) + "=" + named.values.back() + " of " + named.place +
            " names no interface of " + Joined(without, ", ") + ": " + (nccl ? "NCCL" : "gloo") +
            " cannot start there",
        "leave it out: launch names the interface of the route that it proved; or write one that "
        "the nodes have");
    finding.evidence = "the nodes have addresses on " + Joined({there.begin(), there.end()}, ", ");
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace launch
