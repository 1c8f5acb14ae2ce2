#include "cli/up/owner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/up/host_setup.h"
#include "cli/up/site.h"
#include "cli/up/this_machine.h"
#include "common/clock.h"
#include "common/pki.h"

namespace launch::up {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOurs = "aaaa";
constexpr const char* kTheirs = "bbbb";

std::string CertificateOf(const std::string& cluster, const std::string& node) {
  const WallTime now = SystemClock().WallNow();
  const KeyPair ca_key = *MakeKey();
  const KeyPair key = *MakeKey();
  const SignRequest request{.identity = {.cluster = cluster, .role = "node", .name = node},
                            .life = Millis(3'600'000),
                            .dns_names = {},
                            .serial = NewSerial()};
  return SignCsr(*MakeCsr(key), ca_key, *MakeCa(ca_key, cluster, now), request, now)->pem;
}

// As the machine that the entry `host` leads to tells of itself.
HostResult Found(const std::string& host, const std::string& authority, const std::string& node,
                 const std::string& cluster = "lab") {
  HostResult result;
  result.host.name = host;
  result.facts.authority = authority;
  if (!node.empty()) result.facts.certificate = CertificateOf(cluster, node);
  return result;
}

class Owner : public testing::Test {
 protected:
  Owner() {
    set_.hosts = {{.name = "head"}, {.name = "gpu1"}};
    set_.head = "head";
    options_.known = {{kOurs, "lab"}};
    ending_.authority = kOurs;
    of_anybody_ = {.purge = true, .of_anybody = true};
    of_anybody_.answers = [&](const std::string& context) { return context == answers_; };
  }
  // Empty: it may be ended.
  std::string Refusal(HostResult result, const Ending& ending) {
    const auto may = MustBeEnded(result, set_, options_, ending);
    EXPECT_EQ(result.of_others, !may);
    return may ? "" : FormatError(may.error());
  }

