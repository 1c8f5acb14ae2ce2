#include "cli/named_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace launch {
namespace {

class NamedFiles : public testing::Test {
 protected:
  NamedFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "named-XXXXXX").string();
    dir_ = mkdtemp(pattern.data());
    spec_.workdir = dir_.string();
  }
  ~NamedFiles() override { std::filesystem::remove_all(dir_); }
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name) << text;
  }

  std::filesystem::path dir_;
  JobSpec spec_;
};

TEST_F(NamedFiles, AreThoseBehindTheFlagsOfTheTrainers) {
  Write("ds.json", "{}");
  Write("acc.yaml", "a: 1");
  spec_.run =
      "FOO=1 torchrun train.py --deepspeed ds.json && accelerate launch --config-file=acc.yaml "
      "x.py "
      "--ds_config $OTHER --fsdp_config only-on-the-nodes.json";
  const auto files = ReadNamedFiles(spec_);
  ASSERT_TRUE(files);
  EXPECT_EQ(*files, (std::map<std::string, std::string>{{"acc.yaml", "a: 1"}, {"ds.json", "{}"}}));
}

TEST_F(NamedFiles, HoldTheShellScriptThatRunStarts) {
  Write("train.sh", "torchrun train.py\n");
  Write("big.sh", std::string(kMaxContextFileBytes + 1, '#'));
  spec_.run = "cd . && bash -x train.sh --lr 1; ./big.sh; bash -c 'sh inner.sh'; sh missing.sh";
  const auto files = ReadNamedFiles(spec_);
  ASSERT_TRUE(files) << FormatError(files.error());
  EXPECT_EQ(*files, (std::map<std::string, std::string>{{"train.sh", "torchrun train.py\n"}}));
}

TEST_F(NamedFiles, HoldThePythonProgramsOfTheText) {
  Write("train.sh", "cd src\nuv run python -u train.py\npython -m pkg.eval\n./tool.py\n");
  for (const char* name : {"src/train.py", "src/pkg/eval.py", "src/tool.py", "src/other.py"})
    Write(name, "import torch\n");
  spec_.run = "pip install x && bash train.sh";
  const auto files = ReadNamedFiles(spec_);
  ASSERT_TRUE(files) << FormatError(files.error());
  EXPECT_EQ(files->size(), 4U);
  for (const char* name : {"train.sh", "src/train.py", "src/pkg/eval.py", "src/tool.py"})
    EXPECT_EQ(files->count(name), 1U) << name;
}

TEST_F(NamedFiles, HoldTheModuleByWhichAProgramOfAScriptStartsItsProcesses) {
  Write("train.sh", "python tools/run.py\n");
  Write("tools/run.py", "from pkg.misc import launch_job\nlaunch_job(cfg)\n");
  Write("pkg/misc.py", "def launch_job(cfg):\n    mp.spawn(run)\n");
  std::filesystem::create_directories(dir_ / "tools/pkg/misc.py");
  spec_.run = "bash train.sh";
  const auto files = ReadNamedFiles(spec_);
  ASSERT_TRUE(files) << FormatError(files.error());
  EXPECT_EQ(files->size(), 3U);
  EXPECT_EQ(files->count("pkg/misc.py"), 1U);
}

TEST_F(NamedFiles, FollowAccelerateToTheFileOfDeepspeed) {
  Write("acc.yaml",
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n"
        "  deepspeed_config_file: conf/ds.json\n");
  Write("conf/ds.json", "{}");
  spec_.run = "accelerate launch --config_file acc.yaml train.py";
  const auto files = ReadNamedFiles(spec_);
  ASSERT_TRUE(files);
  EXPECT_EQ(files->count("conf/ds.json"), 1U);
}

TEST_F(NamedFiles, AreFollowedThroughScriptsToWhereTheyStand) {
  Write("run/sft.sh",
        "cd $(dirname \"$0\")\nCFG=../conf/z3.yaml\n"
        "accelerate launch --config_file $CFG train.py\n");
  Write("conf/z3.yaml", "deepspeed_config:\n  deepspeed_config_file: ds.json\n");
  Write("ds.json", "{}");
  spec_.run = "bash run/sft.sh";
  const auto files = ReadNamedFiles(spec_);
  ASSERT_TRUE(files) << FormatError(files.error());
  EXPECT_TRUE(files->contains("conf/z3.yaml"));
  EXPECT_TRUE(files->contains("ds.json") || files->contains("run/ds.json")) << "beside the call";
}

