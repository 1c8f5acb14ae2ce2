#include "common/python_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace launch {
namespace {

TEST(WithoutNan, ReplacesBareWordsAndKeepsWhatStandsInStrings) {
  EXPECT_EQ(WithoutNan(R"({"a": NaN, "b": [Infinity, -Infinity, -1e-05]})"),
            R"({"a": null, "b": [null, null, -1e-05]})");
  for (const char* const kept : {"", R"({"NaN": "Infinity", "say \"NaN\"": "\\"})",
                                 R"(["-Infinity)", "Na", R"(["\)", "[nan, inf, Information]"}) {
    EXPECT_EQ(WithoutNan(kept), kept);
  }
}

TEST(WithoutNan, MakesNoJsonOfWhatIsNone) {
  for (const char* const broken : {"[NaN", "[-NaN]", "[1NaN]", "[NaN5]", "[NaNNaN]", "{NaN: 1}",
                                   "[--Infinity]", "[Inf]", R"({"a": Na)"}) {
    EXPECT_FALSE(nlohmann::json::accept(WithoutNan(broken))) << broken;
  }
}

}  // namespace
}  // namespace launch
