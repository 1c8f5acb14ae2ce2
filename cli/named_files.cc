#include "cli/named_files.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/line/accelerate_flags.h"
#include "planner/line/called_script.h"
#include "planner/line/launch_line.h"
#include "planner/line/launcher_words.h"
#include "planner/line/shell_text.h"
#include "planner/line/shell_values.h"
#include "planner/line/written_counts.h"
#include "planner/planner.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

Result<std::string> ReadBounded(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return Fail(ErrorCode::kNotFound, path.string() + " is not a file", "");
  }
  const std::uintmax_t size = fs::file_size(path, error);
  if (error || size > kMaxContextFileBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                path.string() + " is larger than " + std::to_string(kMaxContextFileBytes / 1024) +
                    " KiB: no configuration file of a trainer is",
                "name the configuration, not the weights");
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  if (in.bad() || in.gcount() < 0) {
    return Fail(ErrorCode::kInvalidArgument, path.string() + " cannot be read",
                "check its permissions");
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

// HF_HOME as the launcher of the text will see it: of `env:`, or as the text sets it; otherwise the
// caller's, whose line it is. Empty: nobody sets it; absent: to what is not known here.
std::optional<std::string> HfHomeOf(const JobSpec& spec, const ShellScript& script) {
  KnownVariables known;
  for (const char* name : {"HOME", "HF_HOME"}) {
    if (const char* const value = std::getenv(name); value != nullptr) known[name] = value;
  }
  bool assigned = false;
  const auto take = [&](const ShellScript& text) {
    for (const ShellCommand& command : text.commands) {
      for (const ShellWord& word : command.words) {
        const auto set = AssignmentOf(word);
        if (!set && word.value != "export") break;
        if (!set) continue;
        TakeAssignment(word, known);
        assigned = assigned || set->name == "HF_HOME";
      }
    }
  };
  for (const EnvEntry& entry : spec.env) {
    const bool plain = entry.value && entry.value->find_first_of("\"\\`") == std::string::npos;
    if (!plain) continue;
    if (const auto text = ReadShell(entry.name + "=\"" + *entry.value + "\"")) take(*text);
  }
  take(script);
  std::string found = known["HF_HOME"];
  if (assigned && found.empty()) return std::nullopt;
  if (found.starts_with("~/")) found = known["HOME"] + found.substr(1);
  return found;
}

// A launcher's own default, read like a file that the line names.
void AddDefaultFile(const JobSpec& spec, std::map<std::string, std::string>& files) {
  if (files.size() >= kMaxContextFiles) return;
  const auto script = ReadShell(spec.run);
  if (!script || FindLauncher(*script) != "accelerate launch") return;
  const char* const home = std::getenv("HOME");
  const std::optional<std::string> hf_home = HfHomeOf(spec, *script);
  if (!hf_home || (home == nullptr && hf_home->empty())) return;
  const fs::path cache =
      hf_home->empty() ? fs::path(home) / ".cache/huggingface" : fs::path(*hf_home);
  for (const char* name : {"default_config.yaml", "default_config.yml", "default_config.json"}) {
    auto text = ReadBounded(cache / "accelerate" / name);
    if (!text) continue;
    files[std::string(kAccelerateDefaultFile)] = std::move(*text);
    return;
  }
}

// accelerate's file may name DeepSpeed's.
std::string DeepspeedFileIn(const std::string& text) {
  const auto settings = ReadAccelerateConfig(text, "accelerate.yaml");
  return settings ? settings->Value("deepspeed_config_file") : std::string();
}

// What the text of `run`, and scripts within scripts, name where they are by then; by the word that
// names it. Each round may show more.
Result<void> AddFilesOfTexts(const JobSpec& spec, std::map<std::string, std::string>& files) {
  constexpr int kMostRounds = 8;
  const auto script = ReadShell(spec.run);
  if (!script) return {};  // refused elsewhere, with its line and column
  for (int round = 0; round < kMostRounds; ++round) {
    const std::size_t before = files.size();
    const WrittenCounts counts = CountsIn(*script, LineOptions(spec, files));
    // Where there are too many, numbers stand in configurations rather than in scripts.
    for (const ShellWalk::Kind kind :
         {ShellWalk::Kind::kConfig, ShellWalk::Kind::kScript, ShellWalk::Kind::kProgram}) {
      for (const auto& [named, wanted] : counts.wanted) {
        if (wanted.kind != kind) continue;
        if (files.size() >= kMaxContextFiles) return {};
        auto text = ReadBounded(wanted.path);
        const bool config = kind == ShellWalk::Kind::kConfig;
        if (text && (kind != ShellWalk::Kind::kProgram || IsShellScript(*text))) {
          files[named] = std::move(*text);
        } else if (!text && text.error().code != ErrorCode::kNotFound && config) {
          return Unexpected(std::move(text).error());
        }
      }
    }
    if (files.size() == before) break;
  }
  return {};
}

// Those of Python programs, by whose habits they are started, and then of modules that they name.
void AddPythonTexts(const JobSpec& spec, std::map<std::string, std::string>& files) {
  constexpr int kRounds = 2;
  const auto script = ReadShell(spec.run);
  if (!script) return;
  for (int round = 0; round < kRounds; ++round) {
    const WrittenCounts counts = CountsIn(*script, LineOptions(spec, files));
    for (const auto& [named, wanted] : counts.wanted) {
      if (files.size() >= kMaxContextFiles) return;
      if (wanted.kind != ShellWalk::Kind::kPython) continue;
      if (auto text = ReadBounded(wanted.path)) files[named] = std::move(*text);
    }
  }
}

// The Python script that the ranks run, by whose habits it is started; empty where the line names
// none that is known here.
std::string TrainingScriptOf(const JobSpec& spec, const std::map<std::string, std::string>& files) {
  const auto line = ReadLineOf(spec, files);
  if (!line || !line->script.ends_with(".py")) return {};
  return line->place.NameOf(line->script);
}

fs::path From(const std::string& workdir, const std::string& written) {
  const fs::path path(written);
  return path.is_absolute() ? path : fs::path(workdir) / path;
}

}  // namespace

