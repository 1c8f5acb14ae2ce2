// What a node refuses for is a finding like those of the checks before it.
#include "preflight/refusal_check.h"

#include <gtest/gtest.h>

#include "preflight/codes.h"
#include "tests/unit/preflight/scene.h"

namespace launch {
namespace {

const NodeId kNode{"gh01"};

TEST(RefusalCheck, PortsThatOthersHaveAreAnErrorThatNamesThem) {
  const auto finding = JudgeRefusal(kNode, "port_busy",
                                    "no free block of 4 ports in 29500-29503\n"
                                    "port 29502: process 4123 (python3 of ana)");
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->code, "port_busy");
  EXPECT_EQ(finding->severity, Severity::kError);
  EXPECT_EQ(finding->node, kNode);
  EXPECT_EQ(finding->says, "gh01 refused the start: no free block of 4 ports in 29500-29503");
  EXPECT_EQ(finding->evidence, "port 29502: process 4123 (python3 of ana)");
  EXPECT_EQ(finding->fix,
            std::vector<std::string>{"ss -tanp 'sport >= :29500 and sport <= :29503'"});
  EXPECT_TRUE(Contains(finding->remedy, "agent.yaml"));
}

// What is pasted into a shell holds no word that a node wrote.
TEST(RefusalCheck, NoWordOfTheNodeGetsIntoTheCommands) {
  const auto finding = JudgeRefusal(kNode, "port_busy", "none in 29500-$(reboot) 1-2;reboot");
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->fix, std::vector<std::string>{"ss -tanp"});
}

TEST(RefusalCheck, EveryReasonOfTheNodeHasACodeOfTheListEvidenceAndARemedy) {
  for (const auto& [refused, code] :
       std::vector<std::pair<std::string, std::string>>{{"gpu_busy", "gpu_busy"},
                                                        {"disk_full", "disk_low"},
                                                        {"gpu_unhealthy", "gpu_unhealthy"},
                                                        {"port_busy", "port_busy"}}) {
    const auto finding = JudgeRefusal(kNode, refused, "because");
    ASSERT_TRUE(finding) << refused;
    EXPECT_EQ(finding->code, code);
    EXPECT_TRUE(IsPreflightCode(finding->code));
    EXPECT_FALSE(finding->evidence.empty() || finding->remedy.empty() || finding->fix.empty());
  }
}

TEST(RefusalCheck, WhatIsAboutTheAttemptIsNoFindingOfTheNode) {
  for (const char* const code : {"stale_attempt", "digest", "wrong_node", "bad_spec", "dropped"})
    EXPECT_FALSE(JudgeRefusal(kNode, code, "because")) << code;
}

}  // namespace
}  // namespace launch
