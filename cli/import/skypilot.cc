// A SkyPilot task.
#include <algorithm>
#include <cctype>

#include "cli/import/import.h"
#include "cli/import/processes.h"
#include "cli/job_fields.h"
#include "cli/job_reader.h"
#include "common/quoted.h"
#include "common/units.h"

namespace launch {
namespace {

using Kind = YamlNode::Kind;

// "A100", "A100:8" as NAME:N; absent for what no node gives: a part of a GPU, a TPU's topology.
std::optional<std::string> KindOfGpu(const std::string& kind) {
  const std::size_t colon = kind.find(':');
  const std::string name = kind.substr(0, colon);
  const auto count = colon == std::string::npos ? std::optional<std::int64_t>(1)
                                                : ParseInt(kind.substr(colon + 1));
  const bool plain = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (!plain || !count || *count < 1 || *count > 1024 || name.starts_with("tpu")) {
    return std::nullopt;
  }
  return name + ":" + std::to_string(*count);
}

// "A100:8", {A100: 8}, ["A100:8", "H100:8"] as our list of accepted kinds.
void Accelerators(const YamlNode& node, JobFileDraft& draft) {
  std::vector<std::string> kinds;
  if (node.kind == Kind::kScalar) kinds.push_back(node.scalar);
  for (const YamlNode& item : node.items)
    if (item.kind == Kind::kScalar) kinds.push_back(item.scalar);
  for (const auto& [name, count] : node.entries)
    kinds.push_back(name.scalar + (count.scalar.empty() ? "" : ":" + count.scalar));
  std::vector<std::string> ours;
  for (const std::string& kind : kinds) {
    if (auto one = KindOfGpu(kind))
      ours.push_back(std::move(*one));
    else
      draft.Note("resources.accelerators " + Quoted(kind) +
                 " is dropped: gpus takes NAME:N with a whole number");
  }
  std::string list;
  for (const std::string& one : ours) list += (list.empty() ? "" : ", ") + one;
  if (ours.size() == 1)
    draft.SetRaw("gpus", list);
  else if (!ours.empty())
    draft.SetRaw("gpus", "[" + list + "]");
}

// Without a value the caller gives it: `sky launch --env X`, and an empty value in a job file.
void Variables(const std::string& field, const YamlNode& node, JobFileDraft& draft) {
  for (const auto& [name, value] : node.entries) {
    const std::string& variable = name.scalar;
    const bool named =
        !variable.empty() && std::isdigit(static_cast<unsigned char>(variable[0])) == 0 &&
        std::ranges::all_of(variable,
                            [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    const bool asked = value.kind == Kind::kNull ||
                       (value.kind == Kind::kScalar && !value.quoted && value.scalar == "null");
    if (!named || (value.kind != Kind::kScalar && !asked)) {
      draft.Note(field + "." + Quoted(variable) +
                 " is dropped: " + (named ? "it holds no text" : "no variable can have that name"));
    } else if (asked) {
      draft.EnvOfCaller(variable);
    } else {
      draft.Env(variable, value.scalar);
    }
  }
}

void Resources(const YamlNode& node, JobFileDraft& draft) {
  for (const auto& [key, value] : node.entries) {
    const std::string& name = key.scalar;
    if (name == "accelerators") {
      Accelerators(value, draft);
    } else if (name == "cpus") {
      draft.Set("cpus", value.scalar);
    } else if (name == "memory") {
      // "64+", "64": GB. "8x": relative to the cores, which has no field here.
      const bool plus = value.scalar.ends_with("+");
      const std::string number = value.scalar.substr(0, value.scalar.size() - (plus ? 1 : 0));
      if (ParseDouble(number))
        draft.Set("memory", number + "GB" + (plus ? "+" : ""));
      else
        draft.Note("resources.memory " + value.scalar + " is dropped: write it as 64GB");
    } else if (name == "any_of" || name == "ordered") {
      draft.Note("resources." + name +
                 " is dropped: write the kinds of GPU you accept as gpus: [H100:8, A100:8]");
    } else {
      draft.Note("resources." + name + " is dropped: it chooses a machine of a cloud");
    }
  }
}

// The twins of SkyPilot's variables.
std::string Renamed(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"SKYPILOT_NODE_RANK", "NODE_RANK"},
      {"SKYPILOT_NODE_IPS", "LAUNCH_NODE_IPS"},
      {"SKYPILOT_NUM_NODES", "NNODES"},
      {"SKYPILOT_NUM_GPUS_PER_NODE", "NPROC_PER_NODE"},
      {"SKYPILOT_TASK_ID", "LAUNCH_JOB_ID"}};
  for (const auto& [from, to] : kNames) RenameVariable(text, from, to);
  return text;
}

constexpr std::string_view kShared[] = {"name", "workdir", "setup", "run", "secrets", "config"};
constexpr std::string_view kOnlySky[] = {"resources", "num_nodes",   "envs",
                                         "service",   "file_mounts", "storage_mounts"};

}  // namespace

bool IsSkyPilotTask(const YamlNode& root) {
  bool sky = false;
  for (const auto& [key, value] : root.entries) {
    const std::string& name = key.scalar;
    sky |= std::ranges::find(kOnlySky, name) != std::end(kOnlySky) ||
           value.scalar.find("SKYPILOT_") != std::string::npos;
    const bool theirs = std::ranges::find(kOnlySky, name) != std::end(kOnlySky) ||
                        std::ranges::find(kShared, name) != std::end(kShared);
    if (!theirs && (FindJobField(name) != nullptr || IsJobBlock(name))) return false;
  }
  return sky;
}

Result<Imported> ImportSkyPilot(const YamlNode& root, const std::string& path) {
  JobFileDraft draft;
  bool once_per_node = false;
  for (const auto& [key, value] : root.entries) {
    const std::string& name = key.scalar;
    if (name == "name") {
      const std::string ours = NameFrom(value.scalar);
      draft.Set("name", ours);
      if (ours != value.scalar) draft.Note("name " + Quoted(value.scalar) + " became " + ours);
    } else if (name == "num_nodes") {
      draft.Set("nodes", value.scalar);
    } else if (name == "resources") {
      Resources(value, draft);
    } else if (name == "envs" || name == "secrets") {
      Variables(name, value, draft);
      if (name == "secrets")
        draft.Note(
            "secrets became env: list their names under secrets: to keep them out of the "
            "stored job");
    } else if (name == "workdir") {
      if (value.kind == Kind::kScalar)
        draft.Set("workdir", value.scalar);
      else
        draft.Note("workdir from git is dropped: put it where every node sees it");
    } else if (name == "setup" || name == "run") {
      const std::string text = Renamed(value.scalar);
      if (text != value.scalar)
        draft.Note(name + ": SKYPILOT_ variables got the names that launch sets");
      if (text.find("SKYPILOT_") != std::string::npos)
        draft.Note(name + " still uses a SKYPILOT_ variable that launch has no twin for");
      if (!text.empty()) draft.Block(name, text);
      once_per_node = once_per_node || (name == "run" && CallsPythonAlone(text));
    } else {
      draft.Note("`" + name + "` is dropped: launch has nothing like it");
    }
  }
  if (!draft.Has("gpus")) {
    draft.Set("gpus", "0");
  } else if (once_per_node) {
    draft.Set("procs_per_node", "1");
    draft.Note("procs_per_node is 1: SkyPilot runs the task's Python once per node, not per GPU");
  }
  return std::move(draft).Finish("SkyPilot task", path);
}

}  // namespace launch