Result<std::map<std::string, std::string>> ReadNamedFiles(const JobSpec& spec) {
  std::map<std::string, std::string> files;
  const auto config = spec.model.fields.find("config");
  if (config != spec.model.fields.end() && !config->second.empty()) {
    fs::path path = From(spec.workdir, config->second);
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) path /= "config.json";
    auto text = ReadBounded(path);
    if (!text && text.error().code == ErrorCode::kNotFound) {
      return Fail(ErrorCode::kInvalidArgument, "model.config: " + text.error().message,
                  "write the path of a model's config.json, or of the directory that holds it");
    }
    if (!text) return Unexpected(text.error());
    files[config->second] = std::move(*text);
  }
  LAUNCH_RETURN_IF_ERROR(AddFilesOfTexts(spec, files));
  AddDefaultFile(spec, files);
  std::vector<std::string> named;
  for (const auto& [name, text] : files) {
    if (name.ends_with(".yaml") || name.ends_with(".yml")) named.push_back(DeepspeedFileIn(text));
  }
  for (std::size_t i = 0; i < named.size(); ++i) {
    const std::string written = named[i];
    if (written.empty()) continue;
    if (files.size() == kMaxContextFiles) break;
    if (files.count(written) > 0) continue;
    auto text = ReadBounded(From(spec.workdir, written));
    if (text) {
      if (written.ends_with(".yaml") || written.ends_with(".yml")) {
        named.push_back(DeepspeedFileIn(*text));
      }
      files[written] = std::move(*text);
    } else if (text.error().code != ErrorCode::kNotFound) {
      return Unexpected(text.error());
    }
  }
  const std::string script = TrainingScriptOf(spec, files);
  if (!script.empty() && files.size() < kMaxContextFiles && files.count(script) == 0) {
    if (auto text = ReadBounded(From(spec.workdir, script))) files[script] = std::move(*text);
  }
  AddPythonTexts(spec, files);
  return files;
}

}  // namespace launch
