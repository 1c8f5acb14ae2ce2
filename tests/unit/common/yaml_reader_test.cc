#include "common/yaml_reader.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

Error ErrorOf(std::string_view text) {
  auto parsed = ParseYaml(text, "job.yaml");
  EXPECT_FALSE(parsed) << text;
  return parsed ? Error{} : parsed.error();
}

TEST(Yaml, KeepsScalarsAsWritten) {
  const auto root = ParseYaml("time: 12:00:00\nflag: on\nrate: 1e5\nrange: 2:4\n", "job.yaml");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->Find("time")->scalar, "12:00:00");
  EXPECT_EQ(root->Find("flag")->scalar, "on");
  EXPECT_EQ(root->Find("rate")->scalar, "1e5");
  EXPECT_EQ(root->Find("range")->scalar, "2:4");
}

TEST(Yaml, KnowsWhereEveryValueStands) {
  const auto root = ParseYaml("a: 1\nb:\n  c: [x, y]\n", "job.yaml");
  const YamlNode* c = root->Find("b")->Find("c");
  EXPECT_EQ(c->items[1].line, 3);
  EXPECT_EQ(c->items[1].column, 10);
}

TEST(Yaml, TellsQuotedFromPlain) {
  const auto root = ParseYaml("a: '2:4'\nb: 2\nc: |\n  text\n", "job.yaml");
  EXPECT_TRUE(root->Find("a")->quoted);
  EXPECT_FALSE(root->Find("b")->quoted);
  EXPECT_EQ(root->Find("c")->scalar, "text\n");
}

TEST(Yaml, RefusesDuplicateKeysWithBothLines) {
  const Error error = ErrorOf("nodes: 1\nname: x\nnodes: 2\n");
  EXPECT_NE(error.message.find("'nodes' is given twice (first on line 1)"), std::string::npos);
  EXPECT_EQ(error.where->line, 3);
}

TEST(Yaml, RefusesAQuoteThatIsNotClosed) {
  for (const std::string text :
       {"a: 1\nrun: \"python x\nretry: 3\n", "a: 1\nrun: 'python x\nretry: 3\n",
        "a: 1\nrun: 'python ''x''\nretry: 3", "a: 1\nrun: \"a \\\" b\nretry: 3",
        "\xEF\xBB\xBF"
        "a: 1\nrun: \"b\n",
        "a: [b]\nrun: \"c\n", "a: \"x\"\nb: [1, \"2]\n"}) {
    const Error error = ErrorOf(text);
    EXPECT_NE(error.message.find("that opens here"), std::string::npos) << text << error.message;
    EXPECT_EQ(error.where->line, 2) << text;
  }
  EXPECT_EQ(ParseYaml("a: 'x\n\n  it''s'\n", "job.yaml")->Find("a")->scalar, "x\nit's");
  EXPECT_EQ(ParseYaml("a: \"\\\"\"", "job.yaml")->Find("a")->scalar, "\"");
  EXPECT_EQ(ParseYaml("a: |\n  it's\n", "job.yaml")->Find("a")->scalar, "it's\n");
  EXPECT_EQ(ParseYaml("# it's\na: b # it's\n", "job.yaml")->Find("a")->scalar, "b");
}

