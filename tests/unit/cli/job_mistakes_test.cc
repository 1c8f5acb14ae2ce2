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
            "fields that this version does not read: `quue` (line 1: did you mean `queue`?), "
            "`batch.micr` (line 2: did you mean `micro`?), "
            "`topology` (line 3, known, but not in this version)");
  EXPECT_EQ(Refusal("quue: a\nrun: python train.py\n").message, "unknown field `quue`");
}

TEST(JobMistakes, CapitalsAreNoReasonNotToKnowTheNearestName) {
  const std::string message = Refusal("Name: a\nGPUs: 1\nRun: python train.py\n").message;
  for (const char* name : {"`name`?", "`gpus`?", "`run`?"})
    EXPECT_NE(message.find(name), std::string::npos) << message;
  EXPECT_EQ(Refusal("GPUs: 1\nrun: python train.py\n").hint, "did you mean `gpus`?");
}

TEST(JobMistakes, MoreThanANodeCanHaveIsToldWithItsLine) {
  const Error cpus = Refusal("gpus: 0\ncpus: 4000000000\nrun: python train.py\n");
  EXPECT_EQ(cpus.where->line, 2);
  EXPECT_NE(cpus.message.find("more than a node can have"), std::string::npos) << cpus.message;
  const Error gpus = Refusal("gpus: 1000000\nrun: python train.py\n");
  EXPECT_NE(gpus.message.find("more than a node can have"), std::string::npos) << gpus.message;
  EXPECT_TRUE(gpus.hint.empty()) << gpus.hint;
}

TEST(JobMistakes, AFileOfSkyPilotIsSentToImport) {
  const std::string task = "num_nodes: 2\nfile_mounts: {/data: x}\nrun: python train.py\n";
  EXPECT_NE(Refusal(task).hint.find("launch import"), std::string::npos) << Refusal(task).hint;
  const std::string ours = "num_nodes: 2\ncheckpoints: x\ntime: 3h\nrun: python train.py\n";
  EXPECT_EQ(Refusal(ours).hint.find("launch import"), std::string::npos) << Refusal(ours).hint;
}

TEST(JobMistakes, NumbersOfDevicesAreNoCounts) {
  EXPECT_EQ(Refusal("gpus: \"0,1\"\nrun: python train.py\n").hint,
            "devices by their numbers are gpu_ids: [0,1]");
  EXPECT_NE(Refusal("device: GPU\nrun: python train.py\n").hint.find("cuda is an NVIDIA GPU"),
            std::string::npos);
}

TEST(JobMistakes, ACommandInWordsIsNoListOfCommands) {
  const auto run = [](const std::string& list) {
    const Result<ReadJob> job =
        ReadJobText("name: a\nrun: " + list + "\n", "job.yaml", "/home/ana", {}, "/home/ana");
    return job ? job->spec.run : job.error().message;
  };
  EXPECT_EQ(run("[python, train.py, --msg, two words]"), "python train.py --msg 'two words'");
  EXPECT_EQ(run("[/opt/venv/bin/python3.11, -u, train.py]"),
            "/opt/venv/bin/python3.11 -u train.py");
  EXPECT_EQ(run("[torchrun, train.py]"), "torchrun train.py");
  EXPECT_EQ(run("[pip install x, python train.py]"), "pip install x\npython train.py");
  EXPECT_EQ(run("[python prepare.py, python train.py]"), "python prepare.py\npython train.py");
  EXPECT_EQ(run("[./prepare, ./train]"), "./prepare\n./train");
  EXPECT_EQ(run("[rm -rf old/python, ./train]"), "rm -rf old/python\n./train");
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
