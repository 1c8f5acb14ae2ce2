// Launch lines whose numbers stand in files beside them, as people write them: scripts behind `cd`,
// files named through variables and by where a script stands. Each is cut to its shape, with
// made-up names; the first field says where such lines stand.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "cli/named_files.h"
#include "tests/unit/planner/public_line.h"

namespace launch {
namespace {

struct NamedLine {
  const char* source;
  const char* run;
  const char* reading;
  std::map<std::string, std::string> files = {};  // beside those of every case
};

class NamedLines : public ::testing::TestWithParam<NamedLine> {
 protected:
  NamedLines() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lines-XXXXXX").string();
    dir_ = mkdtemp(pattern.data());
    // The same names here and in sub/, with other numbers in them.
    Write("acc.yaml", "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 8\n");
    Write("sub/acc.yaml", "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 2\n");
    Write("go.sh", "torchrun --nproc_per_node 5 train.py\n");
    Write("sub/go.sh", "torchrun --nproc_per_node 3 train.py\n");
    Write("train.py", "import torch\n");
    Write("sub/train.py", "import torch\n");
  }
  ~NamedLines() override { std::filesystem::remove_all(dir_); }

  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name) << text;
  }

  std::filesystem::path dir_;
};

TEST_P(NamedLines, AreReadAsBashWouldRunThem) {
  for (const auto& [name, text] : GetParam().files) Write(name, text);
  JobSpec spec;
  spec.workdir = dir_.string();
  spec.run = GetParam().run;
  const auto files = ReadNamedFiles(spec);
  ASSERT_TRUE(files) << FormatError(files.error());
  LaunchLineOptions options = LineOptions(spec, *files);
  options.told.erase("NNODES");  // as where the job leaves nodes out
  EXPECT_EQ(Reading(ReadLaunchLine(spec.run, options)), GetParam().reading)
      << GetParam().source << ": " << spec.run;
}

constexpr const char* kHere =
    "HERE=\"$( cd \"$( dirname \"${BASH_SOURCE[0]}\" )\" >/dev/null 2>&1 && pwd )\"\n";

INSTANTIATE_TEST_SUITE_P(
    BehindCd, NamedLines,
    ::testing::Values(
        NamedLine{"a README on legal texts", "cd sub && bash go.sh && cd ..", "node procs=3"},
        NamedLine{"a README on recommender models", "cd sub\nbash go.sh", "node procs=3"},
        NamedLine{"the same by its path", "cd ./sub/ && ./go.sh", "node procs=3"},
        NamedLine{"the same in the shell itself", "cd $PWD/sub; source go.sh", "node procs=3"},
        NamedLine{"and back", "cd sub && cd - && bash go.sh", "node procs=5"},
        NamedLine{"with a way out", "cd \"sub\" || exit 1\nbash go.sh", "node procs=3"},
        NamedLine{"in a subshell", "(cd sub && python prepare.py)\nbash go.sh", "node procs=5"},
        NamedLine{"all of it in a subshell", "(\n  cd sub\n  bash go.sh\n)", "node procs=3"},
        NamedLine{"in a text of its own", "bash -c 'cd sub; python prepare.py'; bash go.sh",
                  "node procs=5"},
        NamedLine{"on a stack", "pushd sub > /dev/null\nbash go.sh\npopd", "node procs=3"},
        NamedLine{"where the directory is a choice",
                  "if [ -d sub ]; then cd sub; fi\naccelerate launch --config_file acc.yaml t.py",
                  "node"},
        NamedLine{"alignment-handbook forks",
                  "cd sub && accelerate launch --config_file acc.yaml train.py",
                  "accelerate procs=2 train.py"},
        NamedLine{"with the file one above",
                  "cd sub && accelerate launch --config_file ../acc.yaml train.py",
                  "accelerate procs=8 train.py"},
        NamedLine{"users of conf files in variables, then cd",
                  "DIR=\"../\"\nCFG=\"$DIR/acc.yaml\"\ncd sub\n\naccelerate launch \\\n"
                  "  --config_file \"$CFG\" \\\n  train.py --config a.conf",
                  "accelerate procs=8 train.py"}));

INSTANTIATE_TEST_SUITE_P(
    ByVariables, NamedLines,
    ::testing::Values(
        NamedLine{"PhotoDoodle, scripts",
                  "export CONFIG=\"./acc.yaml\"\naccelerate launch --config_file $CONFIG train.py",
                  "accelerate procs=8 train.py"},
        NamedLine{"finetrainers, examples",
                  "cmd=\"accelerate launch --config_file acc.yaml train.py --a b\"\neval $cmd",
                  "node procs=8"},
        NamedLine{"a command in an array",
                  "ARGS=(\n  --config_file acc.yaml\n)\naccelerate launch \"${ARGS[@]}\" train.py",
                  "node procs=8"},
        NamedLine{"a default of the script's",
                  "bash t.sh",
                  "node procs=8",
                  {{"t.sh", "accelerate launch --config_file ${1:-acc.yaml} train.py\n"}}},
        NamedLine{"an argument of the script's",
                  "bash t.sh sub/acc.yaml --lr 1",
                  "node procs=2",
                  {{"t.sh", "C=$1\nshift\naccelerate launch --config_file $C train.py \"$@\"\n"}}},
        NamedLine{"exported to a script within",
                  "bash outer.sh",
                  "node procs=8",
                  {{"outer.sh", "set -e\nexport CFG=acc.yaml\nbash sub/inner.sh\n"},
                   {"sub/inner.sh", "accelerate launch --config_file $CFG train.py\n"}}},
        NamedLine{"a script in a variable", "S=sub/go.sh\nbash \"$S\"", "node procs=3"},
        NamedLine{"two of the same name",
                  "bash a/run.sh && bash b/run.sh",
                  "node procs=4",
                  {{"a/run.sh", "cd $(dirname $0)\nbash common.sh\n"},
                   {"b/run.sh", "cd $(dirname $0)\nbash common.sh\n"},
                   {"a/common.sh", "python prepare.py\n"},
                   {"b/common.sh", "torchrun --nproc_per_node 4 train.py\n"}}},
        NamedLine{"by a program without a suffix",
                  "./train",
                  "node procs=4",
                  {{"train", "#!/usr/bin/env bash\ntorchrun --nproc_per_node 4 train.py\n"}}}));

