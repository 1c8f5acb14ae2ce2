#include "agent/join.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "agent/link/identity_files.h"
#include "common/clock.h"
#include "common/pki.h"

namespace launch::agent {
namespace {

// Of a controller that nobody reaches: nothing listens on port 1.
std::string TokenOfAnotherCluster() {
  const WallTime now = SystemClock().WallNow();
  const KeyPair ca_key = *MakeKey();
  const Certificate ca = *MakeCa(ca_key, "elsewhere", now);
  const KeyPair key = *MakeKey();
  const SignRequest request{.identity = {"elsewhere", "join", "node:gpu07"},
                            .life = Millis(900'000),
                            .dns_names = {},
                            .serial = NewSerial()};
  return FormatJoinToken(
      {.cluster = "elsewhere",
       .addresses = {"127.0.0.1:1"},
       .ca_pem = ca.pem,
       .key_pem = key.private_pem,
       .certificate_pem = SignCsr(*MakeCsr(key), ca_key, ca, request, now)->pem});
}

TEST(Join, LeavesANodeThatWorksAsItIsWhenItFails) {
  std::string pattern = testing::TempDir() + "/joinXXXXXX";
  const std::string dir = mkdtemp(pattern.data());
  PosixFileSystem files;
  const JoinedCluster works{
      .node = {"gpu01"}, .controllers = {"10.0.0.1:7443"}, .install_id = "of-this-node"};
  ASSERT_TRUE(WriteJoined(files, dir, works));
  ASSERT_FALSE(JoinCluster(
      files, {.state_dir = dir, .token = TokenOfAnotherCluster(), .node = {}, .rejoin = false}));
  const auto joined = ReadJoined(files, dir);
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->node, works.node);
  EXPECT_EQ(joined->controllers, works.controllers);
  EXPECT_EQ(joined->install_id, works.install_id);
  EXPECT_EQ(files.List(IdentityDir(dir)).value(), std::vector<std::string>{"joined.json"});
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace launch::agent
