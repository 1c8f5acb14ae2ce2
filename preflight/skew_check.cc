#include "preflight/skew_check.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "preflight/remedies.h"

namespace launch {
namespace {

constexpr std::string_view kSkewCheck = "versions agree";

struct Compared {
  std::string name;
  Severity on_gpus;  // how bad a difference is for a job over NCCL
  Severity on_cpus;  // and over gloo
  std::function<std::string(const RuntimeFacts&)> version;
  std::string package;  // what pip calls it; empty when pip cannot change it
};

std::string Package(const RuntimeFacts& facts, const std::string& name) {
  const auto found = facts.packages.find(name);
  return found == facts.packages.end() ? std::string() : found->second;
}

// "3.11.7" -> "3.11": patch releases pickle alike.
std::string MinorOf(const std::string& version) {
  const std::size_t first = version.find('.');
  return version.substr(0, version.find('.', first == std::string::npos ? first : first + 1));
}

std::vector<Compared> ComparedVersions() {
  using F = const RuntimeFacts&;
  constexpr Severity kE = Severity::kError;
  constexpr Severity kW = Severity::kWarning;
  std::vector<Compared> all = {
      {"torch", kE, kW, [](F f) { return f.torch ? f.torch->version : ""; }, "torch"},
      {"NCCL", kE, Severity::kNotice, [](F f) { return f.torch ? f.torch->nccl.value_or("") : ""; },
       ""},
      {"Python", kW, kW, [](F f) { return MinorOf(f.python); }, ""}};
  for (const char* name : {"deepspeed", "accelerate", "transformers", "lightning"}) {
    const bool collective = std::string(name) == "deepspeed";
    all.push_back({name, collective ? kE : kW, kW, [name](F f) { return Package(f, name); }, name});
  }
  return all;
}

// The version that most nodes have; the first in order of two that are as frequent.
std::string MostFrequent(const std::map<std::string, std::vector<const NodeCase*>>& by_version) {
  const auto most = std::max_element(
      by_version.begin(), by_version.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return most->first;
}

std::string Names(const std::vector<const NodeCase*>& nodes) {
  std::string text;
  for (const NodeCase* c : nodes) text += (text.empty() ? "" : ",") + c->node.node.value;
  return text;
}

void AddDifference(const Compared& what, Severity severity,
                   const std::map<std::string, std::vector<const NodeCase*>>& by_version,
                   PreflightReport& report) {
  const std::string usual = MostFrequent(by_version);
  const std::vector<const NodeCase*>& rest = by_version.at(usual);
  std::string evidence;
  for (const auto& [version, nodes] : by_version) {
    evidence +=
        (evidence.empty() ? "" : "; ") + Names(nodes) + ": " + (version.empty() ? "none" : version);
  }
  for (const auto& [version, nodes] : by_version) {
    if (version == usual) continue;
    for (const NodeCase* c : nodes) {
      Finding finding = MakeFinding("version_skew", severity, c->node.node,
                                    c->node.node.value + " has " + what.name + " " +
                                        (version.empty() ? "(none)" : version) + ", " +
                                        Names(rest) + " has " + (usual.empty() ? "none" : usual));
      finding.evidence = evidence;
      if (!what.package.empty() && !usual.empty()) {
        const std::string command = InstallRelease(*c->runtime, what.package, usual);
        finding.remedy = "give every node the same environment: " + command;
        finding.fix = {command};
      } else {
        finding.remedy =
            "give every node the same environment: build it once and copy it, or put "
            "it on a directory that all nodes share";
      }
      Add(report, std::move(finding));
    }
  }
}

}  // namespace

void JudgeSkew(const std::vector<NodeCase>& nodes, PreflightReport& report) {
  std::vector<const NodeCase*> known;
  for (const NodeCase& c : nodes) {
    if (c.runtime != nullptr && !c.runtime->python.empty()) known.push_back(&c);
  }
  if (known.size() < 2) return;
  const bool gpus = known.front()->plan.device == DeviceClass::kCuda;
  const std::size_t before = report.findings.size();
  for (const Compared& what : ComparedVersions()) {
    std::map<std::string, std::vector<const NodeCase*>> by_version;
    for (const NodeCase* c : known) by_version[what.version(*c->runtime)].push_back(c);
    // NCCL is asked of an imported torch: a node that was not asked yet differs from nobody.
    if (what.name == "NCCL") by_version.erase("");
    if (by_version.size() < 2) continue;
    AddDifference(what, gpus ? what.on_gpus : what.on_cpus, by_version, report);
  }
  if (report.findings.size() > before) return;
  const RuntimeFacts& first = *known.front()->runtime;
  Pass(report, kSkewCheck, known.front()->node.node,
       std::to_string(known.size()) + " nodes have the same Python " + first.python +
           (first.torch ? " and torch " + first.torch->version : std::string()));
}

}  // namespace launch
