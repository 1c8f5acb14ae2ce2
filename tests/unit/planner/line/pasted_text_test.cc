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
