#include "cli/import/import.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "cli/job_reader.h"
#include "common/quoted.h"
#include "common/text.h"

namespace launch {
namespace {

// Fields of a job file in the order in which people look for them.
constexpr const char* kOrder[] = {
    "name",     "nodes",   "gpus",       "total_gpus", "gpu_ids",       "procs_per_node",
    "device",   "cpus",    "memory",     "nodelist",   "exclude_nodes", "constraints",
    "strategy", "offload", "precision",  "batch",      "time",          "begin",
    "priority", "array",   "depends_on", "retry",      "checkpoint",    "workdir",
    "conda",    "venv",    "image",      "mounts",     "env",           "setup",
    "launcher", "run"};

// Words that other YAML readers turn into something else, and texts that are no plain scalar.
std::string Scalar(const std::string& value) {
  const bool plain =
      !value.empty() && value != "true" && value != "false" && value != "null" && value != "yes" &&
      value != "no" && value != "on" && value != "off" && value.front() != '-' &&
      value.front() != ' ' && value.back() != ' ' &&
      std::all_of(value.begin(), value.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 ||
               std::string_view(" ._/+-@~").find(static_cast<char>(c)) != std::string_view::npos;
      });
  return plain ? value : Quoted(value);
}

Unexpected NotSupported(const std::string& format, const std::string& path) {
  return Fail(ErrorCode::kUnimplemented,
              path + " is a file of " + format + ", which launch does not import",
              "launch init -- LINE makes a job file from its training line");
}

}  // namespace

void RenameVariable(std::string& text, std::string_view from, std::string_view to) {
  const auto of_name = [&](std::size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (std::size_t at = text.find(from); at != std::string::npos;) {
    const bool whole = (at == 0 || !of_name(at - 1)) && !of_name(at + from.size());
    if (whole) text.replace(at, from.size(), to);
    at = text.find(from, at + (whole ? to.size() : from.size()));
  }
}

void JobFileDraft::SetRaw(std::string_view field, std::string yaml) {
  for (auto& [name, value] : fields_) {
    if (name != field) continue;
    value = std::move(yaml);
    return;
  }
  fields_.emplace_back(field, std::move(yaml));
}

void JobFileDraft::Set(std::string_view field, std::string value) { SetRaw(field, Scalar(value)); }

void JobFileDraft::Env(const std::string& name, const std::string& value) {
  env_.emplace_back(name, value);
}

void JobFileDraft::EnvOfCaller(const std::string& name) { env_.emplace_back(name, std::nullopt); }

void JobFileDraft::Block(std::string_view field, const std::string& text) {
  std::string block = "|2\n";  // the first line may be indented
  for (const std::string_view line : Split(text, '\n')) {
    if (!line.empty()) block += "  " + std::string(line);
    block += "\n";
  }
  block.pop_back();
  SetRaw(field, block);
}

bool JobFileDraft::Has(std::string_view field) const {
  return std::any_of(fields_.begin(), fields_.end(),
                     [&](const auto& one) { return one.first == field; });
}

Imported JobFileDraft::Finish(std::string from, const std::string& path) && {
  if (!Has("name")) Set("name", NameFrom(std::filesystem::path(path).stem().string()));
  if (!env_.empty()) {
    std::string block;
    for (const auto& [name, value] : env_)
      block += "\n  " + name + ":" + (value ? " " + Scalar(*value) : "");
    SetRaw("env", block);
  }
  Imported out{std::move(from), "# from " + path + "\n", std::move(notes_)};
  for (const char* field : kOrder) {
    for (const auto& [name, value] : fields_) {
      if (name != field) continue;
      out.yaml += name + ":" + (value.starts_with("\n") ? "" : " ") + value + "\n";
    }
  }
  if (!Has("run")) {
    out.yaml += "run: \"\"   # the training command\n";
    out.notes.push_back("the file holds no training command: write it into run");
  }
  return out;
}

Result<Imported> ImportText(std::string_view text, const std::string& path) {
  if (IsSlurmScript(text)) return ImportSlurm(text, path);
  if (text.find("#PBS ") != std::string_view::npos) return NotSupported("PBS", path);
  if (text.find("#BSUB ") != std::string_view::npos) return NotSupported("LSF", path);
  if (IsHostfile(text)) return ImportHostfile(text, path);
  Result<YamlNode> root = ParseYaml(text, path);
  if (root && root->kind == YamlNode::Kind::kMap) {
    const auto has = [&](std::string_view key) { return root->Find(key) != nullptr; };
    if (has("apiVersion") && has("kind")) return NotSupported("Kubernetes", path);
    if (has("searcher") || (has("entrypoint") && has("resources")))
      return NotSupported("Determined", path);
    if (has("type") && (has("commands") || has("ide"))) return NotSupported("dstack", path);
    if (has("distributed_type") || has("compute_environment")) return ImportAccelerate(*root, path);
    if (IsSkyPilotTask(*root)) return ImportSkyPilot(*root, path);
    if (has("run"))
      return Fail(ErrorCode::kInvalidArgument, path + " is a job file of launch already",
                  "launch plan " + path + " shows how it would run");
  }
  const bool yaml = path.ends_with(".yaml") || path.ends_with(".yml");
  if (!root && yaml) return Unexpected(root.error());
  return Fail(
      ErrorCode::kInvalidArgument, path + " is none of the files that launch imports",
      "sbatch scripts, hostfiles (HOST, HOST:N, HOST slots=N), accelerate and SkyPilot files");
}

}  // namespace launch