  HostSet set_;
  UpOptions options_;
  Ending ending_;
  Ending of_anybody_;
  std::string answers_;
};

TEST_F(Owner, ANodeIsEndedUnderItsOwnNameOnly) {
  EXPECT_EQ(Refusal(Found("gpu1", kOurs, "gpu1"), ending_), "");
  EXPECT_EQ(Refusal(Found("gpu1", "", ""), ending_), "") << "nobody's";
  EXPECT_NE(Refusal(Found("gpu1", kOurs, "gpu2"), ending_).find("is the node gpu2 already"),
            std::string::npos);
  HostResult head = Found("gpu1", kOurs, "gpu1");
  head.facts.controller = kOurs;
  EXPECT_NE(Refusal(head, ending_).find("this machine is the head head"), std::string::npos);
  head.host.name = "head";
  head.facts.certificate = CertificateOf("lab", "head");
  EXPECT_EQ(Refusal(head, ending_), "");
}

TEST_F(Owner, WhatIsOfAnotherClusterStays) {
  const std::string said = Refusal(Found("gpu1", kTheirs, "gpu1", "other"), ending_);
  EXPECT_NE(said.find("its agent belongs to another cluster called other"), std::string::npos);
  EXPECT_NE(said.find("launch down other --hosts gpu1 --purge --force"), std::string::npos) << said;
  HostResult founded = Found("head", "", "");
  founded.facts.controller = kTheirs;
  EXPECT_NE(Refusal(founded, ending_), "");
  set_.founding = {"head"};
  EXPECT_EQ(Refusal(founded, ending_), "") << "of an `up` that ended before it had credentials";
}

TEST_F(Owner, AClusterThatNobodyKnowsIsEndedByTheNameThatItGivesItself) {
  const HostResult theirs = Found("gpu1", kTheirs, "gpu1", "other");
  for (const char* name : {"", "lab"}) {
    of_anybody_.cluster = name;
    const std::string said = Refusal(theirs, of_anybody_);
    EXPECT_NE(said.find("it is the node gpu1 of cluster other"), std::string::npos) << said;
    EXPECT_NE(said.find("launch down other --hosts gpu1 --purge --force"), std::string::npos);
  }
  of_anybody_.cluster = "other";
  EXPECT_EQ(Refusal(theirs, of_anybody_), "");
  of_anybody_.cluster.clear();
  EXPECT_EQ(Refusal(Found("gpu1", "", ""), of_anybody_), "") << "leftovers are nobody's";
  HostResult controller = Found("head", "", "");
  controller.facts.controller = kTheirs;
  EXPECT_NE(Refusal(controller, of_anybody_), "");
}

TEST_F(Owner, AControllerGoesByItsOwnNameToo) {
  HostResult head = Found("head", "", "");
  head.facts.controller = kTheirs;
  head.facts.controller_certificate = CertificateOf("other", "ana");
  of_anybody_.cluster = "lab";
  EXPECT_NE(Refusal(head, of_anybody_).find("it is the controller of cluster other, not of lab"),
            std::string::npos);
  of_anybody_.cluster = "other";
  EXPECT_EQ(Refusal(head, of_anybody_), "");
  head.facts.authority = kOurs;
  head.facts.certificate = CertificateOf("lab", "head");
  head.facts.state = "/var/lib/launch";
  for (const char* name : {"lab", "other"}) {
    of_anybody_.cluster = name;
    const std::string said = Refusal(head, of_anybody_);
    EXPECT_NE(said.find("the node head of cluster lab and the controller of cluster other"),
              std::string::npos)
        << said;
    EXPECT_NE(said.find("/var/lib/launch"), std::string::npos) << said;
  }
}

TEST_F(Owner, AnAgentWhoseCertificateCannotBeReadIsNotNobodys) {
  HostResult node = Found("gpu1", kTheirs, "");
  EXPECT_NE(Refusal(node, of_anybody_).find("a node of a cluster whose name cannot be read"),
            std::string::npos);
  of_anybody_.cluster = "lab";
  EXPECT_EQ(Refusal(node, of_anybody_), "") << "whoever names one means it";
}

TEST_F(Owner, ALiveClusterThatIsKnownHereIsNotEndedByItsHosts) {
  of_anybody_.cluster = "lab";
  EXPECT_EQ(Refusal(Found("gpu1", kOurs, "gpu1"), of_anybody_), "") << "it answers nobody";
  answers_ = "lab";
  EXPECT_NE(Refusal(Found("gpu1", kOurs, "gpu1"), of_anybody_).find("whose controller answers"),
            std::string::npos);
}

TEST(Twins, AreRefusedButForTheNodeThatTheMachineIs) {
  const auto sites_of = [](const std::string& node) {
    HostSet set;
    set.hosts = {{.name = "n0"}, {.name = "n1"}, {.name = "n2"}, {.name = "n3"}};
    std::vector<Site> sites = SitesOf(set);
    sites[0].result.facts.place = "elsewhere";
    for (const std::size_t i : {1U, 2U}) {
      sites[i].result.facts.place = "here";
      if (!node.empty()) sites[i].result.facts.certificate = CertificateOf("lab", node);
    }
    RefuseTwins(sites, {});
    std::string failed;
    for (const Site& site : sites)
      if (site.result.error) failed += site.result.host.name + " ";
    return failed;
  };
  EXPECT_EQ(sites_of(""), "n1 n2 ");
  EXPECT_EQ(sites_of("n2"), "n1 ");
  EXPECT_EQ(sites_of("n9"), "n1 n2 ");
}

TEST(Removal, TakesTheIdentityOfANodeThatLeaves) {
  const fs::path dir = fs::path(testing::TempDir()) / "launch-leaves";
  fs::remove_all(dir);
  HostFacts facts;
  facts.uid = 1;
  facts.programs = dir / "programs";
  facts.state = dir / "state";
  const fs::path key = dir / "state/agent/identity/key.pem";
  const fs::path log = dir / "state/agent/logs/0";
  for (const fs::path& file : {key, log}) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "x";
  }
  fs::create_directories(dir / "programs");
  const auto machine = ThisMachine();
  ASSERT_TRUE(Remove(*machine, facts, {}));
  EXPECT_TRUE(fs::exists(key)) << "it comes back as the same node";
  const auto removed = Remove(*machine, facts, {.leaves = true});
  ASSERT_TRUE(removed) << FormatError(removed.error());
  EXPECT_FALSE(fs::exists(key.parent_path()));
  EXPECT_TRUE(fs::exists(log));
}

}  // namespace
}  // namespace launch::up
