// What a start looked at goes into one event and comes back.
#include "preflight/checked_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/preflight/scene.h"

namespace launch {
namespace {

Check CheckOf(const std::string& name, const std::string& node, CheckResult result) {
  return {name, NodeId{node}, result, name + " of " + node,
          result == CheckResult::kPass ? "" : "disk_low"};
}

TEST(CheckedText, ComesBackAsItWas) {
  const std::vector<Check> checks = {
      CheckOf("workdir", "gh01", CheckResult::kPass),
      CheckOf("disk space", "gh01", CheckResult::kWarn),
      {"network", std::nullopt, CheckResult::kPass, "3 pairs of nodes meet", ""}};
  const std::string text = CheckedText(checks);
  EXPECT_TRUE(text.starts_with("3 checks: 2 passed, 1 with a warning\n")) << text;
  EXPECT_EQ(ParseChecked(text), checks);
}

TEST(CheckedText, LineEndsAndTabsOfASentenceMakeNoLinesOfTheirOwn) {
  Check check = CheckOf("workdir", "gh01", CheckResult::kPass);
  check.says = "a\nfail\tdisk space\tgh01\tdisk_low\tforged";
  const std::vector<Check> back = ParseChecked(CheckedText({check}));
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].result, CheckResult::kPass);
  EXPECT_TRUE(Contains(back[0].says, "a fail disk space"));
}

TEST(CheckedText, AThousandNodesTakeAFewLinesOfEachCheck) {
  std::vector<Check> checks;
  for (int i = 0; i < 1000; ++i)
    checks.push_back(CheckOf("workdir", "gpu" + std::to_string(1000 + i), CheckResult::kPass));
  const std::string text = CheckedText(checks);
  EXPECT_LT(text.size(), 4096U);
  const std::vector<Check> back = ParseChecked(text);
  ASSERT_EQ(back.size(), 9U);
  EXPECT_EQ(back.back().says, "and 992 more: gpu[1008-1999]");
}

TEST(CheckedText, HasABound) {
  std::vector<Check> checks;
  for (int i = 0; i < 1000; ++i)
    checks.push_back(CheckOf("check " + std::to_string(i), "gh01", CheckResult::kPass));
  EXPECT_LE(CheckedText(checks).size(), 4U << 10);
}

TEST(CheckedText, WhatPassedIsCutFirst) {
  std::vector<Check> checks;
  for (int i = 0; i < 200; ++i)
    checks.push_back(CheckOf("check " + std::to_string(i), "gh01", CheckResult::kPass));
  for (int i = 0; i < 5; ++i) {
    checks.push_back(CheckOf("warned " + std::to_string(i), "gh01", CheckResult::kWarn));
    checks.push_back(CheckOf("failed " + std::to_string(i), "gh01", CheckResult::kFail));
  }
  const std::string text = CheckedText(checks);
  EXPECT_LE(text.size(), 4U << 10);
  EXPECT_TRUE(text.starts_with("210 checks: 200 passed, 5 with a warning, 5 failed\n")) << text;
  const std::vector<Check> back = ParseChecked(text);
  const auto count = [&](CheckResult result) {
    return std::ranges::count(back, result, &Check::result);
  };
  EXPECT_EQ(count(CheckResult::kFail), 5);
  EXPECT_EQ(count(CheckResult::kWarn), 5);
  EXPECT_GT(count(CheckResult::kPass), 20);
  EXPECT_EQ(back.front().check, "check 0") << "order is kept";
}

TEST(CheckedText, WhatIsNoLineIsLeftOut) {
  EXPECT_TRUE(ParseChecked("").empty());
  EXPECT_TRUE(ParseChecked("a sentence\nand another\nnever\ta\tb\tc\td\n\n").empty());
}

}  // namespace
}  // namespace launch
