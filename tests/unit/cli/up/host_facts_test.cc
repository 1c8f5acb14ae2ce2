#include "cli/up/host_facts.h"

#include <gtest/gtest.h>

#include "cli/up/host_setup.h"

namespace launch::up {
namespace {

constexpr char kGood[] =
    "Welcome to gpu01!\narch=aarch64\nglibc=2.35\nuser=ana\nuid=1000\n"
    "programs=/home/ana/.local/share/launch\nstate=/home/ana/.local/state/launch/cluster\n"
    "clock=1000000\nwritable=1\nexecutable=1\nfree_kib=1048576\nkeeper=user\ninstalled=\nauthority="
    "\n";

HostNeeds Needs() { return {.bytes = 1 << 20, .clock = 1000000, .has_programs = true}; }

TEST(HostFacts, ReadsTheProbePastABanner) {
  const HostFacts facts = ReadFacts(kGood);
  EXPECT_EQ(facts.arch, "aarch64");
  EXPECT_EQ(facts.uid, 1000);
  EXPECT_EQ(facts.free_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(facts.keeper, Keeper::kUser);
  EXPECT_TRUE(CheckHost(facts, Needs()));
}

// Each trap of a real machine has its own words and its own way out.
TEST(HostFacts, SaysWhyAMachineCannotBeANode) {
  const auto why = [](auto change, HostNeeds needs = Needs()) {
    HostFacts facts = ReadFacts(kGood);
    change(facts);
    const auto checked = CheckHost(facts, needs);
    return checked ? std::string("fine") : checked.error().message;
  };
  EXPECT_EQ(why([](HostFacts&) {}), "fine");
  EXPECT_NE(why([](HostFacts& f) { f.glibc = "2.31"; }).find("glibc is 2.31"), std::string::npos);
  EXPECT_NE(why([](HostFacts& f) { f.glibc = ""; }).find("not glibc"), std::string::npos);
  EXPECT_NE(why([](HostFacts& f) { f.executable = false; }).find("noexec"), std::string::npos);
  EXPECT_NE(why([](HostFacts& f) { f.writable = false; }).find("cannot be written"),
            std::string::npos);
  EXPECT_NE(why([](HostFacts& f) { f.free_bytes = 1000; }).find("are free"), std::string::npos);
  EXPECT_NE(why([](HostFacts& f) { f.clock += 3600; }).find("3600 s ahead"), std::string::npos);
  EXPECT_NE(why([](HostFacts& f) { f.clock -= 3600; }).find("behind"), std::string::npos);
  HostNeeds needs = Needs();
  needs.has_programs = false;
  EXPECT_NE(why([](HostFacts&) {}, needs).find("no programs"), std::string::npos);
  EXPECT_NE(why([](HostFacts& f) { f = HostFacts(); }).find("does not run a script"),
            std::string::npos);
}

TEST(HostFacts, ACertificateComesInOneLine) {
  EXPECT_EQ(ReadFacts("certificate=-----BEGIN-----|abc|\n").certificate, "-----BEGIN-----\nabc\n");
}

TEST(HostFacts, GivesAUsersManagerOnlyWhatItMaySet) {
  HostFacts facts = ReadFacts(kGood);
  const std::string user = UnitText("launch-controller", facts, " run --state /s");
  EXPECT_NE(
      user.find(
          "ExecStart=/home/ana/.local/share/launch/current/launch-controller run --state /s\n"),
      std::string::npos)
      << user;
  EXPECT_NE(user.find("WantedBy=default.target"), std::string::npos);
  EXPECT_EQ(user.find("ProtectSystem"), std::string::npos) << user;
  facts.keeper = Keeper::kSystem;
  facts.state = "/var/lib/launch";
  const std::string root = UnitText("launch-controller", facts, "");
  EXPECT_NE(root.find("ProtectSystem=strict\nReadWritePaths=/var/lib/launch\n"), std::string::npos)
      << root;
  EXPECT_NE(UnitText("launch-agent", facts, "").find("KillMode=process"), std::string::npos);
}

}  // namespace
}  // namespace launch::up
