// The closed list of codes, its page, and the file of remedies.
#include "preflight/codes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "preflight/remedy_data.h"
#include "tests/unit/preflight/scene.h"

namespace launch {
namespace {

std::string FileText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::string(LAUNCH_SOURCE_DIR) + path).rdbuf();
  return text.str();
}

TEST(PreflightCodes, ThePageIsMadeFromTheTable) {
  EXPECT_EQ(FileText("/docs/preflight.md"), PreflightDocument())
      << "run: preflight-doc > docs/preflight.md";
}

TEST(PreflightCodes, AreDistinctAndSaySomething) {
  std::set<std::string_view> seen;
  for (const PreflightCode& row : PreflightCodes()) {
    EXPECT_TRUE(seen.insert(row.code).second) << row.code;
    EXPECT_FALSE(row.check.empty() || row.looks_at.empty() || row.remedy.empty()) << row.code;
    EXPECT_EQ(CheckOfCode(row.code), row.check);
  }
  EXPECT_FALSE(IsPreflightCode("cuda_oom"));
  EXPECT_EQ(CheckOfCode("cuda_oom"), "cuda_oom");
}

TEST(RemedyData, ComparesReleasesByNumbers) {
  EXPECT_TRUE(IsOlderRelease("2.0.1+cpu", "2.6.0"));
  EXPECT_TRUE(IsOlderRelease("2.6", "2.13.0"));
  EXPECT_FALSE(IsOlderRelease("2.13.0+cu126", "2.6.0"));
  EXPECT_FALSE(IsOlderRelease("2.6.0", "2.6.0"));
}

TEST(RemedyData, NamesOnlyAFrameworksIndexAndNvidiasRegistry) {
  const std::string text = FileText("/configs/remedies.yaml");
  for (std::size_t at = text.find("https://"); at != std::string::npos;
       at = text.find("https://", at + 1)) {
    EXPECT_EQ(text.compare(at, 30, "https://download.pytorch.org/w"), 0) << text.substr(at, 60);
  }
  EXPECT_TRUE(Contains(text, "image: nvcr.io/"));
}

TEST(RemedyData, AFileWithoutItsPartsIsRefused) {
  EXPECT_FALSE(RemedyData::Parse("wheels: {index: x}\n", "f").has_value());
  EXPECT_FALSE(RemedyData::Parse("other: 1\n", "f").has_value());
  EXPECT_TRUE(RemedyData::Parse(FileText("/configs/remedies.yaml"), "f").has_value());
}

}  // namespace
}  // namespace launch
