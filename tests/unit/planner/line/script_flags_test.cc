#include "planner/line/script_flags.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

std::vector<ScriptFlag> Read(const std::string& text) {
  const auto script = ReadShell(text);
  return script ? ReadScriptFlags(script->commands.at(0).words) : std::vector<ScriptFlag>{};
}

TEST(ScriptFlags, AreReadInBothSpellings) {
  const auto flags = Read("python t.py --micro-batch 4 data --Lr=\"1e-3\" --on --steps -1 -v");
  ASSERT_EQ(flags.size(), 4u);
  EXPECT_EQ(flags[0], (ScriptFlag{"micro_batch", "--micro-batch", "--micro-batch 4", "4", false}));
  EXPECT_EQ(flags[1].name, "Lr");
  EXPECT_EQ(flags[1].flag, "--Lr");
  EXPECT_EQ(flags[1].value, "1e-3");
  EXPECT_FALSE(flags[2].value);
  EXPECT_EQ(flags[3].value, "-1");
}

TEST(ScriptFlags, LeaveVariablesToTheStart) {
  const auto flags = Read("t --bs $BS --lr=$LR --empty '' --last");
  ASSERT_EQ(flags.size(), 4u);
  EXPECT_TRUE(flags[0].late);
  EXPECT_FALSE(flags[0].value);
  EXPECT_EQ(flags[0].text, "--bs $BS");
  EXPECT_TRUE(flags[1].late);
  EXPECT_EQ(flags[1].flag, "--lr");
  EXPECT_EQ(flags[2].value, "");
  EXPECT_FALSE(flags[3].value);
}

TEST(ScriptFlags, TakeNoFlagForAValue) {
  const auto flags = Read("t -- --deepspeed --deepspeed_config ds.json --");
  ASSERT_EQ(flags.size(), 2u);
  EXPECT_FALSE(flags[0].value);
  EXPECT_EQ(flags[1].value, "ds.json");
}

}  // namespace
}  // namespace launch
