// Python programs of public repositories that start their own processes, drive several devices or
// take numbers of devices as flags, however a line or a script starts them.
#include <gtest/gtest.h>

#include <map>

#include "planner/line/launch_line.h"
#include "tests/unit/planner/public_line.h"

namespace launch {
namespace {

constexpr const char* kDataParallel = "model = torch.nn.DataParallel(model).cuda()\n";
constexpr const char* kSpawns = "import torch.multiprocessing as mp\nmp.spawn(run, nprocs=4)\n";
constexpr const char* kRanks = "local = int(os.environ[\"LOCAL_RANK\"])\n";

struct PublicProgram {
  const char* source;
  std::map<std::string, std::string> files;
  const char* run;
  const char* reading;
  bool gpus_open = false;
};

class PublicPrograms : public ::testing::TestWithParam<PublicProgram> {};

TEST_P(PublicPrograms, AreStartedAsTheirAuthorsMeanIt) {
  LaunchLineOptions options;
  options.files = GetParam().files;
  options.gpus_open = GetParam().gpus_open;
  EXPECT_EQ(Reading(ReadLaunchLine(GetParam().run, options)), GetParam().reading)
      << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(
    Started, PublicPrograms,
    ::testing::Values(
        PublicProgram{"ExPl0i/MotionCNN-Waymo-Open-Motion-Dataset train.sh",
                      {{"train.sh", "python train.py \\\n  --lr 1\n"}, {"train.py", kDataParallel}},
                      "bash train.sh",
                      "node procs=1"},
        PublicProgram{"k2-fsa/icefall and forks, egs/librispeech/ASR: an executable script",
                      {{"run.sh", "./rnnt/train.py --world-size 4"}, {"./rnnt/train.py", kSpawns}},
                      "bash run.sh",
                      "node"},
        PublicProgram{"READMEs: install, then train",
                      {{"train.py", kDataParallel}},
                      "pip install -r requirements.txt && python train.py",
                      "node procs=1"},
        PublicProgram{"READMEs: activate, then train",
                      {{"train.py", kSpawns}},
                      "source .venv/bin/activate\npython train.py",
                      "node"},
        PublicProgram{
            "READMEs of uv", {{"src/train.py", kSpawns}}, "cd src && uv run train.py", "node"},
        PublicProgram{"READMEs of conda",
                      {{"train.py", "from torch.nn import DataParallel\nm = DataParallel(m)\n"}},
                      "conda run -n env python train.py",
                      "node procs=1"},
        PublicProgram{"READMEs of packages",
                      {{"pkg/train.py", kDataParallel}},
                      "python -m pkg.train --lr 1",
                      "node procs=1"},
        PublicProgram{"READMEs of packages: __main__.py",
                      {{"pkg/train/__main__.py", kSpawns}},
                      "python -m pkg.train",
                      "node"},
        PublicProgram{"programs with a process for each rank",
                      {{"train.py",
                        "import torch.multiprocessing as mp\nmp.Process(target=run)\n"
                        "dist.init_process_group('nccl', rank=rank)\n"}},
                      "bash -c 'python train.py'",
                      "node"},
        PublicProgram{"a program of ranks beside one that drives all GPUs",
                      {{"train.py", kRanks}, {"eval.py", kDataParallel}},
                      "python train.py\npython eval.py",
                      "plain"},
        PublicProgram{"k2-fsa/icefall egs: devices exported in the script",
                      {{"run.sh", "export CUDA_VISIBLE_DEVICES=0,1\n./train.py --world-size 2\n"},
                       {"./train.py", kSpawns}},
                      "bash run.sh",
                      "node devices=2",
                      true},
        PublicProgram{"hukkelas/full_body_anonymization docs/TRAINING.md",
                      {{"train.py", kSpawns}},
                      "CUDA_VISIBLE_DEVICES=0,1, python train.py config.py",
                      "node devices=2",
                      true},
        PublicProgram{"a class of that name, and one that holds it",
                      {{"train.py",
                        "class DataParallel(nn.Module): pass\nm = FullyShardedDataParallel(m)\n"}},
                      "bash -c 'python train.py'",
                      "plain"}));

}  // namespace
}  // namespace launch
