#include "agent/probes/toolkit_probe.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/probes/temporary_tree.h"

namespace launch::agent {
namespace {

constexpr const char* kNvcc =
    "echo 'nvcc: NVIDIA (R) Cuda compiler driver'\n"
    "echo 'Cuda compilation tools, release 12.8, V12.8.61'\n";

TEST(ToolkitProbe, ReadsTheReleaseThatNvccSays) {
  EXPECT_EQ(NvccRelease("Cuda compilation tools, release 11.5, V11.5.119\nBuild cuda_11.5"),
            "11.5");
  EXPECT_EQ(NvccRelease("release V12"), "");
  EXPECT_EQ(NvccRelease("nothing of the kind"), "");
}

TEST(ToolkitProbe, FindsTheToolkitThatAJobWouldFindFirst) {
  const TemporaryTree tree;
  tree.Script("on-path/bin/nvcc", "echo 'release 11.5, V11.5.119'\n");
  tree.Script("cuda/bin/nvcc", kNvcc);
  tree.Write("cuda/include/cuda_runtime.h", "");
  const std::string standard = tree.Path("cuda");
  const std::string path = "/nowhere:" + tree.Path("on-path/bin");
  EXPECT_EQ(ProbeToolkit({.path = path, .cuda_home = {}, .standard = standard}),
            (Toolkit{"11.5", tree.Path("on-path")}));
  EXPECT_EQ(ProbeToolkit({.path = "/nowhere", .cuda_home = standard, .standard = "/nowhere"}),
            (Toolkit{"12.8", standard}));
  EXPECT_EQ(ProbeToolkit({.path = "/nowhere", .cuda_home = {}, .standard = standard}),
            (Toolkit{"12.8", standard}));
  EXPECT_EQ(ProbeToolkit({.path = "/nowhere", .cuda_home = {}, .standard = "/nowhere"}),
            std::nullopt);
}

TEST(ToolkitProbe, LooksThroughAWrapperScriptToTheToolkitOfTheSameRelease) {
  const TemporaryTree tree;
  tree.Script("cuda/bin/nvcc", kNvcc);
  tree.Write("cuda/include/cuda_runtime.h", "");
  tree.Script("wrapper/bin/nvcc", "exec " + tree.Path("cuda/bin/nvcc") + " \"$@\"\n");
  EXPECT_EQ(ProbeToolkit(
                {.path = tree.Path("wrapper/bin"), .cuda_home = {}, .standard = tree.Path("cuda")}),
            (Toolkit{"12.8", tree.Path("cuda")}));
}

TEST(ToolkitProbe, ACompilerThatFailsIsNoToolkit) {
  const TemporaryTree tree;
  tree.Script("bin/nvcc", "echo 'release 12.8, V12.8.61'\nexit 1\n");
  EXPECT_EQ(ProbeToolkit({.path = tree.Path("bin"), .cuda_home = {}, .standard = "/nowhere"}),
            std::nullopt);
}

TEST(ToolkitProbe, FindsTheNewestRuntimeLibraryByItsName) {
  const TemporaryTree tree;
  const RuntimePlaces places{.cuda_home = {},
                             .standard = tree.Path("cuda"),
                             .library_path = ":" + tree.Path("extra"),
                             .system_root = tree.Path("lib")};
  EXPECT_EQ(ProbeCudaRuntime(places), std::nullopt);
  tree.Write("lib/aarch64-linux-gnu/libcudart.so.11.5.117", "");
  tree.Write("lib/other/libcudart.so.99.0.0", "");
  EXPECT_EQ(ProbeCudaRuntime(places), "11.5.117");
  tree.Write("cuda/lib64/libcudart.so", "");
  tree.Write("cuda/lib64/libcudart.so.12", "");
  tree.Write("cuda/lib64/libcudart.so.12.8.57", "");
  EXPECT_EQ(ProbeCudaRuntime(places), "12.8.57");
  tree.Write("extra/libcudart.so.13.0.48", "");
  EXPECT_EQ(ProbeCudaRuntime(places), "13.0.48");
}

TEST(ToolkitProbe, ListsTheToolsThatBuildOperators) {
  const TemporaryTree tree;
  EXPECT_EQ(ProbeTools(tree.Path("bin")),
            (std::map<std::string, std::string>{{"c++", ""}, {"ninja", ""}}))
      << "none is not the same as not looked for";
  tree.Script("bin/c++", "echo 'c++ (Debian 12.2.0-14+deb12u1) 12.2.0'\necho Copyright\n");
  tree.Script("bin/ninja", "echo 1.11.1\n");
  EXPECT_EQ(ProbeTools(tree.Path("bin")),
            (std::map<std::string, std::string>{{"c++", "12.2.0"}, {"ninja", "1.11.1"}}));
  tree.Script("bin/ninja", "exit 1\n");
  EXPECT_EQ(ProbeTools(tree.Path("bin")).at("ninja"), "");
}

TEST(ToolkitProbe, ListsContainerRuntimesThatCanBeExecuted) {
  const TemporaryTree tree;
  tree.Script("bin/podman", "");
  tree.Script("bin/apptainer", "");
  tree.Write("bin/docker", "not executable");
  EXPECT_EQ(ProbeContainerRuntimes(tree.Path("bin")),
            (std::vector<std::string>{"apptainer", "podman"}));
}

TEST(ToolkitProbe, DockerCountsWhereItsDaemonAnswers) {
  const TemporaryTree tree;
  tree.Script("bin/docker", "echo Cannot connect to the Docker daemon >&2\nexit 1\n");
  EXPECT_EQ(ProbeContainerRuntimes(tree.Path("bin")), std::vector<std::string>{});
  tree.Script("bin/docker", "[ \"$1\" = version ] && echo 27.3.1\n");
  EXPECT_EQ(ProbeContainerRuntimes(tree.Path("bin")), std::vector<std::string>{"docker"});
  EXPECT_EQ(ProbeTools(tree.Path("bin")).at("nvidia-container-cli"), "");
  tree.Script("bin/nvidia-container-cli", "");
  EXPECT_EQ(ProbeTools(tree.Path("bin")).at("nvidia-container-cli"), "there");
}

// What std::filesystem::exists throws for, also where this process is root.
TEST(ToolkitProbe, AToolkitThatCannotBeLookedAtIsNoEndOfTheAgent) {
  const TemporaryTree tree;
  tree.Script("cuda/bin/nvcc", "echo 'release 12.8, V12.8.61'\n");
  std::filesystem::create_symlink("include", tree.Path("cuda/include"));
  const auto toolkit = ProbeToolkit({.path = tree.Path("cuda/bin"), .cuda_home = ""});
  ASSERT_TRUE(toolkit);
  EXPECT_EQ(toolkit->nvcc, "12.8");
}

}  // namespace
}  // namespace launch::agent
