#include "cli/named_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/script_flags.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kFileFlags = {"deepspeed", "deepspeed_config",
                                                        "ds_config", "config_file", "fsdp_config"};

std::vector<std::string> FilesOfRun(const std::string& run) {
  std::vector<std::string> files;
  const auto script = ReadShell(run);
  if (!script) return files;  // refused elsewhere, with its line and column
  for (const ShellCommand& command : script->commands) {
    for (const ScriptFlag& flag : ReadScriptFlags(command.words)) {
      const bool file =
          std::find(kFileFlags.begin(), kFileFlags.end(), flag.name) != kFileFlags.end();
      if (file && flag.value) files.push_back(*flag.value);
    }
  }
  return files;
}

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
  for (const std::string& written : FilesOfRun(spec.run)) {
    if (files.size() == kMaxContextFiles) break;
    if (files.count(written) > 0) continue;
    auto text = ReadBounded(From(spec.workdir, written));
    if (text)
      files[written] = std::move(*text);
    else if (text.error().code != ErrorCode::kNotFound)
      return Unexpected(text.error());
  }
  return files;
}

}  // namespace launch
