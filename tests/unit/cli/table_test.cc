#include "cli/table.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

Table Jobs() {
  return {{{"ID", true, false}, {"NAME", false, true}, {"REASON", false, true}},
          {{"7", "short", "-"}, {"4211", "a-very-long-name-of-a-job", "Resources: 8 H100 free"}}};
}

TEST(Table, AlignsAndWritesNoTrailingBlanks) {
  EXPECT_EQ(FormatTable(Jobs(), 0),
            "  ID  NAME                       REASON\n"
            "   7  short                      -\n"
            "4211  a-very-long-name-of-a-job  Resources: 8 H100 free\n");
}

TEST(Table, ShortensElasticColumnsToTheTerminal) {
  const std::string text = FormatTable(Jobs(), 40);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    EXPECT_LE(DisplayWidth(std::string_view(text).substr(start, end - start)), 40u);
    start = end + 1;
  }
  EXPECT_NE(text.find("…"), std::string::npos);
  EXPECT_NE(text.find("4211"), std::string::npos);
}

TEST(Table, KeepsAtLeastEightCharactersInANarrowTerminal) {
  EXPECT_NE(FormatTable(Jobs(), 5).find("a-very-…"), std::string::npos);
}

TEST(Table, KeepsARowOnOneLine) {
  const Table table{{{"A", false, true}, {"B", false, false}},
                    {{"torchrun \\\n\t--nproc 2\n", "x"}}};
  EXPECT_EQ(FormatTable(table, 0), "A                    B\ntorchrun --nproc 2   x\n");
}

TEST(Table, CountsCharactersAndNotBytes) {
  EXPECT_EQ(DisplayWidth("Zürich"), 6u);
  const Table table{{{"A", false, true}, {"B", false, false}}, {{"Zürich", "x"}, {"Berlin", "y"}}};
  EXPECT_EQ(FormatTable(table, 0), "A       B\nZürich  x\nBerlin  y\n");
}

}  // namespace
}  // namespace launch
