// What a line keeps of the page, the notebook or the editor that it was copied from.
#include "planner/line/pasted_text.h"

#include <gtest/gtest.h>

#include <string>

#include "planner/line/launch_line.h"

namespace launch {
namespace {

std::string Refusal(const std::string& run) {
  const auto line = ReadLaunchLine(run, {});
  return line ? std::string() : line.error().message;
}

std::string Pasted(const Result<LaunchLine>& line) {
  if (!line) return line.error().message;
  for (const Finding& one : line->warnings)
    if (one.code == "pasted_characters") return one.says;
  return {};
}

TEST(PastedText, WhatNoProgramIsCalledIsRefused) {
  EXPECT_EQ(Refusal("$ torchrun --nproc_per_node=2 t.py"),
            "run: line 1 begins with `$`, which is no program: it is of a terminal's prompt");
  EXPECT_EQ(Refusal("!torchrun --nproc_per_node=2 t.py"),
            "run: line 1 begins with `!`, which is no program: it is of a notebook");
  EXPECT_NE(Refusal("%%bash\ntorchrun t.py").find("`%%bash`"), std::string::npos);
  EXPECT_NE(Refusal("%cd repo\npython t.py").find("`%cd`"), std::string::npos);
  EXPECT_NE(Refusal("torchrun\xC2\xA0--nproc_per_node=2 t.py").find("blank"), std::string::npos);
  EXPECT_EQ(Refusal("torchrun \xE2\x80\x93nproc_per_node=2 t.py"),
            "run: `\xE2\x80\x93nproc_per_node=2` begins with a dash that torchrun does not take "
            "for `-`: it would be the script");
  EXPECT_EQ(Refusal("\xEF\xBB\xBF#!/bin/bash\ntorchrun --nproc_per_node=2 t.py\n"), "");
  EXPECT_EQ(Refusal("'./my\xC2\xA0model/train' -x"), "");
  EXPECT_EQ(Refusal("$env:CUDA_VISIBLE_DEVICES = \"0,1\"\npython t.py"),
            "run: line 1: `$env:CUDA_VISIBLE_DEVICES` is of PowerShell, and bash runs the text");
  // Of bash itself.
  EXPECT_EQ(Refusal("! python t.py"), "");
  EXPECT_EQ(Refusal("$PYTHON t.py"), "");
}

// robodiff's README, terminals of clusters and containers.
TEST(PastedText, APromptWithAPlaceInItIsRefused) {
  EXPECT_EQ(Refusal("ana@gpu:~$ torchrun --nproc_per_node=2 t.py"),
            "run: line 1 begins with `ana@gpu:~$`, which is no program: it is of a terminal's "
            "prompt");
  for (const std::string prompt :
       {"(base) ana@gpu:~/x$", "root@x:/w#", "(robodiff)[diffusion_policy]$", "[ana@gpu x]$",
        "[root@gpu ~]#", "(base) $", "(my-env.2)(base) ana@gpu:/w$", "~/proj$", ">"}) {
    for (const std::string command : {" torchrun --nproc_per_node=2 t.py", " python t.py"}) {
      EXPECT_NE(Refusal("# first\n" + prompt + command).find("line 2 begins with `" + prompt + "`"),
                std::string::npos)
          << prompt << command;
    }
  }
  // Of bash itself.
  for (const char* run :
       {"[ -f x ] && python t.py", "[[ -f x ]] && python t.py", "(cd x && python t.py)",
        "> log.txt\npython t.py", "> log.txt python t.py", "> python\npython t.py",
        "A=$ python t.py", "./t.sh $ x", "\"a@b:c$\" x", "$PYTHON t.py", "x=(a b); python t.py",
        "user@host t.py"})
    EXPECT_EQ(Refusal(run), "") << run;
}

// openvla, VMamba, DCLM, openpi and other READMEs.
TEST(PastedText, WhatStandsForAValueIsRefused) {
  const std::string line = "torchrun --nproc_per_node=8 t.py ";
  EXPECT_EQ(Refusal(line + "--data <path_to_data> --out out"),
            "run: `<path_to_data>` is a placeholder");
  EXPECT_EQ(Refusal(line + "--cfg </path/to/config> --batch-size 128 --data </path/of/data>"),
            "run: `</path/to/config>` is a placeholder");
  EXPECT_EQ(Refusal(line + "\\\n --ckpt <PATH TO x/y FILE: step-1-loss=0.2.pt> \\\n  --type a"),
            "run: `<PATH TO x/y FILE: step-1-loss=0.2.pt>` is a placeholder");
  EXPECT_EQ(Refusal(line + "--data <dir>"), "run: `<dir>` is a placeholder");
  EXPECT_EQ(Refusal(line + "--data=<dir> --x"), "run: `<dir>` is a placeholder");
  EXPECT_EQ(Refusal("python t.py <data_dir> <out_dir>"), "run: `<data_dir>` is a placeholder");
  EXPECT_EQ(Refusal("uv run torchrun --nproc_per_node=<num_gpus> t.py <config_name> --exp <run>"),
            "run: `<num_gpus>` is a placeholder");
  for (const char* run :
       {"python t.py < in.txt > out.txt", "python t.py <in.txt >out.txt",
        "python t.py <in.txt> out.txt", "python t.py <in> out", "python t.py < a >b",
        "python t.py <in.txt >out.txt --lr 1", "python t.py <in 2>&1", "python t.py <in >>log -x",
        "python t.py --p '<a b>' --q \"<c>\" -x", "python t.py --p '<in> -x' < in > out",
        "python t.py <<EOF\n<a> -b\nEOF", "cat <(echo a) > b; python t.py", "python t.py <>x",
        "python t.py <<< a > b # <a> -x", "python t.py <$IN >$OUT"})
    EXPECT_EQ(Refusal(run), "") << run;
}

// Firefly and LeRobot; a line of the latter is cut by dots, another has the launcher twice.
TEST(PastedText, PlaceholdersAmongALaunchersFlagsAreRefused) {
  EXPECT_EQ(Refusal("torchrun --nproc_per_node={num_gpus} t.py"),
            "run: `--nproc_per_node={num_gpus}` is a placeholder");
  EXPECT_EQ(Refusal("deepspeed --num_gpus={num_gpus} t.py"),
            "run: `--num_gpus={num_gpus}` is a placeholder");
  EXPECT_EQ(Refusal("torchrun --nnodes [N] --nproc_per_node 8 t.py"),
            "run: `--nnodes [N]` is a placeholder");
  EXPECT_EQ(Refusal("accelerate launch --num_processes {N} t.py"),
            "run: `--num_processes {N}` is a placeholder");
  EXPECT_EQ(Refusal("torchrun --nnodes=2 --nproc-per-node=8 ... $(which lerobot-train) --x"),
            "run: `...` is a placeholder");
  EXPECT_EQ(Refusal("torchrun --nproc_per_node=8 torchrun --nproc_per_node=4 inference.py"),
            "run: `torchrun` stands where torchrun takes its script: the line has two launchers");
  EXPECT_EQ(Refusal("torchrun --nproc_per_node=8 torchrun.py --p {a} [X] ..."), "");
  EXPECT_EQ(Refusal("torchrun --nproc_per_node=8 t.py --cmd torchrun"), "");
  EXPECT_EQ(Refusal("torchrun --nproc_per_node=${N} t.py"), "");
}

// musubi-tuner's line as some pages show it.
TEST(PastedText, ALineOfFlagsLacksABackslash) {
  EXPECT_EQ(Refusal("torchrun --nproc_per_node=2 t.py\n  --lr 1e-4"),
            "run: line 2 begins with a flag, `--lr`: line 1 lacks a backslash at its end");
  EXPECT_EQ(Refusal("uv run accelerate launch t.py \\\n  --a 1\n  --b 2 -c"),
            "run: line 3 begins with a flag, `--b`: line 2 lacks a backslash at its end");
  EXPECT_EQ(Refusal("torchrun --nproc_per_node=2 t.py \\\n  --lr 1e-4"), "");
  EXPECT_EQ(Refusal("A=(a\n --b\n)\npython t.py ${A[@]}"), "");
  EXPECT_EQ(Refusal("case $1 in\n--a) x=1\n;;\n--b)\ny=2\n;;\nesac\npython t.py"), "");
  EXPECT_EQ(Refusal("cat <<E > f\n--a\nE\npython t.py"), "");
}

TEST(PastedText, OtherCharactersAreSaid) {
  EXPECT_NE(Pasted(ReadLaunchLine("python t.py \xE2\x80\x94lr 1", {})).find("a dash"),
            std::string::npos);
  EXPECT_NE(Pasted(ReadLaunchLine("python t.py --p \xE2\x80\x9C"
                                  "a b\xE2\x80\x9D",
                                  {}))
                .find("a quote"),
            std::string::npos);
  EXPECT_EQ(Pasted(ReadLaunchLine("python t.py --p 'a \xE2\x80\x94 b' \xE2\x80\x94", {})), "");
}

TEST(PastedText, LineEndsOfWindowsInAScriptAreSaid) {
  LaunchLineOptions options;
  options.files["t.sh"] = "set -e\r\ntorchrun --nproc_per_node=2 t.py\r\n";
  EXPECT_NE(Pasted(ReadLaunchLine("bash t.sh", options)).find("t.sh has line ends of Windows"),
            std::string::npos);
  options.files["t.sh"] = "set -e\ntorchrun --nproc_per_node=2 t.py\n";
  EXPECT_EQ(Pasted(ReadLaunchLine("bash t.sh", options)), "");
}

}  // namespace
}  // namespace launch