TEST_F(NamedFiles, AreThoseOfTheDirectoryThatTheLineEnters) {
  Write("acc.yaml", "num_processes: 8\n");
  Write("sub/acc.yaml", "num_processes: 2\n");
  Write("t.sh", "torchrun --nproc_per_node 3 t.py\n");
  Write("sub/t.sh", "torchrun --nproc_per_node 5 t.py\n");
  spec_.run = "cd sub && accelerate launch --config_file acc.yaml t.py && bash t.sh";
  const auto files = ReadNamedFiles(spec_);
  ASSERT_TRUE(files) << FormatError(files.error());
  EXPECT_EQ(files->at("sub/acc.yaml"), "num_processes: 2\n");
  EXPECT_EQ(files->at("sub/t.sh"), "torchrun --nproc_per_node 5 t.py\n");
  EXPECT_FALSE(files->contains("acc.yaml") || files->contains("t.sh"));
  spec_.run = "cd $SOMEWHERE && bash t.sh";
  EXPECT_TRUE(ReadNamedFiles(spec_)->empty());
}

TEST_F(NamedFiles, AreConfigurationsFirstWhereThereAreTooMany) {
  std::string text;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "a_env" + std::to_string(i) + ".sh";
    Write(name, "export A=1\n");
    text += "source " + name + "\n";
  }
  Write("zero3.json", "{}");
  spec_.run = text + "torchrun train.py --deepspeed zero3.json";
  const auto files = ReadNamedFiles(spec_);
  ASSERT_TRUE(files) << FormatError(files.error());
  EXPECT_TRUE(files->contains("zero3.json"));
  EXPECT_EQ(files->size(), kMaxContextFiles);
  // The default of accelerate counts as well.
  Write("home/accelerate/default_config.yaml", "num_processes: 4\n");
  const char* const before = std::getenv("HF_HOME");
  const std::string kept = before == nullptr ? "" : before;
  setenv("HF_HOME", (dir_ / "home").c_str(), 1);
  spec_.run = text + "accelerate launch train.py";
  const auto full = ReadNamedFiles(spec_);
  spec_.run = "accelerate launch train.py";
  const auto with_default = ReadNamedFiles(spec_);
  if (before == nullptr) {
    unsetenv("HF_HOME");
  } else {
    setenv("HF_HOME", kept.c_str(), 1);
  }
  ASSERT_TRUE(full && with_default);
  EXPECT_EQ(full->size(), kMaxContextFiles);
  EXPECT_EQ(with_default->size(), 1U) << "found where there is room";
}

TEST_F(NamedFiles, TheDefaultOfAccelerateLiesWhereTheJobSaysThatItsCacheIs) {
  Write("mine/accelerate/default_config.yaml", "num_processes: 3\n");
  const std::string mine = (dir_ / "mine").string();
  const auto read = [&](std::vector<EnvEntry> env, const std::string& run) {
    spec_.env = std::move(env);
    spec_.run = run;
    const auto files = ReadNamedFiles(spec_);
    return files && files->size() == 1 ? files->begin()->second : std::string();
  };
  const std::string line = "accelerate launch train.py";
  EXPECT_EQ(read({}, "HF_HOME=" + mine + " " + line), "num_processes: 3\n");
  EXPECT_EQ(read({}, "export HF_HOME=" + mine + "\n" + line), "num_processes: 3\n");
  EXPECT_EQ(read({{"BASE", mine.substr(0, mine.size() - 5)}, {"HF_HOME", "$BASE/mine"}}, line),
            "num_processes: 3\n");
  EXPECT_EQ(read({{"HF_HOME", mine}}, "HF_HOME=$(mktemp -d) " + line), "")
      << "nobody knows it here";
}

TEST_F(NamedFiles, TakeAModelDirectoryForItsConfig) {
  Write("llama/config.json", "{\"hidden_size\": 8}");
  spec_.model.fields["config"] = "llama";
  const auto files = ReadNamedFiles(spec_);
  ASSERT_TRUE(files);
  EXPECT_EQ(files->at("llama"), "{\"hidden_size\": 8}");
}

TEST_F(NamedFiles, RefuseAConfigThatIsNotThereOrIsADirectoryWithoutOne) {
  for (const std::string name : {"missing.json", "."}) {
    spec_.model.fields["config"] = name;
    const auto files = ReadNamedFiles(spec_);
    ASSERT_FALSE(files) << name;
    EXPECT_EQ(files.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(files.error().message.find("model.config"), std::string::npos);
  }
}

TEST_F(NamedFiles, RefuseAFileTooLargeToBeAConfiguration) {
  Write("config.json", std::string(kMaxContextFileBytes + 1, ' '));
  spec_.model.fields["config"] = "config.json";
  const auto files = ReadNamedFiles(spec_);
  ASSERT_FALSE(files);
  EXPECT_NE(files.error().message.find("KiB"), std::string::npos);
}

}  // namespace
}  // namespace launch
