#include "agent/runner/container.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "agent/runner/rank_env.h"
#include "agent/runner/small_files.h"

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

constexpr const char* kInfiniband = "/dev/infiniband";
// apptainer refuses to be told HOME by the variable that it has for all others.
constexpr const char* kHomeInside = "LAUNCH_CONTAINER_HOME";
constexpr const char* kSetHome =
    "export HOME=\"$LAUNCH_CONTAINER_HOME\"; unset LAUNCH_CONTAINER_HOME; exec \"$@\"";

// enroot starts files only: fetched once per node and image, by one rank, while the others wait.
// What an import that was killed left is removed first, under the lock, for enroot writes over no
// file.
// The image's own command script would put its entrypoint in front of ours.
constexpr const char* kEnrootFetch =
    "file=$1; uri=$2; rc=$3; shift 3\n"
    "printf '%s\\n' 'exec \"$@\"' >\"$rc.$$\" && mv -f \"$rc.$$\" \"$rc\" || exit 1\n"
    "if [ ! -e \"$file\" ]; then\n"
    "  mkdir -p \"${file%/*}\" && exec 9>\"$file.lock\" && flock 9 || exit 1\n"
    "  if [ ! -e \"$file\" ]; then\n"
    "    rm -f \"$file.part\"\n"
    "    enroot import --output \"$file.part\" \"$uri\" >&2 && mv \"$file.part\" \"$file\" || exit "
    "1\n"
    "  fi\n"
    "  exec 9>&-\n"
    "fi\n"
    "exec enroot start --rc \"$rc\" \"$@\"";

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
  if (IsLocalImage(image)) contained.file = image;
  const bool named = IsLocalImage(image) || image.find("://") != std::string::npos;
  contained.argv.push_back(named ? image : "docker://" + image);
  const bool elder = runtime == "singularity";
  const std::string prefix = elder ? "SINGULARITYENV_" : "APPTAINERENV_";
  // A shell would expand `$` and backquotes in the values (--no-eval, sylabs/singularity#704); as a
  // variable, because releases before it refuse the flag.
  contained.env.emplace_back(elder ? "SINGULARITY_NO_EVAL=1" : "APPTAINER_NO_EVAL=1");
  for (const std::string& variable : JobVariables(input)) {
    if (NameOf(variable) != "HOME") {
      contained.env.push_back(prefix + variable);
      continue;
    }
    contained.env.push_back(prefix + kHomeInside + variable.substr(variable.find('=')));
    Append(contained.argv, {"/bin/bash", "-c", kSetHome, "home"});
  }
  Append(contained.argv, input.argv);
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
    const std::string beside =
        input.attempt_dir.substr(0, input.attempt_dir.rfind('/')) + "/../images";
    file = (input.images_dir.empty() ? beside : input.images_dir) + "/" + name + ".sqsh";
  }
  Contained contained{
      {"/bin/bash", "-c", kEnrootFetch, "enroot", file, EnrootUri(image),
       (input.own_dir.empty() ? input.attempt_dir : input.own_dir) + "/enroot.rc", "--rw"},
      input.env,
      file};
  for (const Mount& mount : AllMounts(input)) {
    Append(contained.argv, {"--mount", mount.source + ":" + mount.target + ":x-create=auto,rbind" +
                                           (mount.read_only ? ",ro" : ",rw")});
  }
  for (const std::string& variable : JobVariables(input)) {
    Append(contained.argv, {"--env", NameOf(variable)});
  }
  if (input.gpus) {
    contained.env.emplace_back("NVIDIA_VISIBLE_DEVICES=all");
    // Its hook gives images that name none nvidia-smi only, and no libcuda.
    const char* capabilities = "NVIDIA_DRIVER_CAPABILITIES";
    if (ValueOf(contained.env, capabilities).empty())
      contained.env.push_back(std::string(capabilities) + "=compute,utility,video");
  }
  contained.argv.push_back(file);
  Append(contained.argv, {"/bin/bash", "-c", "cd \"$0\" && exec \"$@\"", input.workdir});
  Append(contained.argv, input.argv);
  return contained;
}

// Who ranks are inside. Podman knows keep-id and keep-groups without root only.
Words AccountWords(const ContainerHost& host, bool rootless) {
  if (rootless) {
    Words words = {"--userns=keep-id"};
    if (!host.groups.empty()) Append(words, {"--group-add", "keep-groups"});
    return words;
  }
  Words words = {"--user", std::to_string(host.uid) + ":" + std::to_string(host.gid)};
  for (const std::uint32_t group : host.groups)
    Append(words, {"--group-add", std::to_string(group)});
  return words;
}

Contained DockerOrPodman(const ContainerInput& input) {
  const bool podman = input.container.runtime == "podman";
  const bool rootless = podman && input.host.uid != 0;
  Words run = {input.container.runtime, "run", "--rm", "--name", input.name, "--network", "host"};
  if (podman) {
    // The rank's own cgroup holds what runs inside, so that a stop reaches it.
    run.emplace_back("--cgroups=disabled");
    if (input.gpus) Append(run, {"--device", "nvidia.com/gpu=all"});
  } else {
    Append(run, {"--init", "--interactive"});
    if (input.gpus) Append(run, {"--gpus", "all"});
  }
  Append(run, AccountWords(input.host, rootless));
  if (input.gpus && input.host.infiniband) Append(run, {"--device", kInfiniband});
  if (input.container.shm_bytes) {
    Append(run, {"--shm-size", std::to_string(*input.container.shm_bytes)});
  } else {
    Append(run, {"--ipc", "host"});
  }
  // RDMA registers memory by locking it. Without root no limit can be raised, and the rank's own is
  // inherited, which is as high as it may be.
  if (!rootless) Append(run, {"--ulimit", "memlock=-1"});
  Append(run, {"--ulimit", "stack=67108864", "--workdir", input.workdir});
  for (const Mount& mount : AllMounts(input)) {
    Append(run, {"--volume", mount.source + ":" + mount.target + (mount.read_only ? ":ro" : "")});
  }
  const Words variables = JobVariables(input);
  // An account that the image does not know has no home there.
  if (ValueOf(variables, "HOME").empty()) Append(run, {"--env", "HOME=/tmp"});
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

ContainerHost HostFor(const std::optional<LocalAccount>& account) {
  ContainerHost host{.uid = ::getuid(), .gid = ::getgid()};
  host.infiniband = Exists(kInfiniband);
  if (account) {
    host.uid = account->uid;
    host.gid = account->gid;
    host.groups = account->groups;
    std::erase(host.groups, host.gid);
    return host;
  }
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  for (int i = 0; i < count; ++i) {
    const gid_t group = groups[static_cast<std::size_t>(i)];
    if (group != host.gid) host.groups.push_back(group);
  }
  return host;
}

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

bool HasDaemon(const ContainerSpec& container) {
  return container.runtime == "docker" || container.runtime == "podman";
}

std::vector<std::string> ExecInDaemon(const ContainerSpec& container, const std::string& name,
                                      const std::vector<std::string>& argv, bool terminal) {
  Words run = {container.runtime, "exec", "--interactive"};
  if (terminal) Append(run, {"--tty", "--env", "TERM", "--env", "PS1"});
  run.push_back(name);
  Append(run, argv);
  return run;
}

}  // namespace launch::agent