TEST(Yaml, RefusesAnchorsAliasesMergeKeysAndTags) {
  for (const char* text :
       {"a: &x 1\n", "a: *x\n", "<<: {a: 1}\n", "a: !!python/object x\n", "a: !t x\n"}) {
    EXPECT_EQ(ErrorOf(text).code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(Yaml, AnAliasBombCostsNoMoreThanItsText) {
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 60; ++i) {
    const std::string p = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + p + ", " + p + "]\n";
  }
  EXPECT_NE(ErrorOf(bomb).message.find("anchors"), std::string::npos);
}

TEST(Yaml, RefusesWhatIsNoJobFile) {
  EXPECT_NE(ErrorOf("").message.find("empty"), std::string::npos);
  EXPECT_NE(ErrorOf("  \n\n").message.find("empty"), std::string::npos);
  EXPECT_NE(ErrorOf("# only a comment\n").message.find("empty"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string("a: \0b", 5)).message.find("control character"), std::string::npos);
  EXPECT_NE(ErrorOf("a: \xff\xfe\n").message.find("UTF-8"), std::string::npos);
  EXPECT_NE(ErrorOf(std::string(300 * 1024, 'x')).message.find("256 KiB"), std::string::npos);
  EXPECT_NE(ErrorOf("a: 1\n---\nb: 2\n").message.find("several documents"), std::string::npos);
  EXPECT_EQ(ErrorOf("a: [1, 2\n").message.rfind("a list that begins with `[`", 0), 0u);
  EXPECT_NE(ErrorOf("a:\n\t- b\n").message.find("a tab stands in the indentation"),
            std::string::npos);
}

TEST(Yaml, SaysWhatToWriteInstead) {
  struct Row {
    const char* text;
    const char* says;
    const char* hint;
    int line;
    int column;
  };
  for (const Row& row : {
           Row{"run: echo a: b\n", "`: ` stands within a value", "quotes around the whole", 1, 12},
           Row{"run: |\n  python t.py\n gpus: 2\n", "indented unlike", "same column", 3, 2},
           Row{"run: python t.py\n  gpus: 2\n", "indented unlike", "same column", 2, 7},
           Row{"run: \"python\" train.py\n", "behind a value", "whole value", 1, 15},
           Row{"run: [ -f x ] && python t.py\n", "behind a value", "whole value", 1, 15},
           Row{"run: 'it's x'\n", "behind a value", "whole value", 1, 10},
           Row{"run: | python t.py\n", "on the line below", "next line", 1, 8},
           Row{"run: [python t.py\ngpus: 2\n", "begins with `[`", "close it with `]`", 2, 5},
           Row{"env: {A: 1\nb: c\n", "begins with `{`", "close it with `}`", 2, 2},
           Row{"run: ]\n", "nothing is open", "quotes", 1, 6},
           Row{"run: %x\n", "no value begins so", "quotes", 1, 6},
           Row{"run: @x y\n", "no value begins so", "quotes", 1, 6},
           Row{"run: & sleep\n", "no value begins so", "quotes", 1, 7},
           Row{"run: *.py\n", "stands for an anchor", "quotes", 1, 6},
           Row{"run: *all\n", "stands for an anchor", "quotes", 1, 6},
           Row{"env: - A\n", "a list cannot begin here", "line of its own", 1, 6},
           Row{"run: \"grep \\d+\"\n", "`\\` begins an escape", "single quotes", 1, 12},
       }) {
    const Error error = ErrorOf(row.text);
    EXPECT_NE(error.message.find(row.says), std::string::npos) << row.text << error.message;
    EXPECT_NE(error.hint.find(row.hint), std::string::npos) << row.text << error.hint;
    ASSERT_TRUE(error.where) << row.text;
    EXPECT_EQ(std::pair(error.where->line, error.where->column), std::pair(row.line, row.column))
        << row.text;
  }
}

TEST(Yaml, BoundsDepthKeysAndNodes) {
  EXPECT_NE(ErrorOf(std::string(200, '[') + std::string(200, ']')).message.find("nested"),
            std::string::npos);
  EXPECT_FALSE(ParseYaml(std::string(100000, '['), "job.yaml"));
  std::string keys;
  for (int i = 0; i < 1001; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  EXPECT_NE(ErrorOf(keys).message.find("1000 keys"), std::string::npos);
  std::string values = "a: [";
  for (int i = 0; i < 10001; ++i) values += "1,";
  EXPECT_NE(ErrorOf(values + "]").message.find("10000 values"), std::string::npos);
}

TEST(Yaml, AccessNamesFieldLineAndNearestKey) {
  const auto root = ParseYaml("batch:\n  globl: 64\n  micro: x\n", "job.yaml");
  const YamlMap batch(*root->Find("batch"), "job.yaml", "batch");
  const auto unknown = batch.AllowOnly({"global", "micro"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().hint, "did you mean 'global'?");
  EXPECT_EQ(unknown.error().where->line, 2);
  const auto number = batch.Int("micro");
  ASSERT_FALSE(number);
  EXPECT_EQ(FormatError(number.error()), "job.yaml:3:10: batch.micro: 'x' is not a whole number");
}

TEST(Yaml, ABooleanIsTrueOrFalseOnly) {
  const auto root = ParseYaml("a: true\nb: yes\n", "job.yaml");
  const YamlMap map(*root, "job.yaml", "");
  EXPECT_EQ(**map.Bool("a"), true);
  EXPECT_FALSE(map.Bool("b"));
}

TEST(Yaml, AListFieldTakesOneValueToo) {
  const auto root = ParseYaml("a: x\nb: [y, z]\nc: {d: 1}\n", "job.yaml");
  const YamlMap map(*root, "job.yaml", "");
  EXPECT_EQ(*map.StringList("a"), (std::vector<std::string>{"x"}));
  EXPECT_EQ(*map.StringList("b"), (std::vector<std::string>{"y", "z"}));
  EXPECT_FALSE(map.StringList("c"));
  EXPECT_FALSE(map.String("b"));
}

TEST(Yaml, EveryTruncationOfAFileIsReadOrRefused) {
  const std::string text = "a: [1, {b: 'c'}]\nd: |\n  x\n  y\ne: \"q\\n\"\n";
  for (std::size_t n = 0; n <= text.size(); ++n) (void)ParseYaml(text.substr(0, n), "job.yaml");
}

TEST(Yaml, AMissingFileAndADirectoryAreNamed) {
  EXPECT_EQ(ReadYamlFile("/no/such/file.yaml").error().code, ErrorCode::kNotFound);
  EXPECT_NE(ReadYamlFile("/").error().message.find("directory"), std::string::npos);
}

}  // namespace
}  // namespace launch
