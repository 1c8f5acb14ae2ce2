// What users write: job files, constraints, hostlists, run lines, files of other schedulers, the
// configuration of a model, rules of what not to copy; and the directories that they ship.
#include <algorithm>
#include <string>
#include <vector>

#include "cli/import/import.h"
#include "cli/job_reader.h"
#include "cli/snapshot/glob.h"
#include "cli/snapshot/ignore_rules.h"
#include "common/constraint.h"
#include "common/hostlist.h"
#include "common/snapshot.h"
#include "common/units.h"
#include "planner/line/deepspeed_config.h"
#include "planner/line/hjson.h"
#include "planner/line/launch_line.h"
#include "planner/line/shell_text.h"
#include "planner/model/hf_config.h"
#include "tests/fuzz/targets.h"

namespace launch::fuzz {

void FuzzJobFile(std::string_view bytes) {
  const auto job = ReadJobText(std::string(bytes), "job.yaml", "/proj");
  Require(job || !job.error().message.empty(), "a refusal says why");
}

// Parsed once, then judged over a node without an error of any kind.
void FuzzConstraint(std::string_view bytes) {
  (void)ParseDuration(bytes);
  (void)ParseBytes(bytes);
  const auto constraint = Constraint::Parse(bytes);
  if (!constraint) {
    Require(!constraint.error().message.empty(), "a refusal says why");
    return;
  }
  NodeInventory node;
  node.gpus.resize(2);
  node.gpus[0].memory_bytes = 80ULL << 30;
  node.labels["zone"] = "a";
  std::string failed;
  const bool holds = constraint->Holds(node, &failed);
  Require(holds || !failed.empty(), "what does not hold is named");
}

// What expands folds back to the same names, and nothing expands beyond its limit.
void FuzzHostlist(std::string_view bytes) {
  constexpr std::size_t kMost = 500;
  auto names = ExpandHostlist(bytes, kMost);
  if (!names) return;
  Require(names->size() <= kMost, "the limit holds");
  auto again = ExpandHostlist(FoldHostlist(*names), kMost);
  Require(again.has_value(), "what was folded can be expanded");
  for (auto* list : {&*names, &*again}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  Require(*names == *again, "folding keeps the names");
}

void FuzzHfConfig(std::string_view bytes) {
  const auto card = ReadHfConfig(bytes, "config.json");
  Require(card || !card.error().message.empty(), "a refusal says why");
}

// Hjson that is read becomes JSON of the same shape: read again, it stays as it is.
void FuzzDeepspeedConfig(std::string_view bytes) {
  for (const ConfigReader reader : {ConfigReader::kDeepspeed, ConfigReader::kJson}) {
    const auto config = ReadDeepspeedConfig(bytes, "ds.json", reader);
    Require(config || !config.error().message.empty(), "a refusal says why");
  }
  const auto json = JsonOfHjson(bytes);
  if (!json) return;
  const auto again = JsonOfHjson(*json);
  Require(again && *again == *json, "what was written is read back");
}

void FuzzRunLine(std::string_view bytes) {
  if (const auto script = ReadShell(bytes)) (void)VariablesUsed(*script);
  const auto line = ReadLaunchLine(bytes, LaunchLineOptions{});
  Require(line || !line.error().message.empty(), "a refusal says why");
}

// What an import writes, the reader of job files reads.
void FuzzImport(std::string_view bytes) {
  const auto imported = ImportText(bytes, "train.sh");
  if (!imported) {
    Require(!imported.error().message.empty(), "a refusal says why");
    return;
  }
  const auto job = ReadJobText(imported->yaml, "job.yaml", "/proj");
  Require(job || !job.error().message.empty(), "a refusal says why");
}

// The rules up to the first NUL, then a path.
void FuzzIgnoreRules(std::string_view bytes) {
  const std::size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string_view path = bytes.substr(std::min(end + 1, bytes.size()));
  IgnoreRules rules;
  rules.Add(bytes.substr(0, end), "");
  rules.Add(bytes.substr(0, end), "src/deep");
  (void)rules.Ignores(path, false);
  (void)rules.Ignores(path, true);
  (void)GlobMatches(bytes.substr(0, end), path);
}

// A manifest that is taken names nothing outside of its directory, and can be written again.
void FuzzSnapshot(std::string_view bytes) {
  (void)ParseRoot(bytes);
  const auto entries = ParseManifest(bytes);
  if (!entries) return;
  for (const SnapshotEntry& entry : *entries) {
    Require(!entry.path.empty() && entry.path[0] != '/', "a path is relative");
    const std::string slashed = "/" + entry.path + "/";
    Require(slashed.find("/../") == std::string::npos, "a path does not climb");
    Require(slashed.find("//") == std::string::npos, "a path has no empty part");
    Require(entry.size / kChunkBytes <= entry.chunks.size(), "a size has its chunks");
  }
  const auto again = ParseManifest(SerializeManifest(*entries));
  Require(again && *again == *entries, "what was read can be written");
}

}  // namespace launch::fuzz
