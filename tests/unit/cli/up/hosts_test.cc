#include "cli/up/hosts.h"

#include <gtest/gtest.h>

namespace launch::up {
namespace {

std::string Names(const HostSet& set) {
  std::string names;
  for (const Host& host : set.hosts) names += (names.empty() ? "" : " ") + host.name;
  return names;
}

TEST(Hosts, ReadsAHostlistWithUserAndPort) {
  const auto set = ReadHostlist("gpu[01-03],ana@10.0.0.7:2222");
  ASSERT_TRUE(set) << FormatError(set.error());
  EXPECT_EQ(Names(*set), "gpu01 gpu02 gpu03 10.0.0.7");
  EXPECT_EQ(set->hosts[3].user, "ana");
  EXPECT_EQ(set->hosts[3].port, 2222);
  EXPECT_EQ(set->hosts[0].port, 0);
}

TEST(Hosts, ReadsAddressesOfIpV6) {
  const auto set = ReadHostlist("fd00::9,ana@[fd00::a]:2222,[::5],gpu01");
  ASSERT_TRUE(set) << FormatError(set.error());
  EXPECT_EQ(Names(*set), "fd00--9 fd00--a 0--5 gpu01");
  EXPECT_EQ(set->hosts[0].Address(), "fd00::9");
  EXPECT_EQ(set->hosts[1].Address(), "fd00::a");
  EXPECT_EQ(set->hosts[1].user, "ana");
  EXPECT_EQ(set->hosts[1].port, 2222);
  const auto file = ReadHosts(
      "hosts:\n  - {name: gpu09, address: \"[fd00::9]\", jump: \"root@[fd00::1]:2222\"}\n", "f");
  ASSERT_TRUE(file) << FormatError(file.error());
  EXPECT_EQ(file->hosts[0].address, "fd00::9");
  const auto lines = ReadHosts("fd00::9 slots=8\n", "hostfile");
  ASSERT_TRUE(lines) << FormatError(lines.error());
  EXPECT_EQ(lines->hosts[0].address, "fd00::9");
  for (const char* bad : {"fe80::1", "[fd00::zz]", "fd00:::1", "[fd00::9]:70000", "[fd00::9]x22"})
    EXPECT_FALSE(ReadHostlist(bad)) << bad;
  EXPECT_FALSE(ReadHosts("hosts:\n  - {name: a, jump: \"fd00::1\"}\n", "f"));
}

TEST(Hosts, ReadsYamlWithDefaultsAndEntriesOfTheirOwn) {
  const auto set = ReadHosts(
      "user: ana\nkey: ~/.ssh/lab\nhead: gpu01\ncontroller_port: 7471\nhosts:\n"
      "  - gpu[01-02]\n  - {name: gpu09, address: 10.0.0.9, user: root, port: 2222, jump: gate}\n",
      "hosts.yaml");
  ASSERT_TRUE(set) << FormatError(set.error());
  EXPECT_EQ(Names(*set), "gpu01 gpu02 gpu09");
  EXPECT_EQ(set->hosts[1].user, "ana");
  EXPECT_EQ(set->hosts[1].key, "~/.ssh/lab");
  EXPECT_EQ(set->hosts[1].Address(), "gpu02");
  EXPECT_EQ(set->hosts[2], (Host{"gpu09", "10.0.0.9", "root", 2222, "~/.ssh/lab", "gate"}));
  EXPECT_EQ(set->head, "gpu01");
  EXPECT_EQ(set->controller_port, 7471);
}

TEST(Hosts, ReadsWhatOtherLaunchersRead) {
  const auto deepspeed =
      ReadHosts("# my nodes\ngpu01 slots=8\n\ngpu02 slots=8 # spare\n", "hostfile");
  ASSERT_TRUE(deepspeed);
  EXPECT_EQ(Names(*deepspeed), "gpu01 gpu02");
  const auto ssh = ReadHosts(
      "Host gate\n  HostName 192.0.2.1\n\nHost gpu1 gpu2\n  ProxyJump gate\nHost *\n  User ana\n",
      "config");
  ASSERT_TRUE(ssh);
  EXPECT_EQ(Names(*ssh), "gpu1 gpu2");
  EXPECT_EQ(ssh->left_out, std::vector<std::string>{"gate"}) << "others are reached through it";
  EXPECT_EQ(ssh->ssh_config, "config");
}

TEST(Hosts, ReadsUsersAsDirectoriesCallThem) {
  const auto set = ReadHostlist("bob@corp.org@gpu01,LAB\\ana@gpu02:2222");
  ASSERT_TRUE(set) << FormatError(set.error());
  EXPECT_EQ(set->hosts[0].user, "bob@corp.org");
  EXPECT_EQ(set->hosts[1].user, "LAB\\ana");
  EXPECT_EQ(set->hosts[1].port, 2222);
  for (const char* bad : {"-bob", "a b", "a;b", "a\\nb", "bob\\\\", "$(id)"}) {
    const auto refused =
        ReadHosts("hosts:\n  - {name: a, user: \"" + std::string(bad) + "\"}\n", "f");
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().where->line, 2) << bad;
  }
}

TEST(Hosts, KnowsAFileByItsFirstWords) {
  for (const char* yaml :
       {"{hosts: [a, b]}", "---\nhosts: [a, b]\n", "\xef\xbb\xbfhosts:\n  - a\n  - b\n",
        "# mine\nhead: a\nhosts: [a, b]\n"}) {
    const auto set = ReadHosts(yaml, "h.yaml");
    ASSERT_TRUE(set) << yaml << FormatError(set.error());
    EXPECT_EQ(Names(*set), "a b");
  }
  const auto other = ReadHosts("host: [a]\n", "h.yaml");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().hint.find("hosts"), std::string::npos) << FormatError(other.error());
  const auto list = ReadHosts("- a\n- b\n", "h.yaml");
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().hint, "write `hosts:` above it");
  const auto slots = ReadHosts("host slots=8\ninclude max_slots=4\n", "hostfile");
  ASSERT_TRUE(slots) << FormatError(slots.error());
  EXPECT_EQ(Names(*slots), "host include") << "machines of these names";
}

