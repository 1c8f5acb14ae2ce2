#include "cli/job_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/job_reader.h"

namespace launch {
namespace {

JobSpec ReadBack(const std::string& text) {
  const auto job = ReadJobText(text, "job.yaml", "/proj", {}, "/proj");
  EXPECT_TRUE(job) << FormatError(job.error()) << "\n" << text;
  return job ? job->spec : JobSpec{};
}

TEST(JobTemplate, GivesBackTheLineAndWhatItShows) {
  const auto text =
      JobFileFor({"torchrun", "--nnodes=2", "--nproc-per-node=4", "train.py", "a b"}, "/proj");
  ASSERT_TRUE(text) << FormatError(text.error());
  const JobSpec spec = ReadBack(*text);
  EXPECT_EQ(spec.name, "train");
  EXPECT_EQ(spec.nodes.min, 2);
  ASSERT_EQ(spec.gpus.size(), 1U);
  EXPECT_EQ(spec.gpus[0].count, 4);
  EXPECT_EQ(spec.run, "torchrun --nnodes=2 --nproc-per-node=4 train.py 'a b'\n");
}

TEST(JobTemplate, KeepsARangeOfNodes) {
  const auto text = JobFileFor({"torchrun", "--nnodes=1:4", "--nproc_per_node=8", "t.py"}, "/proj");
  ASSERT_TRUE(text) << FormatError(text.error());
  const JobSpec spec = ReadBack(*text);
  EXPECT_EQ(spec.nodes.min, 1);
  EXPECT_EQ(spec.nodes.max, 4);
}

TEST(JobTemplate, ALineForTheCpuBecomesAJobForTheCpu) {
  const auto text =
      JobFileFor({"accelerate", "launch", "--cpu", "--num_processes", "2", "t.py"}, "/proj");
  ASSERT_TRUE(text);
  const JobSpec spec = ReadBack(*text);
  EXPECT_EQ(spec.device, DeviceChoice::kCpu);
  EXPECT_EQ(spec.procs_per_node, 2);
}

TEST(JobTemplate, ReadsTheFilesThatTheLineNames) {
  const std::string directory = ::testing::TempDir() + "job-template";
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/acc.yaml")
      << "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 2\n"
         "num_processes: 8\nmixed_precision: bf16\n";
  const auto text =
      JobFileFor({"accelerate", "launch", "--config_file", "acc.yaml", "train.py"}, directory);
  std::filesystem::remove_all(directory);
  ASSERT_TRUE(text) << FormatError(text.error());
  const JobSpec spec = ReadBack(*text);
  EXPECT_EQ(spec.nodes.min, 2) << *text;
  ASSERT_EQ(spec.gpus.size(), 1U);
  EXPECT_EQ(spec.gpus[0].count, 4) << *text;
}

TEST(JobTemplate, CountsTheDevicesInFrontOfALine) {
  const auto text = JobFileFor({"CUDA_VISIBLE_DEVICES=0,1", "python", "train.py"}, "/proj");
  ASSERT_TRUE(text) << FormatError(text.error());
  EXPECT_EQ(ReadBack(*text).gpus.at(0).count, 2) << *text;
  const auto hidden = JobFileFor({"CUDA_VISIBLE_DEVICES=", "python", "train.py"}, "/proj");
  ASSERT_TRUE(hidden) << FormatError(hidden.error());
  EXPECT_EQ(ReadBack(*hidden).device, DeviceChoice::kCpu) << *hidden;
}

TEST(JobTemplate, SaysWhatIsWrongWithALine) {
  EXPECT_FALSE(JobFileFor({"torchrun", "--nproc_per_node=many", "t.py"}, "/proj"));
  EXPECT_FALSE(JobFileFor({"mpirun", "-n", "2", "./a"}, "/proj"));
}

}  // namespace
}  // namespace launch
