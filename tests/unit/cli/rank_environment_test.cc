#include "cli/rank_environment.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace launch {
namespace {

using namespace std::string_view_literals;

JobView Planned() {
  JobView job;
  job.id = JobId{7};
  job.spec = JobSpec{};
  job.spec->secrets = {"TOKEN"};
  AttemptView attempt;
  attempt.attempt = Attempt{2};
  attempt.env = {{"MASTER_ADDR", "10.0.0.1"}};
  job.attempts = {attempt};
  job.plan = Plan{};
  RankAssignment rank;
  rank.node = NodeId{"node1"};
  rank.env = {{"CONDA_PREFIX", "/opt/envs/a"},
              {"LAUNCH_STACKS", ""},
              {"MASTER_ADDR", "probable"},
              {"PYTHONPATH", "/mine"}};
  job.plan->assignments = {rank};
  job.plan->late = {"LAUNCH_STACKS", "MASTER_ADDR"};
  return job;
}

bool Has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(RankEnvironment, OfAPlanSaysWhatOnlyTheNodeSets) {
  const auto planned = PlannedEnvironment(Planned(), 0);
  ASSERT_TRUE(planned);
  const std::string text = EnvironmentText(*planned);
  EXPECT_TRUE(Has(text, "# rank 0 of job 7, attempt 2, on node1, as planned")) << text;
  EXPECT_TRUE(Has(text, "export MASTER_ADDR=10.0.0.1")) << text;
  EXPECT_TRUE(Has(text, "# LAUNCH_STACKS is set on the node")) << text;
  EXPECT_TRUE(Has(text, "# TOKEN is set on the node: a secret of the job")) << text;
  EXPECT_NE(text.find("# in front of PYTHONPATH"), std::string::npos) << text;
  EXPECT_NE(text.find("activate.d"), std::string::npos) << text;
  EXPECT_FALSE(PlannedEnvironment(Planned(), 1));
}

TEST(RankEnvironment, SaysWhichTextStartsAProcessOfALauncher) {
  JobView job = Planned();
  job.plan->start = StartKind::kPerNode;
  job.plan->processes = {2, 2, 1};
  const auto refused = PlannedEnvironment(job, 1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("process 1 of job 7 is started by the launcher"),
            std::string::npos);
  EXPECT_EQ(refused.error().hint, "launch env 7 --rank 0");
  EXPECT_NE(EnvironmentText(*PlannedEnvironment(job, 0))
                .find("# the launcher in run starts processes 0 to 1"),
            std::string::npos);
  EXPECT_NE(PlannedEnvironment(job, 2).error().message.find("has ranks 0 to 0"), std::string::npos);
}

TEST(RankEnvironment, SaysThatATextFindsItsLaunchersBeforePath) {
  JobView job = Planned();
  job.plan->assignments[0].env["LAUNCH_WRAPPERS"] = "";
  const auto note = [&] {
    return EnvironmentText(*PlannedEnvironment(job, 0)).find("# the text of run finds torchrun") !=
           std::string::npos;
  };
  EXPECT_FALSE(note()) << "a rank started directly calls none";
  job.plan->start = StartKind::kPerNode;
  EXPECT_TRUE(note());
  EXPECT_NE(EnvironmentText(
                EnvironmentOfNode(*PlannedEnvironment(job, 0), job, "LAUNCH_WRAPPERS=/a/files\0"sv))
                .find("in $LAUNCH_WRAPPERS"),
            std::string::npos);
}

TEST(RankEnvironment, OfARunningRankIsWhatItsNodeHasButItsSecrets) {
  const JobView job = Planned();
  const ShownEnvironment read = EnvironmentOfNode(
      *PlannedEnvironment(job, 0), job,
      "TWO=a\nb'c\0TOKEN=s3cret\0BASH_FUNC_torchrun%%=() { :; }\0PWD=/w\0EMPTY=\0PYTHONPATH=/hook:/mine\0"sv);
  EXPECT_TRUE(read.of_node);
  EXPECT_EQ(read.set.at("TWO"), "a\nb'c");
  EXPECT_EQ(read.set.at("EMPTY"), "");
  EXPECT_EQ(read.set.at("PYTHONPATH"), "/hook:/mine");
  const std::string text = EnvironmentText(read);
  EXPECT_EQ(text.find("s3cret"), std::string::npos) << text;
  EXPECT_TRUE(Has(text, "# TOKEN is set on the node: a secret of the job")) << text;
  EXPECT_EQ(text.find("export BASH_FUNC"), std::string::npos) << text;
  EXPECT_EQ(text.find("export PWD"), std::string::npos) << "the shell's own";
  EXPECT_EQ(text.find("MASTER_ADDR"), std::string::npos) << "the node does not have it";
  const auto json = nlohmann::json::parse(EnvironmentJson(read));
  EXPECT_EQ(json["source"], "node");
  EXPECT_EQ(json["env"]["PWD"], "/w");
  EXPECT_FALSE(json["env"].contains("TOKEN"));
  EXPECT_EQ(json["set_on_node"][0]["name"], "TOKEN");
}

}  // namespace
}  // namespace launch
