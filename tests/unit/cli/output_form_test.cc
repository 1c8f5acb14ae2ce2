#include "cli/output_form.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

using Names = std::vector<std::string>;

Table Jobs() {
  return {{{"ID", true, false}, {"NAME", false, true}, {"NODELIST(REASON)", false, true}},
          {{"7", "sft", "gpu[01-02]"}, {"8", "a \"b\"", "(Resources: 8 H100, 1 GPU\nfree)"}}};
}

TEST(OutputForm, NamesAFormAndItsColumns) {
  EXPECT_EQ(ParseOutputForm("wide")->name, "wide");
  EXPECT_EQ(ParseOutputForm("csv")->name, "csv");
  EXPECT_TRUE(ParseOutputForm("csv")->columns.empty());
  EXPECT_EQ(ParseOutputForm("csv=ID,ST")->columns, (Names{"ID", "ST"}));
  EXPECT_EQ(ParseOutputForm("custom=id, name")->columns, (Names{"id", "name"}));
}

TEST(OutputForm, RefusesWhatIsNone) {
  for (const char* text :
       {"", "xml", "custom", "custom=", "custom=,", "custom=ID,,ST", "custom=ID,", "json=ID"}) {
    const auto form = ParseOutputForm(text);
    ASSERT_FALSE(form) << text;
    EXPECT_EQ(form.error().code, ErrorCode::kInvalidArgument) << text;
  }
  EXPECT_NE(ParseOutputForm("xml").error().hint.find("csv, custom="), std::string::npos);
}

TEST(OutputForm, ColumnsStandInTheOrderAskedForInAnyCase) {
  const auto chosen = SelectColumns(Jobs(), {"nodelist", "Id"});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(FormatTable({chosen->columns, {chosen->rows[0]}}, 0),
            "NODELIST(REASON)  ID\n"
            "gpu[01-02]         7\n");
  EXPECT_TRUE(SelectColumns(Jobs(), {"NODELIST(REASON)"}));
  EXPECT_EQ(SelectColumns(Jobs(), {})->columns.size(), 3u);
}

TEST(OutputForm, AnUnknownColumnIsToldWhichThereAre) {
  const auto chosen = SelectColumns(Jobs(), {"ID", "NODE"});
  ASSERT_FALSE(chosen);
  EXPECT_EQ(FormatError(chosen.error()),
            "there is no column `NODE`\n  hint: there are ID, NAME, NODELIST(REASON)");
}

TEST(OutputForm, CsvQuotesWhatNeedsIt) {
  EXPECT_EQ(FormatCsv(Jobs()),
            "ID,NAME,NODELIST(REASON)\n"
            "7,sft,gpu[01-02]\n"
            "8,\"a \"\"b\"\"\",\"(Resources: 8 H100, 1 GPU\nfree)\"\n");
}

TEST(OutputForm, CsvOfNothingHasItsTitles) {
  EXPECT_EQ(FormatCsv({{{"GPU", false, false}, {"NODE", false, false}}, {}}), "GPU,NODE\n");
}

}  // namespace
}  // namespace launch
