// Paths that the line names, compared between the nodes of a job.
#include <gtest/gtest.h>

#include "preflight/path_check.h"
#include "tests/unit/preflight/scene.h"

namespace launch {
namespace {

PathFact Named(const std::string& what, bool ok) {
  return {what, "/data/train", ok, ok ? "" : "no such file or directory", 0};
}

PreflightReport Judge(const PathFact& first, const PathFact& second) {
  NodeInventory a;
  a.node.value = "gh01";
  NodeInventory b;
  b.node.value = "gh02";
  const std::vector<PathFact> on_a = {first};
  const std::vector<PathFact> on_b = {second};
  PreflightReport report;
  JudgeNamedPaths({{a, on_a}, {b, on_b}}, report);
  return report;
}

TEST(NamedPaths, DataOnOneNodeOnlyIsAnErrorWhereItIsMissing) {
  const PreflightReport report = Judge(Named("input", true), Named("input", false));
  ASSERT_EQ(Codes(report), std::vector<std::string>{"path_not_shared"});
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_EQ(report.findings[0].node, NodeId{"gh02"});
  EXPECT_TRUE(Contains(report.findings[0].says, "is on gh01 and not on gh02"));
}

TEST(NamedPaths, ADirectoryThatTakesNoCheckpointIsAnError) {
  PathFact dir{.what = "checkpoint", .path = "/proc/out", .ok = false, .why = "denied", .inode = 0};
  StagingFacts facts;
  facts.paths = {dir};
  const Scene scene;
  const Finding finding = JudgeStaging(scene.Allocation(), scene.node, facts).findings.at(0);
  EXPECT_EQ(finding.code, "disk_low");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_TRUE(Contains(finding.says, "cannot be written to /proc/out"));
  facts.paths[0].ok = true;
  EXPECT_TRUE(JudgeStaging(scene.Allocation(), scene.node, facts).findings.empty());
}

TEST(NamedPaths, WhatAPathIsForDecidesHowMuchItWeighs) {
  EXPECT_EQ(Judge(Named("argument", true), Named("argument", false)).findings.at(0).severity,
            Severity::kWarning);
  EXPECT_TRUE(Judge(Named("argument", false), Named("argument", false)).findings.empty());
  EXPECT_EQ(Judge(Named("input", false), Named("input", false)).findings.at(0).severity,
            Severity::kWarning);
}

TEST(NamedPaths, WhatIsThereIsListed) {
  const PreflightReport report = Judge(Named("input", true), Named("input", true));
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(report.checks.size(), 2u);
}

}  // namespace
}  // namespace launch
