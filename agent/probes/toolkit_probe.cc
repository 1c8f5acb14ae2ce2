#include "agent/probes/toolkit_probe.h"

#include <filesystem>

#include "agent/probes/child_process.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr Millis kNvccDeadline{5'000};

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
  if (fs::exists(home / "include" / "cuda_runtime.h") || fs::exists(home / "nvvm"))
    return home.string();
  for (const std::string& other : {places.cuda_home, places.standard}) {
    const std::string candidate = FindProgram("nvcc", other + "/bin");
    if (!candidate.empty() && ReleaseOf(candidate, places.path) == release) return other;
  }
  return home.string();
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

std::vector<std::string> ProbeContainerRuntimes(const std::string& path) {
  std::vector<std::string> found;
  for (const char* name : {"apptainer", "docker", "enroot", "podman", "singularity"})
    if (!FindProgram(name, path).empty()) found.emplace_back(name);
  return found;
}

}  // namespace launch::agent
