#include "common/agent_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace launch {
namespace {

Result<AgentConfig> Parse(const std::string& text) { return ParseAgentConfig(text, "agent.yaml"); }

std::string Whole(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(AgentConfig, ReadsEverySetting) {
  const Result<AgentConfig> config = Parse(R"(
node: gpu01
controllers: [head:7470, "[2001:db8::1]:7470"]
state_dir: /state
lock_dir: /locks
cgroup_root: /sys/fs/cgroup/launch
run_as: multi_user
users: {ana: ana.lopez, ben: lab}
min_uid: 500
root_jobs: true
path: /opt/bin:/usr/bin
ld_library_path: /opt/lib
nvml_library: /opt/libnvidia-ml.so.1
sample_period: 250ms
proc_root: /host/proc
interpreters: [/opt/a/bin/python, /opt/b/bin/python]
labels: {rack: b2, on: "yes"}
gpu_ids: [3, 1]
cores: 8-15
port_range: 30000-30099
log_cap: 64MiB
keep_logs: 7d
inventory_file: /etc/launch/nodes.yaml
)");
  ASSERT_TRUE(config) << FormatError(config.error());
  AgentConfig expected;
  expected.node.value = "gpu01";
  expected.controllers = {"head:7470", "[2001:db8::1]:7470"};
  expected.state_dir = "/state";
  expected.lock_dir = "/locks";
  expected.cgroup_root = "/sys/fs/cgroup/launch";
  expected.run_as = RunAs::kMultiUser;
  expected.users = {{"ana", "ana.lopez"}, {"ben", "lab"}};
  expected.min_uid = 500;
  expected.root_jobs = true;
  expected.path = "/opt/bin:/usr/bin";
  expected.ld_library_path = "/opt/lib";
  expected.nvml_library = "/opt/libnvidia-ml.so.1";
  expected.sample_period = Millis{250};
  expected.proc_root = "/host/proc";
  expected.interpreters = {"/opt/a/bin/python", "/opt/b/bin/python"};
  expected.labels = {{"on", "yes"}, {"rack", "b2"}};
  expected.gpu_ids = {1, 3};
  expected.cores = CoreSubset{8, 8};
  expected.ports = {30000, 30099};
  expected.log_cap = 64u << 20;
  expected.keep_logs = Millis{std::int64_t{7} * 24 * 3'600'000};
  expected.inventory_file = "/etc/launch/nodes.yaml";
  EXPECT_EQ(*config, expected);
}

TEST(AgentConfig, TheExampleNamesEverySettingOnceWithItsDefault) {
  // Without the comment marks in front of keys and list entries it is a file like any other.
  std::istringstream lines(Whole(LAUNCH_SOURCE_DIR "/configs/agent.yaml"));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const std::string inner = line.starts_with("# ") ? line.substr(2) : line;
    const auto colon = inner.find(':');
    const bool key = colon != std::string::npos && colon > 0 &&
                     inner.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == colon &&
                     (colon + 1 == inner.size() || inner[colon + 1] == ' ') &&
                     inner != "single_user: ranks run as the agent's user, for its owner only." &&
                     !inner.starts_with("multi_user: ");
    if (key || inner.starts_with("  ")) text += inner + "\n";
  }
  const Result<AgentConfig> config = Parse(text);
  ASSERT_TRUE(config) << FormatError(config.error()) << "\n" << text;
  const AgentConfig defaults;
  EXPECT_EQ(config->state_dir, defaults.state_dir);
  EXPECT_EQ(config->lock_dir, defaults.lock_dir);
  EXPECT_EQ(config->run_as, defaults.run_as);
  EXPECT_EQ(config->proc_root, defaults.proc_root);
  EXPECT_EQ(config->ports, defaults.ports);
  EXPECT_EQ(config->log_cap, defaults.log_cap);
  EXPECT_EQ(config->keep_logs, defaults.keep_logs);
  for (const AgentSetting& setting : AgentSettings())
    EXPECT_NE(text.find(setting.name + ":"), std::string::npos) << setting.name;
}

TEST(AgentConfig, TheExampleAsItComesIsAllDefaults) {
  const Result<AgentConfig> read = ReadAgentConfig(LAUNCH_SOURCE_DIR "/configs/agent.yaml");
  ASSERT_TRUE(read) << FormatError(read.error());
  EXPECT_EQ(*read, AgentConfig{});
  EXPECT_EQ(*Parse("\n  # node: a\n#\n"), AgentConfig{});
  EXPECT_FALSE(Parse("\n")) << "it may have lost its text";
  EXPECT_FALSE(Parse("# node: a\n- b\n"));
}

TEST(AgentConfig, NoGpuAtAllIsAnAnswer) {
  EXPECT_EQ(Parse("gpu_ids: []\n")->gpu_ids, std::vector<int>{});
  EXPECT_EQ(WithFlags({}, {{"gpu-ids", "none"}})->gpu_ids, std::vector<int>{});
  EXPECT_EQ(WithFlags({}, {})->gpu_ids, std::nullopt);
}

TEST(AgentConfig, NamesNoNodeByItself) {  // the name is the one it joined with
  EXPECT_EQ(Parse("run_as: single_user\n")->node.value, "");
}

TEST(AgentConfig, RefusesWhatItDoesNotKnowAndOffersTheNearestName) {
  const Result<AgentConfig> config = Parse("node: a\nstate_dri: /x\n");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(config.error().where.has_value());
  EXPECT_EQ(config.error().where->file, "agent.yaml");
  EXPECT_EQ(config.error().where->line, 2);
  EXPECT_NE(config.error().hint.find("state_dir"), std::string::npos) << config.error().hint;
}

TEST(AgentConfig, SaysWhereAWrongValueStands) {
  for (const char* line : {"node: -x",
                           "node: [a]",
                           "node: ''",
                           "controllers: [head]",
                           "controllers: ['head:0']",
                           "state_dir: relative",
                           "run_as: root",
                           "users: {ana: root}",
                           "users: [ana]",
                           "users: {ana: ''}",
                           "min_uid: 0",
                           "root_jobs: yes",
                           "path: '/bin::/usr/bin'",
                           "path: bin",
                           "sample_period: 5",
                           "sample_period: 1ms",
                           "interpreters: [python3]",
                           "labels: [a]",
                           "labels: {a: [1]}",
                           "gpu_ids: [0, 0]",
                           "gpu_ids: [-1]",
                           "gpu_ids: [x]",

                           "cores: 4",
                           "cores: 5-4",
                           "cores: -1-4",
                           "port_range: 20000-20002",
                           "port_range: 80-90",
                           "port_range: 60000-70000",
                           "log_cap: 1MiB",
                           "log_cap: lots",
                           "keep_logs: 1m",
                           "keep_logs: 30",
                           "inventory_file: {}"}) {
    const Result<AgentConfig> config = Parse("# first line\n" + std::string(line) + "\n");
    ASSERT_FALSE(config) << line;
    ASSERT_TRUE(config.error().where.has_value()) << line;
    EXPECT_EQ(config.error().where->line, 2) << line;
    EXPECT_EQ(config.error().where->field, std::string(line).substr(0, std::string(line).find(':')))
        << line;
  }
}

TEST(AgentConfig, RefusesADocumentThatIsNoMapOfSettings) {
  for (const char* text : {"", "- a\n", "text\n", "node: a\nnode: b\n", "node: &a b\n"})
    EXPECT_FALSE(Parse(text)) << text;
  EXPECT_FALSE(ReadAgentConfig("/nonexistent/agent.yaml"));
}

TEST(AgentConfig, FlagsOverrideTheFileUnderTheSameNames) {
  AgentConfig file;
  file.node.value = "a";
  file.state_dir = "/from-file";
  file.interpreters = {"/old"};
  file.lock_dir = "/kept";
  const Result<AgentConfig> config = WithFlags(file, {{"state-dir", "/first"},
                                                      {"state_dir", "/from-flag"},
                                                      {"interpreters", "/a/python,/b/python"},
                                                      {"interpreters", "/c/python"},
                                                      {"labels", "rack=b2,zone=x=y"},
                                                      {"gpu-ids", "2,3"},
                                                      {"cores", "0-3"},
                                                      {"sample-period", "200ms"}});
  ASSERT_TRUE(config) << FormatError(config.error());
  EXPECT_EQ(config->node.value, "a");
  EXPECT_EQ(config->state_dir, "/from-flag");
  EXPECT_EQ(config->lock_dir, "/kept");
  EXPECT_EQ(config->interpreters,
            (std::vector<std::string>{"/a/python", "/b/python", "/c/python"}));
  EXPECT_EQ(config->labels, (std::map<std::string, std::string>{{"rack", "b2"}, {"zone", "x=y"}}));
  EXPECT_EQ(config->gpu_ids, (std::vector<int>{2, 3}));
  EXPECT_EQ(config->cores, (CoreSubset{0, 4}));
  EXPECT_EQ(config->sample_period, Millis{200});
}

TEST(AgentConfig, AWrongFlagIsNamed) {
  const Result<AgentConfig> unknown = WithFlags({}, {{"state-dri", "/x"}});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().hint.find("state_dir"), std::string::npos);
  const Result<AgentConfig> wrong = WithFlags({}, {{"port-range", "x"}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("port_range"), std::string::npos);
  EXPECT_FALSE(WithFlags({}, {{"node", ""}}));
  EXPECT_FALSE(WithFlags({}, {{"gpu-ids", "0,,1"}}));
}

}  // namespace
}  // namespace launch