INSTANTIATE_TEST_SUITE_P(
    ByThePlaceOfTheScript, NamedLines,
    ::testing::Values(
        NamedLine{"a tuning of translation models",
                  "bash sub/t.sh",
                  "node procs=8",
                  {{"sub/t.sh",
                    "cd \"$(dirname \"$0\")\"\naccelerate launch --config_file ../acc.yaml a.py"}}},
        NamedLine{"the same of the text of run itself",
                  "cd \"$(dirname \"$0\")\"\naccelerate launch --config_file sub/acc.yaml train.py",
                  "accelerate procs=2 train.py"},
        NamedLine{
            "the same by BASH_SOURCE",
            "cd `dirname ${BASH_SOURCE[0]}`\naccelerate launch --config_file sub/acc.yaml t.py",
            "accelerate procs=2 t.py"},
        NamedLine{"the same of the real path",
                  "D=$(dirname \"$(readlink -f \"$0\")\")\naccelerate launch --config_file "
                  "\"$D/sub/acc.yaml\" t.py",
                  "accelerate procs=2 t.py"},
        NamedLine{"forks of minimind: deepspeed",
                  "sh sub/t.sh",
                  "node procs=4",
                  {{"sub/t.sh",
                    "SCRIPT_DIR=$(dirname \"$(realpath \"$0\")\")\nDS=\"$SCRIPT_DIR/ds.json\"\n"
                    "deepspeed --num_gpus 4 \"$SCRIPT_DIR/train.py\" --deepspeed_config \"$DS\""},
                   {"sub/ds.json", "{}"}}},
        NamedLine{"the answer of a public thread",
                  "bash sub/t.sh",
                  "node procs=2",
                  {{"sub/t.sh", std::string(kHere) +
                                    "accelerate launch --config_file \"$HERE\"/acc.yaml a.py"}}},
        NamedLine{"one directory up",
                  "bash sub/t.sh",
                  "node procs=8",
                  {{"sub/t.sh",
                    "ROOT=$(cd `dirname $0`/..; pwd)\naccelerate launch --config_file "
                    "${ROOT}/acc.yaml a.py"}}},
        NamedLine{"with settings beside it",
                  "bash sub/t.sh",
                  "node procs=2",
                  {{"sub/t.sh", ". ${0%/*}/env.sh\naccelerate launch --config_file $CFG a.py"},
                   {"sub/env.sh", "export CFG=sub/acc.yaml\n"}}}));

INSTANTIATE_TEST_SUITE_P(
    BehindOtherPrograms, NamedLines,
    ::testing::Values(
        NamedLine{"options of bash", "cd sub && bash -euxo pipefail go.sh", "node procs=3"},
        NamedLine{"a limit", "timeout -k 5 60 bash sub/go.sh", "node procs=3"},
        NamedLine{"another shell", "zsh sub/go.sh", "node procs=3"},
        NamedLine{"a runner of environments", "uv run bash sub/go.sh", "node procs=3"},
        NamedLine{"an environment of conda", "conda run -n env bash sub/go.sh", "node procs=3"},
        NamedLine{"cores and memory", "numactl --cpunodebind=0 bash sub/go.sh", "node procs=3"},
        NamedLine{"from its input", "bash < sub/go.sh", "node procs=3"},
        NamedLine{"in a function", "run() { bash sub/go.sh; }\nrun", "node procs=3"},
        NamedLine{"only asked after", "chmod +x sub/go.sh && python train.py", "plain"}));

INSTANTIATE_TEST_SUITE_P(
    Hostfiles, NamedLines,
    ::testing::Values(
        NamedLine{"deepspeed examples: beside the line",
                  "deepspeed --hostfile hosts train.py",
                  "deepspeed procs=8 nodes=2 train.py",
                  {{"hosts", "node1 slots=8\nnode2 slots=8\n"}}},
        NamedLine{"one above",
                  "cd sub && deepspeed --hostfile=../hosts train.py",
                  "deepspeed procs=4 nodes=3 train.py",
                  {{"hosts", "a slots=4\nb slots=4\nc slots=4\n"}}},
        NamedLine{"written by the line itself",
                  "cat > hosts <<EOF\nworker-0 slots=4\nworker-1 slots=4\nEOF\ndeepspeed "
                  "--hostfile hosts train.py",
                  "node procs=4 nodes=2"},
        NamedLine{
            "k8s operators: WORLD_SIZE is the number of nodes",
            "torchrun --nnodes=${WORLD_SIZE:-2} --node_rank=${RANK:-0} --nproc_per_node=4 t.py",
            "torchrun procs=4 nodes=2 t.py"}));

}  // namespace
}  // namespace launch
