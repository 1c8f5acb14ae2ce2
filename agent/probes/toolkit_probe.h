// The CUDA toolkit and the container runtimes that a job on this node would find.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/inventory.h"

namespace launch::agent {

struct ToolkitPlaces {
  std::string path;       // PATH of the ranks
  std::string cuda_home;  // CUDA_HOME of the agent; may be empty
  std::string standard = "/usr/local/cuda";
};

// nvcc on PATH, else of CUDA_HOME, else in the standard place; version as nvcc itself says. One
// that does not answer in five seconds or says no version is no toolkit.
std::optional<Toolkit> ProbeToolkit(const ToolkitPlaces& places);

// "…release 12.8, V12.8.61…" -> "12.8"; empty when the text is not nvcc's.
std::string NvccRelease(std::string_view text);

// Newest libcudart.so.X.Y.Z of the toolkit at `cuda_home` or `standard`, of the directories in
// `library_path` and of the system's library directory for this processor: "12.8.57". Names are
// read, nothing is run. Absent is normal: wheels of frameworks bring their own.
struct RuntimePlaces {
  std::string cuda_home;
  std::string standard = "/usr/local/cuda";
  std::string library_path;              // LD_LIBRARY_PATH of the ranks
  std::string system_root = "/usr/lib";  // its direct subdirectories are looked at too
};
std::optional<std::string> ProbeCudaRuntime(const RuntimePlaces& places);

// Versions of the programs on `path` that builds of operators need: "c++", "ninja". One that does
// not answer in five seconds counts as absent. With docker or podman also "nvidia-container-cli":
// "there", or empty.
std::map<std::string, std::string> ProbeTools(const std::string& path);

// Of apptainer, docker, enroot, podman, singularity: those found on `path`, in this order. docker
// only where its daemon answers us within five seconds.
std::vector<std::string> ProbeContainerRuntimes(const std::string& path);

}  // namespace launch::agent
