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
  EXPECT_EQ(Recipes("make train-dist num_GPUs=4"),
            "set -e\nexport num_GPUs=4\ntorchrun --standalone --nproc_per_node=4 "
            "\\\n\tbin/train.py --dataset=mnist  \t"
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
  EXPECT_EQ(Recipes("make a", "a: x.o\n\techo\n%.o:\n\ttorchrun t.py\n"), "not read");
  EXPECT_EQ(Recipes("make -j2 a b", "a:\n\techo\nb:\n\techo\n"), "not read");
  EXPECT_EQ(Recipes("make -j1 a b", "a:\n\techo\nb:\n\techo\n"), "set -e\necho\necho\n");
}

TEST(Makefile, LargeOnesAreNotRead) {
  std::string targets;
  for (int i = 0; i < 65; ++i) targets += "a" + std::to_string(i) + " ";
  EXPECT_EQ(Recipes("make a0", targets + ":\n\techo\n"), "not read");
  EXPECT_EQ(Recipes("make a", "# " + std::string(64 * 1024, 'x') + "\na:\n\techo\n"), "not read");
  LaunchLineOptions options;
  options.files["Makefile"] =
      "# " + std::string(60 * 1024, 'x') + "\nt:\n\ttorchrun --nproc_per_node=2 t.py\n";
  EXPECT_EQ(Reading(ReadLaunchLine("make t", options)), "node procs=2");
  std::string many;
  for (int i = 0; i < 100; ++i) many += "make t\n";
  EXPECT_EQ(Reading(ReadLaunchLine(many, options)), "node procs=2");  // of the first few
}

TEST(Makefile, TheLastRecipeOfATargetCounts) {
  EXPECT_EQ(Recipes("make a", "a:\n\techo 1\n\techo 2\na:\n\techo 3\n"), "set -e\necho 3\n");
  EXPECT_EQ(Recipes("make", ".DEFAULT_GOAL := b\na:\n\techo a\nb:\n\techo b\n"),
            "set -e\necho b\n");
}

TEST(Makefile, ValuesAreThoseOfTheirTime) {
  EXPECT_EQ(
      Recipes("make a",
              "N := 4\nARGS := -n $(N)\nLATE = -n $(N)\nN := 1\na:\n\techo $(ARGS) $(LATE)\n"),
      "set -e\necho -n 4 -n 1\n");
  EXPECT_EQ(Recipes("make a", "N := 1\nN += 2\na:\n\techo $(N)\n"), "set -e\necho 1 2\n");
  EXPECT_EQ(Recipes("make a", "G := $(shell git log)\na:\n\techo\n"), "set -e\necho\n");
  EXPECT_EQ(Recipes("make a", "G := $(shell git log)\na:\n\techo $(G)\n"), "not read");
}

TEST(Makefile, WhatIsExportedReachesTheRecipe) {
  const std::string rule = "a:\n\ttorchrun --nproc_per_node=$$NGPU t.py\n";
  const std::string text = "torchrun --nproc_per_node=$NGPU t.py\n";
  EXPECT_EQ(Recipes("make a", "export NGPU = 2\n" + rule), "set -e\nexport NGPU=\"2\"\n" + text);
  EXPECT_EQ(Recipes("make a", "NGPU := 2\nexport NGPU\n" + rule),
            "set -e\nexport NGPU=\"2\"\n" + text);
  EXPECT_EQ(Recipes("make a", "NGPU := 2\nexport\n" + rule), "set -e\nexport NGPU=\"2\"\n" + text);
  EXPECT_EQ(Recipes("make a", "NGPU := 2\n" + rule), "set -e\n" + text);
  EXPECT_EQ(Recipes("make a NGPU=4", "export NGPU = 2\n" + rule), "set -e\nexport NGPU=4\n" + text);
  EXPECT_EQ(Recipes("make a", "export PATH := venv/bin:$(PATH)\na:\n\techo\n"),
            "set -e\nexport PATH=\"venv/bin:${PATH}\"\necho\n");
  EXPECT_EQ(Recipes("make a", "export NGPU = `nproc`\n" + rule), "not read");
  LaunchLineOptions options;
  options.files["Makefile"] =
      "NGPU = 1\ntrain:\n\t$(MAKE) run\nrun:\n\ttorchrun --nproc_per_node=$(NGPU) t.py\n";
  EXPECT_EQ(Reading(ReadLaunchLine("make train NGPU=4", options)), "node procs=4");
}

TEST(Makefile, FlagsMayStandTogether) {
  const std::string rule = "a:\n\techo\n";
  EXPECT_EQ(Recipes("make -Cruns a", rule), "cd runs\nset -e\necho\n");
  EXPECT_EQ(Recipes("make -fother.mk a", rule), "set -e\necho\n");
  EXPECT_EQ(Recipes("make -ks a", rule), "set -e\necho\n");
  EXPECT_EQ(Recipes("make -Bn a", rule), "no call");
  EXPECT_EQ(Recipes("make -I inc a", rule), "no call");
}

TEST(Makefile, LaunchersAtOnceAreRefused) {
  LaunchLineOptions options;
  options.files["Makefile"] = "a:\n\ttorchrun a.py\nb:\n\ttorchrun b.py\n";
  EXPECT_FALSE(ReadLaunchLine("make a & make b & wait", options));
  EXPECT_TRUE(ReadLaunchLine("make a; make b", options));
  const auto line = ReadLaunchLine("make a", options);
  ASSERT_TRUE(line);
  EXPECT_TRUE(line->runs_make);
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
