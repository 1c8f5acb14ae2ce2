// The command lines for container runtimes, which are not installed where tests run.
#include "agent/runner/container.h"

#include <gtest/gtest.h>

#include <algorithm>

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
          .uid = 1000,
          .gid = 1001,
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
                      "--interactive --user 1000:1001 --gpus all --ipc host "
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
                       "--cgroups=disabled --userns=keep-id --device nvidia.com/gpu=all"))
      << text;
  EXPECT_TRUE(text.ends_with("nvcr.io/nvidia/pytorch:25.08-py3 " + std::string(kCommand)));
}

TEST(Container, Enroot) {
  const auto contained = ContainerCommand(Input("enroot"));
  ASSERT_TRUE(contained);
  const std::string file =
      "/var/lib/launch/allocations/../images/nvcr.io_nvidia_pytorch_25.08-py3.sqsh";
  EXPECT_EQ(contained->argv[4], file);
  EXPECT_EQ(contained->argv[5], "docker://nvcr.io#nvidia/pytorch:25.08-py3");
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
}

TEST(Container, ANodeWithoutARuntimeRunsNothing) {
  const auto contained = ContainerCommand(Input("none"));
  ASSERT_FALSE(contained);
  EXPECT_NE(contained.error().message.find("no container runtime"), std::string::npos);
}

}  // namespace
}  // namespace launch::agent
