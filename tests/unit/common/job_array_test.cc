#include "common/job_array.h"

#include <gtest/gtest.h>

#include "common/job.h"

namespace launch {
namespace {

std::string Error(const auto& result) { return result ? "" : result.error().message; }

TEST(JobArray, ReadsSlurmsGrammar) {
  EXPECT_EQ(ParseArray("1-3")->indices, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(ParseArray("9,0,3-5")->indices, (std::vector<int>{0, 3, 4, 5, 9}));
  EXPECT_EQ(ParseArray("0-20:5")->indices, (std::vector<int>{0, 5, 10, 15, 20}));
  EXPECT_EQ(ParseArray("1-20%4")->at_once, 4);
  EXPECT_EQ(ParseArray("7")->at_once, 0);
}

TEST(JobArray, RefusesWhatIsNoListOfIndices) {
  EXPECT_NE(Error(ParseArray("")), "");
  EXPECT_NE(Error(ParseArray("a")), "");
  EXPECT_NE(Error(ParseArray("1-")), "");
  EXPECT_NE(Error(ParseArray("3-1")).find("counts down"), std::string::npos);
  EXPECT_NE(Error(ParseArray("1,1")).find("twice"), std::string::npos);
  EXPECT_NE(Error(ParseArray("1-2%0")).find("%"), std::string::npos);
  EXPECT_NE(Error(ParseArray("0-4000000")).find("1000"), std::string::npos);
  EXPECT_NE(Error(ParseArray("0-5000000:1000000")).find("4000000"), std::string::npos);
  EXPECT_NE(Error(ParseArray("0-9:0")), "");
}

TEST(JobArray, ASweepIsTheGridOfItsParameters) {
  const auto sweep = MakeSweep({{"lr", {"1e-5", "3e-5"}}, {"seed", {"1", "2", "3"}}});
  ASSERT_TRUE(sweep.has_value());
  const std::vector<ArrayElement> elements = ElementsOf(*sweep);
  ASSERT_EQ(elements.size(), 6U);
  EXPECT_EQ(elements[0].values,
            (std::map<std::string, std::string>{{"lr", "1e-5"}, {"seed", "1"}}));
  EXPECT_EQ(elements[1].values.at("seed"), "2") << "the last one changes fastest";
  EXPECT_EQ(elements[5].values,
            (std::map<std::string, std::string>{{"lr", "3e-5"}, {"seed", "3"}}));
  EXPECT_EQ(elements[5].index, 5);
  EXPECT_NE(Error(MakeSweep({{"lr", {}}})), "");
  EXPECT_NE(Error(MakeSweep({{"a", std::vector<std::string>(40, "1")},
                             {"b", std::vector<std::string>(40, "1")}})),
            "");
}

TEST(JobArray, AnElementIsAJobOfItsOwn) {
  JobSpec whole;
  whole.name = "train";
  whole.array = *ParseArray("3,7%1");
  const JobSpec first = FirstElement(whole);
  EXPECT_EQ(first.name, "train_3");
  EXPECT_FALSE(first.array.has_value());
  EXPECT_EQ(first.element->at_once, 1);
  EXPECT_EQ(FirstElement(first), first) << "no array is left in it";
}

TEST(Dependencies, OfAnElementAskForItsOwnNumber) {
  const auto refused = ParseDependencies("afterok:43_1");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("an element of an array"), std::string::npos);
  EXPECT_NE(refused.error().hint.find("launch status 43_1"), std::string::npos);
}

TEST(Dependencies, AreSlurmsWords) {
  EXPECT_EQ(*ParseDependencies("17"),
            (std::vector<Dependency>{{DependencyKind::kAfterOk, JobId{17}}}));
  EXPECT_EQ(*ParseDependencies("afterany:17:18,afternotok:3"),
            (std::vector<Dependency>{{DependencyKind::kAfterAny, JobId{17}},
                                     {DependencyKind::kAfterAny, JobId{18}},
                                     {DependencyKind::kAfterNotOk, JobId{3}}}));
  EXPECT_EQ(*ParseDependencies("singleton"),
            (std::vector<Dependency>{{DependencyKind::kSingleton, JobId{0}}}));
  EXPECT_EQ(ToString(Dependency{DependencyKind::kAfterOk, JobId{17}}), "afterok:17");
}

TEST(Dependencies, RefuseWhatCannotBeMeant) {
  EXPECT_NE(Error(ParseDependencies("afterok:1?afterok:2")).find("one of several"),
            std::string::npos);
  EXPECT_NE(Error(ParseDependencies("afterwards:1")).find("afterwards"), std::string::npos);
  EXPECT_NE(Error(ParseDependencies("afterok")).find("no job"), std::string::npos);
  EXPECT_NE(Error(ParseDependencies("afterok:x")).find("`x`"), std::string::npos);
  EXPECT_NE(Error(ParseDependencies("singleton:3")).find("singleton"), std::string::npos);
}

}  // namespace
}  // namespace launch
