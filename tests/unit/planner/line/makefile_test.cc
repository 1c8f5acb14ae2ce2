// What `make TARGET` runs: recipes with their variables.
#include "planner/line/makefile.h"

#include <gtest/gtest.h>

#include "tests/unit/planner/public_line.h"

namespace launch {
namespace {

// cdluminate/MyNotes Makefile, and what others have beside
constexpr const char* kMakefile = R"(# trains
num_GPUs=1
ARGS := --dataset=mnist \
	--model=lenet
NODES ?= 2

.PHONY: train train-dist all

all: train

train: data
	@echo training on $(num_GPUs)
	python3 -m puftm.train $(ARGS)

data:
	-mkdir data

train-dist:
	torchrun --standalone --nproc_per_node=$(num_GPUs) \
		bin/train.py $(ARGS)

here:
	cd sub && pwd
	torchrun --nproc_per_node=2 $@.py $$HOME $(UNSET)

again:
	$(MAKE) train-dist num_GPUs=8

nodes:
	torchrun --nnodes=$(NODES) --nproc_per_node=4 t.py

uses: 
	torchrun --nproc_per_node=$(shell nproc) t.py
)";

std::string Recipes(const std::string& line, const std::string& makefile = kMakefile) {
  const auto script = ReadShell(line);
  const auto call = MakeCallOf(script->commands.front(), {});
  if (!call) return "no call";
  return RecipesOf(makefile, *call).value_or("not read");
}

TEST(Makefile, RecipesAreATextForTheShell) {
  EXPECT_EQ(
      Recipes("make train-dist num_GPUs=4"),
      "set -e\ntorchrun --standalone --nproc_per_node=4 \\\n\tbin/train.py --dataset=mnist  \t"
      "--model=lenet\n");
  EXPECT_EQ(Recipes("make -j 8"), Recipes("make train"));
  EXPECT_EQ(Recipes("make train"),
            "set -e\nmkdir data || true\necho training on 1\n(\npython3 -m puftm.train "
            "--dataset=mnist  \t--model=lenet\n)\n");
  EXPECT_EQ(Recipes("make -C runs here"),
            "cd runs\nset -e\n(\ncd sub && pwd\n)\n(\ntorchrun --nproc_per_node=2 here.py $HOME "
            "${UNSET}\n)\n");
  EXPECT_EQ(Recipes("make again"), "set -e\nmake train-dist num_GPUs=8\n");
  EXPECT_EQ(Recipes("make nodes"),
            "set -e\ntorchrun --nnodes=${NODES:-2} --nproc_per_node=4 t.py\n");
}

TEST(Makefile, WhatIsMoreIsNotRead) {
  EXPECT_EQ(Recipes("make uses"), "not read");
  EXPECT_EQ(Recipes("make missing"), "not read");
  EXPECT_EQ(Recipes("make --always-make train"), "no call");
  EXPECT_EQ(Recipes("make $X"), "no call");
  EXPECT_EQ(Recipes("cmake train"), "no call");
  const std::string train = "train:\n\ttorchrun t.py\n";
  EXPECT_EQ(Recipes("make train", train), "set -e\ntorchrun t.py\n");
  for (const char* more :
       {"ifdef X\nA=1\nendif\n", "include x.mk\n", "define run\nx\nendef\n", "train: N=2\n",
        "$(eval A=1)\n", "A != nproc\n", ".ONESHELL:\n", "x: ; torchrun a.py\n"}) {
    EXPECT_EQ(Recipes("make train", more + train), "not read") << more;
  }
  std::string many = "V0 =\n";
  for (int i = 1; i < 12; ++i) {
    many += "V" + std::to_string(i) + " =";
    for (int k = 0; k < 20; ++k) many += " $(V" + std::to_string(i - 1) + ")";
    many += "\n";
  }
  EXPECT_EQ(Recipes("make a", many + "a:\n\techo $(V11)\n"), "not read");
  EXPECT_EQ(Recipes("make a", "A = $(A)\na:\n\techo $(A)\n"), "not read");
  EXPECT_EQ(Recipes("make a", "a: b\n\techo\nb: a\n\techo\n"), "set -e\necho\necho\n");
}

TEST(Makefile, ALauncherOfARecipeIsStartedOncePerNode) {
  LaunchLineOptions options;
  options.files["Makefile"] = options.files["runs/Makefile"] = kMakefile;
  const auto read = [&](const char* run) { return Reading(ReadLaunchLine(run, options)); };
  EXPECT_EQ(read("make train-dist num_GPUs=4"), "node procs=4");
  EXPECT_EQ(read("cd runs && make again"), "node procs=8");
  EXPECT_EQ(read("make -C runs again"), "node procs=8");
  EXPECT_EQ(read("NODES=3 make nodes"), "node procs=4 nodes=3");
  EXPECT_EQ(read("make nodes"), "node procs=4 nodes=2");
  EXPECT_EQ(read("make train"), "plain");
  const auto line = ReadLaunchLine("make train-dist num_GPUs=4", options);
  ASSERT_TRUE(line);
  for (const Finding& one : line->warnings) EXPECT_NE(one.code, "script_unread") << one.says;
}

}  // namespace
}  // namespace launch
