// What people get wrong in a job file, or bring from elsewhere, and the words that they are told.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/job_reader.h"

namespace launch {
namespace {

Error Refusal(const std::string& text) {
  const Result<ReadJob> job = ReadJobText(text, "job.yaml", "/home/ana", {}, "/home/ana");
  EXPECT_FALSE(job) << "was accepted: " << text;
  return job ? Error() : job.error();
}

TEST(JobMistakes, ATabAndAMissingBlankAreNamedWhereTheyStand) {
  Error error = Refusal("name: a\nbatch:\n\tmicro: 4\nrun: python train.py\n");
  EXPECT_EQ(error.message, "a tab stands in the indentation");
  EXPECT_EQ(error.where->line, 3);
  for (const char* first : {"name:x", "name x"}) {
    error = Refusal(std::string(first) + "\nrun: python train.py\n");
    EXPECT_EQ(error.message, "`" + std::string(first) + "` is no field and its value");
    EXPECT_EQ(error.where->line, 1);
  }
}

TEST(JobMistakes, FieldsThatAreNotReadAreNamedAtOnce) {
  const Error error = Refusal(
      "quue: a\nbatch: {micr: 4}\ntopology: {within: block}\nname: a\nrun: python train.py\n");
  EXPECT_EQ(error.message,
            "fields that this version does not read: `quue` (line 1), `batch.micr` (line 2), "
            "`topology` (line 3, known, but not in this version)");
  EXPECT_EQ(Refusal("quue: a\nrun: python train.py\n").message, "unknown field `quue`");
}

TEST(JobMistakes, NumbersOfDevicesAreNoCounts) {
  EXPECT_EQ(Refusal("gpus: \"0,1\"\nrun: python train.py\n").hint,
            "devices by their numbers are gpu_ids: [0,1]");
  EXPECT_NE(Refusal("device: GPU\nrun: python train.py\n").hint.find("cuda is an NVIDIA GPU"),
            std::string::npos);
}

TEST(JobMistakes, ASlurmScriptIsReadAsImportReadsIt) {
  std::string dir = (std::filesystem::temp_directory_path() / "job-XXXXXX").string();
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  const std::string path = dir + "/train.sbatch";
  std::ofstream(path) << "#!/bin/bash\n#SBATCH --job-name=sft\n#SBATCH -N 2\n"
                         "#SBATCH --gpus-per-node=4\nsrun python train.py\n";
  const Result<ReadJob> job = ReadJobFile(path, {{"nodes", "3", "-N"}}, "/");
  ASSERT_TRUE(job) << FormatError(job.error());
  EXPECT_EQ(job->spec.name, "sft");
  EXPECT_EQ(job->spec.nodes, (NodeCount{3, 3, false}));
  EXPECT_EQ(job->spec.gpus.at(0).count, 4);
  EXPECT_EQ(job->spec.workdir, dir);
  ASSERT_FALSE(job->notices.empty());
  EXPECT_NE(job->notices.front().find("read as a Slurm script"), std::string::npos);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace launch