TEST(Hosts, ReadsAnOpenSshConfigAsItMayBeWritten) {
  const auto set = ReadHosts(
      "# mine\nMatch host x\n  User no\nHost=gpu1\nHost \"gpu2\"\tgpu3 # three\n"
      "  ProxyJump = ana@gate:22,inner\nHost gpu1\n  Port 2222\nhost gate inner !gpu9 h*\n",
      "config");
  ASSERT_TRUE(set) << FormatError(set.error());
  EXPECT_EQ(Names(*set), "gpu1 gpu2 gpu3");
  EXPECT_EQ(set->left_out, (std::vector<std::string>{"gate", "inner"}));
  const auto elsewhere = ReadHosts("Include conf.d/*\n", "config");
  ASSERT_FALSE(elsewhere);
  EXPECT_NE(elsewhere.error().hint.find("-F config"), std::string::npos)
      << FormatError(elsewhere.error());
}

TEST(Hosts, RefusesWithPlaceAndRemedy) {
  const auto unknown = ReadHosts("hosts:\n  - {name: a, adress: b}\n", "h.yaml");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().hint.find("address"), std::string::npos)
      << FormatError(unknown.error());
  for (const char* text : {"", "# none\n", "hosts: []\n", "Host *\n  User ana\n"}) {
    const auto none = ReadHosts(text, "f");
    ASSERT_FALSE(none) << text;
  }
  EXPECT_FALSE(ReadHostlist("gpu01,gpu01")) << "twice";
  EXPECT_FALSE(ReadHostlist("gpu01;rm")) << "no shell text in a name";
  EXPECT_FALSE(ReadHostlist("-oProxyCommand=x")) << "nor an option";
  EXPECT_FALSE(ReadHostlist("gpu01:0"));
  EXPECT_FALSE(ReadHostlist("@gpu01"));
  EXPECT_FALSE(ReadHosts("head: gpu9\nhosts: [gpu1]\n", "f"));
  for (const char* text : {"hosts:\n  - a\n  - {name: a}\n",
                           "hosts:\n  - a\n  - {name: b, port: 22222222}\n", "a\nb\na\n"}) {
    const auto third = ReadHosts(text, "f");
    ASSERT_FALSE(third) << text;
    EXPECT_EQ(third.error().where->line, 3) << text;
  }
  const auto line = ReadHosts("gpu1\nbad name[\n", "list");
  ASSERT_TRUE(line || line.error().where->line == 2);
}

TEST(Hosts, WritesWhatItReads) {
  HostSet set;
  set.hosts = {{"a", "10.0.0.1", "ana", 22, "k \"x\"", "gate"}, {"b", "", "", 0, "", ""}};
  set.hosts[1].local = true;
  set.head = "a";
  set.controller_port = 7000;
  set.ssh_config = "/home/ana/a \"b\"/config";
  set.slurm_jobs = {"12", "13"};
  set.founding = {"gpu07"};
  const auto back = ReadHosts(FormatHosts(set), "saved");
  ASSERT_TRUE(back) << FormatError(back.error());
  EXPECT_EQ(*back, set);
}

TEST(Hosts, KeepsTheHeadOfAKnownCluster) {
  HostSet known;
  known.hosts = {{"head", "", "", 0, "", ""}, {"a", "", "", 0, "", ""}};
  known.head = "head";
  known.controller_port = 7000;
  HostSet more;
  more.hosts = {{"b", "", "", 0, "", ""}};
  const auto set = WithHead(more, known);
  ASSERT_TRUE(set);
  EXPECT_EQ(Names(*set), "head b");
  EXPECT_EQ(set->controller_port, 7000);
  EXPECT_EQ(Names(Merged(known, *set)), "head a b");
  more.controller_port = 7001;
  EXPECT_FALSE(WithHead(more, known)) << "two ports";
  more.controller_port = 7000;
  EXPECT_TRUE(WithHead(more, known));
  more.head = "b";
  EXPECT_FALSE(WithHead(more, known)) << "two heads";
  EXPECT_EQ(WithHead(more, {})->head, "b");
}

}  // namespace
}  // namespace launch::up
