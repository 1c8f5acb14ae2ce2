#include "cli/up/settings.h"

#include <gtest/gtest.h>

#include "cli/up/hosts.h"
#include "common/agent_config.h"
#include "common/controller_config.h"

namespace launch::up {
namespace {

std::string NamesOf(const HostSet& set) {
  std::string names;
  for (const Host& host : set.hosts) names += (names.empty() ? "" : " ") + host.name;
  return names;
}

std::string AgentOf(const HostSet& set, std::size_t host) {
  return set.hosts.at(host).agent.value_or("(absent)");
}

TEST(UpSettings, AHostsOwnCountBeforeThoseOfAll) {
  const auto set = ReadHosts(
      "agent:\n  labels: {rack: b2, kind: \"h100\"}\n  port_range: 30000-30099\n"
      "  interpreters: [/opt/a/bin/python]\n"
      "controller: {certificate_life: 90d, operator_exec: true}\n"
      "hosts:\n  - gpu[01-02]\n"
      "  - name: gpu09\n    agent:\n      labels: {rack: c1}\n      gpu_ids: [0, 1]\n"
      "      interpreters: [/opt/b/bin/python, /opt/c/bin/python]\n",
      "hosts.yaml");
  ASSERT_TRUE(set) << FormatError(set.error());
  const std::string all =
      "interpreters: [/opt/a/bin/python]\nlabels: {rack: b2, kind: \"h100\"}\n"
      "port_range: 30000-30099\n";
  EXPECT_EQ(AgentOf(*set, 0), all);
  EXPECT_EQ(AgentOf(*set, 1), all);
  EXPECT_EQ(AgentOf(*set, 2),
            "gpu_ids: [0, 1]\ninterpreters: [/opt/b/bin/python, /opt/c/bin/python]\n"
            "labels: {rack: c1, kind: \"h100\"}\nport_range: 30000-30099\n");
  EXPECT_EQ(set->controller, "certificate_life: 90d\noperator_exec: true\n");
  // What is written is what agent and controller read, and what is kept with the cluster.
  const auto agent = ParseAgentConfig(AgentFile(set->hosts[2].agent, false), "agent.yaml");
  ASSERT_TRUE(agent) << FormatError(agent.error());
  EXPECT_EQ(agent->labels.at("kind"), "h100");
  const auto controller = ParseControllerConfig(ControllerFile(set->controller), "c.yaml");
  ASSERT_TRUE(controller) << FormatError(controller.error());
  EXPECT_TRUE(controller->operator_exec);
  const auto back = ReadHosts(FormatHosts(*set), "saved");
  ASSERT_TRUE(back) << FormatError(back.error()) << FormatHosts(*set);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(AgentOf(*back, i), AgentOf(*set, i));
  EXPECT_EQ(back->controller, set->controller);
}

TEST(UpSettings, OfAnAllocationNameNoHosts) {
  const auto settings = ReadSlurmSettings(
      "agent:\n  labels: {rack: b2}\n  interpreters: [/opt/a/bin/python]\n"
      "controller: {operator_exec: true}\n",
      "settings.yaml");
  ASSERT_TRUE(settings) << FormatError(settings.error());
  EXPECT_EQ(settings->agent, "interpreters: [/opt/a/bin/python]\nlabels: {rack: b2}\n");
  EXPECT_EQ(settings->controller, "operator_exec: true\n");
  const auto nothing = ReadSlurmSettings("agent: {}\n", "settings.yaml");
  ASSERT_TRUE(nothing) << FormatError(nothing.error());
  EXPECT_EQ(nothing->agent, "") << "back to the defaults";
  EXPECT_FALSE(nothing->controller) << "as it is";
  for (const auto& [text, why] : {std::pair{"hosts: [a]\n", "hosts"},
                                  {"agent: {gpu_ids: [0]}\n", "Slurm says which"},
                                  {"agent: {run_as: multi_user}\n", "root"},
                                  {"agent: {state_dir: /x}\n", "launch up"},
                                  {"agent: {colour: red}\n", "colour"},
                                  {"controller: {listen: 127.0.0.1:7470}\n", "controller_port"}}) {
    const auto refused = ReadSlurmSettings(text, "settings.yaml");
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(FormatError(refused.error()).find(why), std::string::npos)
        << FormatError(refused.error());
  }
}

TEST(UpSettings, AreRefusedWithTheirLineBeforeAnythingIsTouched) {
  const auto where = [](const std::string& text) {
    const auto set = ReadHosts(text, "hosts.yaml");
    if (set) return std::string("read");
    return std::to_string(set.error().where ? set.error().where->line : 0) + " " +
           FormatError(set.error());
  };
  const std::string near = where("hosts: [a]\nagent:\n  lables: {a: b}\n");
  EXPECT_TRUE(near.starts_with("3 ") && near.find("labels") != std::string::npos) << near;
  const std::string range = where("hosts:\n  - name: a\n    agent:\n      port_range: 1-2\n");
  EXPECT_TRUE(range.starts_with("4 ") && range.find("port_range") != std::string::npos) << range;
  const std::string life = where("hosts: [a]\ncontroller:\n  certificate_life: 9000d\n");
  EXPECT_TRUE(life.starts_with("3 ")) << life;
  for (const char* ours : {"agent: {node: b}", "agent: {controllers: [a:1]}",
                           "agent: {state_dir: /x}", "controller: {listen: 'a:1'}"}) {
    const std::string said = where(std::string("hosts: [a]\n") + ours + "\n");
    EXPECT_TRUE(said.starts_with("2 ") && said.find("`launch up` itself") != std::string::npos)
        << said;
  }
  EXPECT_NE(where("hosts: [a]\nagent: [b]\n"), "read");
}

TEST(UpSettings, WhatIsNotSaidStaysAndNothingIsADefaultAgain) {
  const auto known = ReadHosts(
      "head: a\nhosts: [a, b]\nagent: {log_cap: 2GiB}\ncontroller: {keep_jobs: 500}\n", "known");
  ASSERT_TRUE(known);
  const auto list = WithHead(*ReadHostlist("a,b"), *known);
  ASSERT_TRUE(list);
  EXPECT_EQ(AgentOf(*list, 1), "log_cap: 2GiB\n");
  EXPECT_EQ(list->controller, "keep_jobs: 500\n");
  const auto reset = WithHead(*ReadHosts("hosts: [b]\nagent: {}\ncontroller: {}\n", "h"), *known);
  ASSERT_TRUE(reset);
  EXPECT_EQ(NamesOf(*reset), "a b");
  EXPECT_EQ(AgentOf(*reset, 0), "log_cap: 2GiB\n") << "a was not named";
  EXPECT_EQ(AgentOf(*reset, 1), "");
  EXPECT_EQ(reset->controller, "");
  const HostSet merged = Merged(*known, *reset);
  EXPECT_EQ(AgentOf(merged, 1), "");
  const auto back = ReadHosts(FormatHosts(merged), "saved");
  ASSERT_TRUE(back) << FormatError(back.error());
  EXPECT_EQ(*back, merged);
}

TEST(UpSettings, RootsAgentsServeEveryUserUnlessToldOtherwise) {
  const auto of = [](const std::string& file) {
    const auto config = ParseAgentConfig(file, "agent.yaml");
    EXPECT_TRUE(config) << FormatError(config.error());
    return config.value_or(AgentConfig{});
  };
  EXPECT_EQ(AgentFile(std::nullopt, false), "") << "no file at all";
  EXPECT_EQ(of(AgentFile(std::nullopt, true)).run_as, RunAs::kMultiUser);
  EXPECT_TRUE(of(AgentFile(std::nullopt, true)).root_jobs);
  EXPECT_FALSE(of(AgentFile("root_jobs: false\n", true)).root_jobs);
  EXPECT_EQ(of(AgentFile("root_jobs: false\n", true)).run_as, RunAs::kMultiUser);
  EXPECT_EQ(of(AgentFile("run_as: single_user\n", true)).run_as, RunAs::kSingleUser);
  EXPECT_FALSE(of(AgentFile("run_as: multi_user\n", true)).root_jobs) << "as the agent's default";
  EXPECT_EQ(AgentFile("log_cap: 2GiB\n", false).find("multi_user"), std::string::npos);
  EXPECT_TRUE(NeedsRoot("log_cap: 2GiB\nrun_as: multi_user\n"));
  EXPECT_FALSE(NeedsRoot("run_as: single_user\n"));
  EXPECT_FALSE(NeedsRoot(std::nullopt));
}

}  // namespace
}  // namespace launch::up
