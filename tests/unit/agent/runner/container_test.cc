// The command lines for container runtimes, which are not installed where tests run.
#include "agent/runner/container.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/quoted.h"

namespace launch::agent {
namespace {

ContainerInput Input(const std::string& runtime) {
  return {.container = {.runtime = runtime,
                        .image = "nvcr.io/nvidia/pytorch:25.08-py3",
                        .mounts = {{"/data", "/mnt/data", true}},
                        .shm_bytes = std::nullopt,
                        .own_env = {"HOME", "LD_LIBRARY_PATH", "PATH"}},
          .name = "launch-7.1-0",
          .workdir = "/home/ana/code",
          .attempt_dir = "/var/lib/launch/allocations/7.1",
          .lock = "/var/lib/launch/allocations/7.1/container",
          .gpus = true,
          .host = {.uid = 1000, .gid = 1001, .groups = {}, .infiniband = false},
          .argv = {"/bin/bash", "--norc", "-c", "exec \"$0\" train.py", "python3"},
          .env = {"CUDA_VISIBLE_DEVICES=0,1", "HOME=/home/ana", "PATH=/usr/bin", "RANK=0",
                  "TOKEN=secret"}};
}

std::string Text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

bool Has(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// What `words` print when they are run with `setting` before them.
std::string Output(const std::string& setting, const std::vector<std::string>& words) {
  std::string line = setting;
  for (const std::string& word : words) line += " " + ShellQuote(word);
  FILE* pipe = ::popen(line.c_str(), "r");
  std::string text;
  for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  EXPECT_EQ(pipe == nullptr ? -1 : ::pclose(pipe), 0) << line;
  return text;
}

constexpr const char* kCommand = "/bin/bash --norc -c exec \"$0\" train.py python3";

TEST(Container, Apptainer) {
  const auto contained = ContainerCommand(Input("apptainer"));
  ASSERT_TRUE(contained);
  EXPECT_EQ(Text(contained->argv),
            "apptainer exec --cleanenv --pwd /home/ana/code --nv "
            "--bind /home/ana/code:/home/ana/code "
            "--bind /var/lib/launch/allocations/7.1:/var/lib/launch/allocations/7.1 "
            "--bind /data:/mnt/data:ro docker://nvcr.io/nvidia/pytorch:25.08-py3 " +
                std::string(kCommand));
  EXPECT_TRUE(Has(contained->env, "APPTAINER_NO_EVAL=1")) << "values are no shell text";
  for (const char* passed : {"APPTAINERENV_CUDA_VISIBLE_DEVICES=0,1", "APPTAINERENV_RANK=0",
                             "APPTAINERENV_TOKEN=secret", "PATH=/usr/bin"}) {
    EXPECT_TRUE(Has(contained->env, passed)) << passed;
  }
  EXPECT_FALSE(Has(contained->env, "APPTAINERENV_PATH=/usr/bin")) << "the image has its own";
}

TEST(Container, SingularityAndAnImageFile) {
  ContainerInput input = Input("singularity");
  input.container.image = "/images/train.sif";
  input.gpus = false;
  const auto contained = ContainerCommand(input);
  ASSERT_TRUE(contained);
  EXPECT_EQ(contained->argv[0], "singularity");
  EXPECT_TRUE(Has(contained->argv, "/images/train.sif"));
  EXPECT_FALSE(Has(contained->argv, "--nv"));
  EXPECT_TRUE(Has(contained->env, "SINGULARITYENV_RANK=0"));
}

TEST(Container, Docker) {
  const auto contained = ContainerCommand(Input("docker"));
  ASSERT_TRUE(contained);
  const std::string text = Text(contained->argv);
  EXPECT_NE(text.find("hold docker run --rm --name launch-7.1-0 --network host --init "
                      "--interactive --gpus all --user 1000:1001 --ipc host "
                      "--ulimit memlock=-1 --ulimit stack=67108864 --workdir /home/ana/code "
                      "--volume /home/ana/code:/home/ana/code "
                      "--volume /var/lib/launch/allocations/7.1:/var/lib/launch/allocations/7.1 "
                      "--volume /data:/mnt/data:ro --env HOME=/tmp --env CUDA_VISIBLE_DEVICES "
                      "--env RANK --env TOKEN --entrypoint  nvcr.io/nvidia/pytorch:25.08-py3 "
                      "/bin/bash -c "),
            std::string::npos)
      << text;
  EXPECT_TRUE(
      text.ends_with("guard /var/lib/launch/allocations/7.1/container " + std::string(kCommand)));
  EXPECT_EQ(text.find("secret"), std::string::npos) << "values are no part of a command line";
  EXPECT_EQ(contained->env, Input("docker").env);
}

TEST(Container, DockerWithAShmSizeAndWithoutGpus) {
  ContainerInput input = Input("docker");
  input.container.shm_bytes = 1u << 30;
  input.gpus = false;
  const auto contained = ContainerCommand(input);
  ASSERT_TRUE(contained);
  const std::string text = Text(contained->argv);
  EXPECT_NE(text.find("--shm-size 1073741824"), std::string::npos) << text;
  EXPECT_EQ(text.find("--ipc"), std::string::npos) << "the two exclude each other";
  EXPECT_EQ(text.find("--gpus"), std::string::npos);
}

TEST(Container, PodmanStaysInTheCgroupOfTheRank) {
  const auto contained = ContainerCommand(Input("podman"));
  ASSERT_TRUE(contained);
  const std::string text = Text(contained->argv);
  EXPECT_TRUE(
      text.starts_with("podman run --rm --name launch-7.1-0 --network host "
                       "--cgroups=disabled --device nvidia.com/gpu=all --userns=keep-id --ipc host "
                       "--ulimit stack=67108864 --workdir"))
      << text;
  EXPECT_TRUE(text.ends_with("nvcr.io/nvidia/pytorch:25.08-py3 " + std::string(kCommand)));
}

TEST(Container, PodmanOfRootMayDoWhatTheOthersMayNot) {
  ContainerInput input = Input("podman");
  EXPECT_FALSE(Has(ContainerCommand(input)->argv, "memlock=-1")) << "only root raises a limit";
  input.host = {.uid = 0, .gid = 0, .groups = {}, .infiniband = false};
  const auto contained = ContainerCommand(input);
  ASSERT_TRUE(contained);
  const std::string text = Text(contained->argv);
  EXPECT_NE(text.find("--user 0:0 "), std::string::npos) << text;
  EXPECT_NE(text.find("--ulimit memlock=-1 "), std::string::npos) << text;
  EXPECT_EQ(text.find("keep-id"), std::string::npos) << "podman refuses it to root";
}

TEST(Container, GroupsAndRdmaDevicesComeAlong) {
  ContainerInput input = Input("docker");
  input.host.groups = {27, 3001};
  input.host.infiniband = true;
  EXPECT_NE(Text(ContainerCommand(input)->argv)
                .find("--user 1000:1001 --group-add 27 --group-add 3001 --device /dev/infiniband "),
            std::string::npos);
  input.container.runtime = "podman";
  const std::string podman = Text(ContainerCommand(input)->argv);
  EXPECT_NE(podman.find("--userns=keep-id --group-add keep-groups --device /dev/infiniband "),
            std::string::npos)
      << podman;
  input.gpus = false;
  EXPECT_FALSE(Has(ContainerCommand(input)->argv, "/dev/infiniband"));
}

TEST(Container, ThisHostIsThatOfTheProcess) {
  const ContainerHost host = HostFor(std::nullopt);
  EXPECT_EQ(host.uid, ::getuid());
  EXPECT_EQ(host.gid, ::getgid());
  EXPECT_EQ(std::ranges::count(host.groups, host.gid), 0) << "it is no supplementary one";
  EXPECT_EQ(host.infiniband, std::filesystem::exists("/dev/infiniband"));
}

// What apptainer says of APPTAINERENV_HOME: "Overriding HOME ... is not permitted".
TEST(Container, ApptainerIsToldHomeInsideOfTheImage) {
  ContainerInput input = Input("apptainer");
  input.container.own_env = {"PATH"};
  const auto contained = ContainerCommand(input);
  ASSERT_TRUE(contained);
  EXPECT_TRUE(Has(contained->env, "APPTAINERENV_LAUNCH_CONTAINER_HOME=/home/ana"));
  EXPECT_FALSE(Has(contained->env, "APPTAINERENV_HOME=/home/ana"));
  const auto bash = std::ranges::find(contained->argv, "/bin/bash");
  ASSERT_NE(bash, contained->argv.end());
  EXPECT_TRUE(Text(contained->argv).ends_with("exec \"$@\" home " + std::string(kCommand)));
  // The words behind the image, run where there is no apptainer.
  std::vector<std::string> inside(bash, std::ranges::find(contained->argv, "home") + 1);
  inside.insert(inside.end(), {"/bin/sh", "-c", "echo $HOME ${LAUNCH_CONTAINER_HOME-none}"});
  EXPECT_EQ(Output("LAUNCH_CONTAINER_HOME=/elsewhere", inside), "/elsewhere none\n");
}

TEST(Container, Enroot) {
  const auto contained = ContainerCommand(Input("enroot"));
  ASSERT_TRUE(contained);
  const std::string file =
      "/var/lib/launch/allocations/../images/nvcr.io_nvidia_pytorch_25.08-py3.sqsh";
  EXPECT_EQ(contained->argv[4], file);
  EXPECT_EQ(contained->argv[5], "docker://nvcr.io#nvidia/pytorch:25.08-py3");
  EXPECT_EQ(contained->argv[6], "/var/lib/launch/allocations/7.1/enroot.rc");
  const std::string text = Text(contained->argv);
  EXPECT_NE(text.find("--rw --mount /home/ana/code:/home/ana/code:x-create=auto,rbind,rw"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("/data:/mnt/data:x-create=auto,rbind,ro --env CUDA_VISIBLE_DEVICES "
                      "--env RANK --env TOKEN " +
                      file),
            std::string::npos)
      << text;
  EXPECT_TRUE(Has(contained->env, "NVIDIA_VISIBLE_DEVICES=all"));
  EXPECT_TRUE(Has(contained->env, "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video"))
      << "its default is utility, without libcuda";
  ContainerInput chosen = Input("enroot");
  chosen.env.emplace_back("NVIDIA_DRIVER_CAPABILITIES=all");
  const auto own = ContainerCommand(chosen);
  EXPECT_TRUE(Has(own->env, "NVIDIA_DRIVER_CAPABILITIES=all"));
  EXPECT_FALSE(Has(own->env, "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video"));
}

TEST(Container, EnrootStartsOurCommandWithoutTheEntrypointOfTheImage) {
  const std::string dir = testing::TempDir() + "/enroot-" + std::to_string(::getpid());
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/enroot") << "#!/bin/sh\necho \"$@\"\ncat \"$3\"\n";
  ASSERT_EQ(::chmod((dir + "/enroot").c_str(), 0755), 0);
  ContainerInput input = Input("enroot");
  input.container.image = dir + "/train.sqsh";
  input.attempt_dir = dir;
  std::ofstream(input.container.image) << "image";
  const std::string said = Output("PATH=" + dir + ":$PATH", ContainerCommand(input)->argv);
  EXPECT_TRUE(said.starts_with("start --rc " + dir + "/enroot.rc --rw --mount ")) << said;
  EXPECT_TRUE(said.ends_with(std::string(kCommand) + "\nexec \"$@\"\n")) << said;
  std::filesystem::remove_all(dir);
}

// As enroot itself: "[ -e "${filename}" ]" ends an import with "File already exists".
TEST(Container, EnrootFetchesAnImageAgainWhoseImportWasKilled) {
  const std::string dir = testing::TempDir() + "/enroot-again-" + std::to_string(::getpid());
  std::filesystem::create_directories(dir + "/images");
  std::ofstream(dir + "/enroot")
      << "#!/bin/sh\n[ $1 = start ] && exit 0\n"
         "[ -e \"$3\" ] && { echo File already exists; exit 1; }\necho whole >\"$3\"\n";
  ASSERT_EQ(::chmod((dir + "/enroot").c_str(), 0755), 0);
  ContainerInput input = Input("enroot");
  input.container.image = "nvidia/train:1";
  input.attempt_dir = input.images_dir = dir;
  const std::string file = dir + "/nvidia_train_1.sqsh";
  std::ofstream(file + ".part") << "half";
  (void)Output("PATH=" + dir + ":$PATH", ContainerCommand(input)->argv);
  std::string image;
  EXPECT_TRUE(std::getline(std::ifstream(file), image));
  EXPECT_EQ(image, "whole");
  EXPECT_FALSE(std::filesystem::exists(file + ".part"));
  std::filesystem::remove_all(dir);
}

TEST(Container, ANodeWithoutARuntimeRunsNothing) {
  const auto contained = ContainerCommand(Input("none"));
  ASSERT_FALSE(contained);
  EXPECT_NE(contained.error().message.find("no container runtime"), std::string::npos);
}

}  // namespace
TEST(Container, EntersThatOfADaemonByItsName) {
  const std::string name = ContainerName({JobId{7}, Attempt{2}}, 3);
  EXPECT_TRUE(HasDaemon({.runtime = "docker"}));
  EXPECT_TRUE(HasDaemon({.runtime = "podman"}));
  EXPECT_FALSE(HasDaemon({.runtime = "apptainer"}));
  EXPECT_FALSE(HasDaemon({.runtime = "enroot"}));
  EXPECT_EQ(
      ExecInDaemon({.runtime = "docker"}, name, {"nvidia-smi", "-L"}, false),
      (std::vector<std::string>{"docker", "exec", "--interactive", name, "nvidia-smi", "-L"}));
  EXPECT_EQ(ExecInDaemon({.runtime = "podman"}, name, {"/bin/bash"}, true),
            (std::vector<std::string>{"podman", "exec", "--interactive", "--tty", "--env", "TERM",
                                      "--env", "PS1", name, "/bin/bash"}));
}

}  // namespace launch::agent
