#include "agent/runner/container.h"

#include <algorithm>
#include <set>

namespace launch::agent {
namespace {

using Words = std::vector<std::string>;

// Ends everything in the container when its standard input ends: the client that held the other end
// was killed, which the daemon would not notice. What runs inside is no child of ours and in none
// of our cgroups, so all of it inherits a lock by which its end can be proved. Needs bash and cat
// in the image, and flock or python3.
constexpr const char* kGuard =
    "exec 9>>\"$1\"; shift; flock -s 9 2>/dev/null || python3 -c 'import fcntl; fcntl.flock(9, "
    "fcntl.LOCK_SH)' || { echo 'launch: this image has neither flock nor python3, so the end of "
    "what "
    "it runs could not be proved' >&2; exit 125; }; "
    "exec 3<&0 </dev/null; { cat <&3 >/dev/null; kill -KILL -1; } & exec 3<&-; exec \"$@\"";
// Holds that other end; only SIGKILL ends it, so that a stop leaves ranks their time.
constexpr const char* kHold =
    "exec \"$@\" < <(trap '' TERM INT HUP USR1 USR2; exec sleep infinity)";

// enroot starts files only: fetched once per node and image, by one rank, while the others wait.
constexpr const char* kEnrootFetch =
    "file=$1; uri=$2; shift 2\n"
    "if [ ! -e \"$file\" ]; then\n"
    "  mkdir -p \"${file%/*}\" && exec 9>\"$file.lock\" && flock 9 || exit 1\n"
    "  if [ ! -e \"$file\" ]; then\n"
    "    enroot import --output \"$file.part\" \"$uri\" >&2 && mv \"$file.part\" \"$file\" || exit "
    "1\n"
    "  fi\n"
    "  exec 9>&-\n"
    "fi\n"
    "exec enroot start \"$@\"";

std::string NameOf(const std::string& variable) { return variable.substr(0, variable.find('=')); }

// Those that the job means, not the node.
Words JobVariables(const ContainerInput& input) {
  const std::set<std::string> own(input.container.own_env.begin(), input.container.own_env.end());
  Words variables;
  for (const std::string& variable : input.env) {
    if (!own.contains(NameOf(variable))) variables.push_back(variable);
  }
  return variables;
}

// What is seen inside at the same path, then what the job mounts.
std::vector<Mount> AllMounts(const ContainerInput& input) {
  std::vector<Mount> mounts = {{input.workdir, input.workdir, false},
                               {input.attempt_dir, input.attempt_dir, false}};
  mounts.insert(mounts.end(), input.container.mounts.begin(), input.container.mounts.end());
  return mounts;
}

bool IsLocalImage(const std::string& image) {
  return image.starts_with('/') || image.starts_with("./") || image.ends_with(".sif") ||
         image.ends_with(".sqsh");
}

void Append(Words& to, const Words& more) { to.insert(to.end(), more.begin(), more.end()); }

// apptainer and its elder name. Its processes stay our children; /dev/shm is the host's.
Contained Apptainer(const ContainerInput& input) {
  const std::string& runtime = input.container.runtime;
  Contained contained{{runtime, "exec", "--cleanenv", "--pwd", input.workdir}, input.env};
  if (input.gpus) contained.argv.emplace_back("--nv");
  for (const Mount& mount : AllMounts(input)) {
    Append(contained.argv,
           {"--bind", mount.source + ":" + mount.target + (mount.read_only ? ":ro" : "")});
  }
  const std::string& image = input.container.image;
  const bool named = IsLocalImage(image) || image.find("://") != std::string::npos;
  contained.argv.push_back(named ? image : "docker://" + image);
  Append(contained.argv, input.argv);
  const std::string prefix = runtime == "singularity" ? "SINGULARITYENV_" : "APPTAINERENV_";
  for (const std::string& variable : JobVariables(input))
    contained.env.push_back(prefix + variable);
  return contained;
}

// "nvcr.io/nvidia/pytorch:25.08-py3" -> "docker://nvcr.io#nvidia/pytorch:25.08-py3".
std::string EnrootUri(const std::string& image) {
  if (image.find("://") != std::string::npos) return image;
  const std::size_t slash = image.find('/');
  const std::string first = image.substr(0, slash);
  const bool registry = slash != std::string::npos && (first.find('.') != std::string::npos ||
                                                       first.find(':') != std::string::npos);
  return registry ? "docker://" + first + "#" + image.substr(slash + 1) : "docker://" + image;
}

Contained Enroot(const ContainerInput& input) {
  const std::string& image = input.container.image;
  std::string file = image;
  if (!IsLocalImage(image)) {
    std::string name = image;
    for (char& c : name) {
      if (c == '/' || c == ':') c = '_';
    }
    // Beside the attempts, so that it is fetched once per node.
    file =
        input.attempt_dir.substr(0, input.attempt_dir.rfind('/')) + "/../images/" + name + ".sqsh";
  }
  Contained contained{{"/bin/bash", "-c", kEnrootFetch, "enroot", file, EnrootUri(image), "--rw"},
                      input.env};
  for (const Mount& mount : AllMounts(input)) {
    Append(contained.argv, {"--mount", mount.source + ":" + mount.target + ":x-create=auto,rbind" +
                                           (mount.read_only ? ",ro" : ",rw")});
  }
  for (const std::string& variable : JobVariables(input)) {
    Append(contained.argv, {"--env", NameOf(variable)});
  }
  if (input.gpus) contained.env.emplace_back("NVIDIA_VISIBLE_DEVICES=all");
  contained.argv.push_back(file);
  Append(contained.argv, {"/bin/bash", "-c", "cd \"$0\" && exec \"$@\"", input.workdir});
  Append(contained.argv, input.argv);
  return contained;
}

Contained DockerOrPodman(const ContainerInput& input) {
  const bool podman = input.container.runtime == "podman";
  Words run = {input.container.runtime, "run", "--rm", "--name", input.name, "--network", "host"};
  if (podman) {
    // The rank's own cgroup holds what runs inside, so that a stop reaches it.
    Append(run, {"--cgroups=disabled", "--userns=keep-id"});
    if (input.gpus) Append(run, {"--device", "nvidia.com/gpu=all"});
  } else {
    Append(run, {"--init", "--interactive", "--user",
                 std::to_string(input.uid) + ":" + std::to_string(input.gid)});
    if (input.gpus) Append(run, {"--gpus", "all"});
  }
  if (input.container.shm_bytes) {
    Append(run, {"--shm-size", std::to_string(*input.container.shm_bytes)});
  } else {
    Append(run, {"--ipc", "host"});
  }
  Append(run, {"--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--workdir", input.workdir});
  for (const Mount& mount : AllMounts(input)) {
    Append(run, {"--volume", mount.source + ":" + mount.target + (mount.read_only ? ":ro" : "")});
  }
  const Words variables = JobVariables(input);
  const bool has_home = std::ranges::any_of(
      variables, [](const std::string& variable) { return variable.starts_with("HOME="); });
  // An account that the image does not know has no home there.
  if (!has_home) Append(run, {"--env", "HOME=/tmp"});
  for (const std::string& variable : variables) Append(run, {"--env", NameOf(variable)});
  Append(run, {"--entrypoint", "", input.container.image});
  if (podman) {
    Append(run, input.argv);
    return {run, input.env};
  }
  Append(run, {"/bin/bash", "-c", kGuard, "guard", input.lock});
  Append(run, input.argv);
  Words held = {"/bin/bash", "-c", kHold, "hold"};
  Append(held, run);
  return {held, input.env};
}

}  // namespace

std::string ContainerName(const Key& key, Rank rank) {
  return "launch-" + ToString(key) + "-" + (rank < 0 ? "setup" : std::to_string(rank));
}

Result<Contained> ContainerCommand(const ContainerInput& input) {
  const std::string& runtime = input.container.runtime;
  if (runtime == "apptainer" || runtime == "singularity") return Apptainer(input);
  if (runtime == "enroot") return Enroot(input);
  if (runtime == "podman" || runtime == "docker") return DockerOrPodman(input);
  return Fail(ErrorCode::kInvalidArgument,
              "this node has no container runtime for image " + input.container.image,
              "install apptainer, docker or enroot here, or keep the job off this node");
}

}  // namespace launch::agent
