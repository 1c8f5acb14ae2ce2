#include "cli/conda_names.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

TEST(CondaNames, LieWhereCondaSays) {
  const CondaFacts facts{"/home/ana/envs/train", "/opt/conda/bin/conda",
                         "/opt/conda\n/data/envs/eval/\n"};
  EXPECT_EQ(*CondaPrefix("train", facts), "/home/ana/envs/train");
  EXPECT_EQ(*CondaPrefix("eval", facts), "/data/envs/eval");
  EXPECT_EQ(*CondaPrefix("base", facts), "/opt/conda");
  EXPECT_EQ(*CondaPrefix("/x/y", facts), "/x/y") << "a path is the environment itself";
}

TEST(CondaNames, AnUnknownOneIsRefusedWithThoseThatAreKnown) {
  const auto unknown = CondaPrefix("tarin", {"/home/ana/envs/train", "", "/data/envs/eval\n"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(unknown.error().hint.find("train, eval"), std::string::npos);
  EXPECT_NE(CondaPrefix("x", {}).error().hint.find("path"), std::string::npos);
}

}  // namespace
}  // namespace launch
