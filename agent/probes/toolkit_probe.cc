#include "agent/probes/toolkit_probe.h"

#include <cstdlib>
#include <filesystem>

#include "agent/probes/child_process.h"
#include "agent/probes/small_files.h"
#include "common/file_system.h"
#include "common/text.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr Millis kNvccDeadline{5'000};
constexpr Millis kDaemonDeadline{5'000};
// Of the NVIDIA Container Toolkit: every version and distribution has it.
constexpr const char* kContainerToolkit = "nvidia-container-cli";

std::string ReleaseOf(const std::string& nvcc, const std::string& path) {
  if (nvcc.empty()) return {};
  const Result<Captured> said = RunProgram({nvcc, "--version"}, {{"PATH", path}}, kNvccDeadline);
  return said && said->status == 0 ? NvccRelease(said->output) : std::string{};
}

// Directory that holds bin/nvcc, links followed. A wrapper script somewhere on PATH is not in a
// toolkit: then the standard place, if it is of the same release.
std::string HomeOf(const std::string& nvcc, const std::string& release,
                   const ToolkitPlaces& places) {
  std::error_code ignored;
  const fs::path home = fs::canonical(nvcc, ignored).parent_path().parent_path();
  if (PathExists(home / "include" / "cuda_runtime.h") || PathExists(home / "nvvm"))
    return home.string();
  for (const std::string& other : {places.cuda_home, places.standard}) {
    const std::string candidate = FindProgram("nvcc", other + "/bin");
    if (!candidate.empty() && ReleaseOf(candidate, places.path) == release) return other;
  }
  return home.string();
}

// docker alone is a client: without a daemon that runs and lets us in, it starts nothing.
bool DaemonAnswers(const std::string& docker, const std::string& path) {
  std::map<std::string, std::string> env = {{"PATH", path}};
  for (const char* name : {"HOME", "DOCKER_HOST", "XDG_RUNTIME_DIR"}) {
    if (const char* value = std::getenv(name)) env[name] = value;
  }
  const Result<Captured> said =
      RunProgram({docker, "version", "--format", "{{.Server.Version}}"}, env, kDaemonDeadline);
  return said && said->status == 0;
}

}  // namespace

std::string NvccRelease(std::string_view text) {
  constexpr std::string_view kMark = "release ";
  const auto at = text.find(kMark);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + kMark.size());
  const std::string_view version = rest.substr(0, rest.find_first_not_of("0123456789."));
  return ParseVersionPair(version) ? std::string(version) : std::string{};
}

std::optional<Toolkit> ProbeToolkit(const ToolkitPlaces& places) {
  for (const std::string& nvcc :
       {FindProgram("nvcc", places.path), FindProgram("nvcc", places.cuda_home + "/bin"),
        FindProgram("nvcc", places.standard + "/bin")}) {
    const std::string release = ReleaseOf(nvcc, places.path);
    if (!release.empty()) return Toolkit{.nvcc = release, .home = HomeOf(nvcc, release, places)};
  }
  return std::nullopt;
}

std::optional<std::string> ProbeCudaRuntime(const RuntimePlaces& places) {
  std::vector<std::string> directories;
  for (const std::string& home : {places.cuda_home, places.standard})
    if (!home.empty()) directories.insert(directories.end(), {home + "/lib64", home + "/lib"});
  for (const std::string_view one : Split(places.library_path, ':')) directories.emplace_back(one);
  for (const std::string& name : ListNames(places.system_root))
    if (name.ends_with("-linux-gnu")) directories.push_back(places.system_root + "/" + name);
  constexpr std::string_view kName = "libcudart.so.";
  std::optional<std::string> newest;
  for (const std::string& directory : directories) {
    if (directory.empty()) continue;
    for (const std::string& name : ListNames(directory)) {
      if (!name.starts_with(kName)) continue;
      const std::string version = name.substr(kName.size());
      const auto parts = ParseVersionPair(version);
      const auto best = newest ? ParseVersionPair(*newest) : std::nullopt;
      const bool longer = best && parts == best && version.size() > newest->size();
      if (parts && (!best || *parts > *best || longer)) newest = version;
    }
  }
  return newest;
}

std::map<std::string, std::string> ProbeTools(const std::string& path) {
  std::map<std::string, std::string> tools;
  for (const char* name : {"c++", "ninja"}) {
    const std::string program = FindProgram(name, path);
    tools[name] = "";  // looked for in vain: not the same as not looked for
    if (program.empty()) continue;
    const Result<Captured> said =
        RunProgram({program, "--version"}, {{"PATH", path}}, kNvccDeadline);
    if (!said || said->status != 0) continue;
    // "c++ (Debian 12.2.0-14) 12.2.0": the last number of the first line.
    std::string version;
    const std::string line = said->output.substr(0, said->output.find('\n'));
    for (const std::string_view word : Split(line, ' '))
      if (ParseVersionPair(word)) version = word;
    tools[name] = version.empty() ? "unknown" : version;
  }
  const auto has = [&](const char* name) { return !FindProgram(name, path).empty(); };
  if (has("docker") || has("podman"))
    tools[kContainerToolkit] = has(kContainerToolkit) ? "there" : "";
  return tools;
}

std::vector<std::string> ProbeContainerRuntimes(const std::string& path) {
  std::vector<std::string> found;
  for (const char* name : {"apptainer", "docker", "enroot", "podman", "singularity"}) {
    const std::string program = FindProgram(name, path);
    if (program.empty()) continue;
    if (std::string_view(name) == "docker" && !DaemonAnswers(program, path)) continue;
    found.emplace_back(name);
  }
  return found;
}

}  // namespace launch::agent
