#include "planner/line/hjson.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace launch {
namespace {

// What Python's hjson 3.1.0 makes of each.
TEST(Hjson, BecomesTheJsonThatDeepspeedSees) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a": [1, 2.5e-3, true, null, "x"]})", R"({"a":[1,2.5e-3,true,null,"x"]})"},
      {"{a: 1, b: 2,}", R"({"a":1,"b":2})"},
      {"{\n a: 1\n b: [1\n 2,]\n}", R"({"a":1,"b":[1,2]})"},
      {"a: 1\nb: {}\n", R"({"a":1,"b":{}})"},
      {"// one\n{# two\n a /* no */: 1}", nullptr},
      {"// one\n{# two\n a: /* yes */ 1 // three\n /* four\n */}", R"({"a":1})"},
      {"{a: AdamW\n}", R"({"a":"AdamW"})"},
      {"{a: auto, b: 2}\n}", R"({"a":"auto, b: 2}"})"},  // to the end of the line
      {"{a: 1 # of two\n}", R"({"a":1})"},
      {"{a: x # of two\n}", R"({"a":"x # of two"})"},
      {"{a: 007\n}", R"({"a":"007"})"},
      {"{a: 'it\\'s \"so\"'}", R"({"a":"it's \"so\""})"},
      {"{a: 1, a: 2}", R"({"a":1,"a":2})"},
      {"\xef\xbb\xbf{a: -1}", R"({"a":-1})"},
      {"{a: true }", R"({"a":true})"},
      {"[]", "[]"},
      {"", nullptr},
      {"{", nullptr},
      {"{a: 1", nullptr},
      {"{a: }", nullptr},
      {"{a: 1}}", nullptr},
      {"{a b: 1}", nullptr},
      {"{: 1}", nullptr},
      {"{a: 1,, b: 2}", nullptr},
      {"{a: \"x\ny\"}", nullptr},
      {"{a: \"x", nullptr},
      {"{a: \"x\\", nullptr},
      {"{a: '''\nx\n'''}", nullptr},
      {"/* no end", nullptr},
  };
  for (const auto& [text, json] : cases) {
    const auto read = JsonOfHjson(text);
    if (json == nullptr) {
      ASSERT_FALSE(read) << text << " gave " << *read;
      EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
      EXPECT_TRUE(read.error().message.starts_with("line ")) << read.error().message;
    } else {
      ASSERT_TRUE(read) << text << ": " << read.error().message;
      EXPECT_EQ(*read, json) << text;
    }
  }
}

TEST(Hjson, EndsWhatIsNestedWithoutEnd) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{a:";
  const auto read = JsonOfHjson(deep);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("nested too deeply"), std::string::npos);
}

TEST(Hjson, ALongLineOfPunctuationIsReadOnce) {
  std::string text = "{a: x";
  while (text.size() < 1'000'000) text += ",";
  EXPECT_TRUE(JsonOfHjson(text + "\n}"));
}

}  // namespace
}  // namespace launch
