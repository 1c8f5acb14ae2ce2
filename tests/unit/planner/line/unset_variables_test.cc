// Variables of public lines that nothing sets.
#include "planner/line/unset_variables.h"

#include <gtest/gtest.h>

#include <string>

namespace launch {
namespace {

std::string Unset(std::string_view text) {
  std::string names;
  for (const UnsetUse& use : NeverSet(text)) {
    if (!IsOfTheNode(use.name))
      names += (names.empty() ? "" : " ") + use.name + (use.stops ? "?" : "");
  }
  return names;
}

// mmaction2, fish-speech, MaxText, asmtransformers.
TEST(UnsetVariables, AreThoseThatOnlyStandBehindADollar) {
  EXPECT_EQ(Unset("PORT=29501 bash tools/dist_train.sh ${CONFIG} 4"), "CONFIG");
  EXPECT_EQ(Unset("NNODES=2 bash tools/dist_train.sh $CONFIG $GPUS"), "CONFIG GPUS");
  EXPECT_EQ(Unset("python train.py --config-name x \\\n  project=$project +a@b=c"), "project");
  EXPECT_EQ(Unset("python -m train run_name=${YOUR_JOB_NAME?}"), "YOUR_JOB_NAME?");
  EXPECT_EQ(Unset("set -eu\nDATA=${DATA:?set DATA to a directory}\nSTEPS=${STEPS:--1}\n"
                  "GPUS=${GPUS}\ntorchrun --nproc-per-node \"$GPUS\" t.py \"$DATA\" $STEPS"),
            "DATA GPUS");
  EXPECT_EQ(Unset("python t.py > $LOGS/out.txt"), "LOGS");
}

TEST(UnsetVariables, NothingIsSaidWhereTheyMayBeSet) {
  for (const char* text :
       {"DATA=/d\npython t.py $DATA",
        "export DATA=/d && python t.py ${DATA}/x",
        "export DATA\npython t.py $DATA",
        "for s in 1 2; do python t.py $s; done",
        "read -r X < f\npython t.py $X",
        "source env.sh\npython t.py $DATA",
        ". ./env.sh && python t.py $DATA",
        "eval \"$(conda shell.bash hook)\"; python t.py $DATA",
        "module load data\npython t.py $DATA",
        "conda activate a\npython t.py $DATA",
        "python t.py ${DATA:-/d}",
        "python t.py ${X:+-v} $X",
        ": ${X:=4}\npython t.py $X",
        "[ -n \"$X\" ] && A=1\npython t.py $X",
        "if [[ -z $X ]]; then exit 1; fi\npython t.py $X",
        "while getopts 'a:' opt; do :; done\npython t.py $A",
        "printf -v X %d 3\npython t.py $X",
        "A=(a b)\npython t.py ${A[@]}",
        "python t.py '$X' \\$Y",
        "python t.py $(awk '{print $NF}' f)",
        "python t.py \"$(sed -n '$p' f)\"",
        "python t.py $HOME $USER $PWD $HOSTNAME $RANDOM $SECONDS $SLURM_JOB_ID $CUDA_HOME",
        "PYTHONPATH=$PYTHONPATH:. python t.py",
        "cat <<'E'\n$X\nE\npython t.py $1 $@ $? $$"})
    EXPECT_EQ(Unset(text), "") << text;
}

}  // namespace
}  // namespace launch
