#include "planner/line/argument_paths.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

using Paths = std::vector<std::string>;

ArgumentPaths Read(const std::string& run) {
  const auto line = ReadLaunchLine(run, {});
  return line ? PathsOf(*line) : ArgumentPaths{};
}

TEST(ArgumentPaths, TellDataFromOutputs) {
  const ArgumentPaths paths = Read(
      "python t.py --data_dir /data/train --output_dir /scratch/out --model=/models/llama "
      "--seed 3 --warm /opt/x");
  EXPECT_EQ(paths.inputs, (Paths{"/data/train", "/models/llama"}));
  EXPECT_EQ(paths.others, Paths{"/opt/x"});
}

TEST(ArgumentPaths, AreReadBehindLaunchersAndInHydrasSpelling) {
  EXPECT_EQ(Read("torchrun --nproc-per-node 2 t.py --train-files /a /b").inputs,
            (Paths{"/a", "/b"}));
  EXPECT_EQ(Read("python t.py data.path=/d trainer.log_dir=/l").inputs, Paths{"/d"});
}

TEST(ArgumentPaths, WhatIsNotCertainIsLeftOut) {
  const ArgumentPaths paths = Read(
      "python t.py --data $DATA --data /d/* --data rel/x --data=/dev/null --data /d --data /d");
  EXPECT_EQ(paths.inputs, Paths{"/d"});
  EXPECT_TRUE(paths.others.empty());
}

}  // namespace
}  // namespace launch
