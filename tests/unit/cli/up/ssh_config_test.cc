#include "cli/up/ssh_config.h"

#include <gtest/gtest.h>

namespace launch::up {
namespace {

TEST(SshConfig, ReadsWhatSshSaysOfAHost) {
  const SshSettings settings = ReadSshSettings(
      "host gpu01\nuser ana\nhostname 10.0.0.1\nport 2222\nidentityfile ~/.ssh/lab key\n"
      "identityfile ~/.ssh/b\nidentityagent /run/agent\nhostkeyalias x\n"
      "userknownhostsfile /h/known /h/known2\nglobalknownhostsfile /etc/known\n"
      "proxyjump ben@gate:22,inner\n");
  EXPECT_EQ(settings.host_name, "10.0.0.1");
  EXPECT_EQ(settings.user, "ana");
  EXPECT_EQ(settings.port, 2222);
  EXPECT_EQ(settings.identities, (std::vector<std::string>{"~/.ssh/lab key", "~/.ssh/b"}));
  EXPECT_EQ(settings.agent, "/run/agent");
  EXPECT_EQ(settings.known_hosts, "/h/known");
  EXPECT_EQ(settings.system_known_hosts, "/etc/known");
  EXPECT_EQ(settings.hops, (std::vector<std::string>{"ben@gate:22", "inner"}));
  EXPECT_EQ(settings.proxy_command, "");
}

TEST(SshConfig, TakesNoneForNothing) {
  const SshSettings settings = ReadSshSettings(
      "proxyjump none\nproxycommand none\nidentityagent SSH_AUTH_SOCK\nport\n\nstrange\n");
  EXPECT_EQ(settings, SshSettings());
  EXPECT_EQ(ReadSshSettings("proxycommand nc -X 5 %h %p\n").proxy_command, "nc -X 5 %h %p");
}

}  // namespace
}  // namespace launch::up
