#include "agent/probes/nvml_probe.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "agent/probes/nvml_api.h"
#include "agent/probes/nvml_messages.h"
#include "agent/probes/small_files.h"
#include "tests/unit/agent/probes/nvml_fixture.h"
#include "tests/unit/agent/probes/settable_clock.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

// Process ids of this test's children, in /proc order.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  const std::string me = std::to_string(::getpid());
  for (const std::string& name : ListNames("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = ReadSmallFile("/proc/" + name + "/stat");
    const auto end = stat.rfind(')');
    if (end == std::string::npos) continue;
    if (stat.substr(end + 4, stat.find(' ', end + 4) - end - 4) == me)
      children.push_back(std::stoi(name));
  }
  return children;
}

class NvmlProbeTest : public FakeDriver {
 protected:
  NvmlProbeTest() {
    options.executable = NVML_CHILD_PROGRAM;
    options.library = kLibrary;
    options.sys_root = directory() + "/sys";
    // Long enough for a loaded machine where an answer is expected; tests of hangs shorten them.
    options.open_deadline = options.list_deadline = options.sample_deadline = Millis{30'000};
  }
  NvmlProbe Probe() { return {options, clock, GpuCatalog::BuiltIn()}; }

  void AddPciFunction(const std::string& name, const std::string& vendor,
                      const std::string& kind) const {
    const fs::path device = options.sys_root + "/bus/pci/devices/" + name;
    fs::create_directories(device);
    std::ofstream(device / "vendor") << vendor << "\n";
    std::ofstream(device / "class") << kind << "\n";
  }

  NvmlProbe::Options options;
  SettableClock clock;
};

TEST_F(NvmlProbeTest, ListsTheGpusOfTheDriverWithTheirType) {
  Load("gh200");
  const GpuFacts facts = Probe().List();
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.driver, "570.124.06");
  EXPECT_EQ(facts.driver_cuda, (CudaVersion{12, 8}));
  EXPECT_EQ(facts.coherent, CoherentMode::kNuma);
  ASSERT_EQ(facts.gpus.size(), 1u);
  EXPECT_EQ(facts.gpus[0].type, "GH200");
  EXPECT_EQ(facts.gpus[0].memory_bytes, 97871ull << 20);
}

TEST_F(NvmlProbeTest, CarriesEveryFactThroughThePipe) {
  Load("a100-40x4");
  state["devices"][0]["mig"] = {
      {"enabled", true},
      {"max", 7},
      {"slices", {{{"uuid", "MIG-1"}, {"profile", "3g.20gb"}, {"memory_mib", 19968}}}}};
  state["devices"][1]["numa"] = 2;
  Write();
  const GpuFacts facts = Probe().List();
  ASSERT_EQ(facts.gpus.size(), 4u);
  const GpuDevice& first = facts.gpus[0];
  EXPECT_EQ(first.cc, (ComputeCapability{8, 0}));
  EXPECT_EQ(first.ecc, true);
  EXPECT_EQ(first.power_limit_w, 400);
  EXPECT_EQ(first.reserved_bytes, 570ull << 20);
  ASSERT_EQ(first.mig.size(), 1u);
  EXPECT_EQ(first.mig[0].memory_bytes, 19968ull << 20);
  ASSERT_EQ(first.links.size(), 3u);
  EXPECT_EQ(first.links[0].kind, LinkKind::kNvlink);
  EXPECT_EQ(first.links[0].count, 4);
  EXPECT_EQ(facts.gpus[1].numa, 2);
  EXPECT_EQ(facts.gpus[0].numa, std::nullopt);
}

TEST_F(NvmlProbeTest, SeesTheDriverChangeBetweenTwoLists) {
  Load("rtx4090");
  NvmlProbe probe = Probe();
  EXPECT_EQ(probe.List().gpus.at(0).health, Health::kOk);
  state["devices"][0]["lost"] = true;
  Write();
  const GpuFacts lost = probe.List();
  EXPECT_EQ(lost.gpus.at(0).health, Health::kBad);
  EXPECT_EQ(lost.gpus.at(0).type, "RTX4090") << "as last seen";
  state["devices"][0]["lost"] = false;
  Write();
  EXPECT_EQ(probe.List().gpus.at(0).health, Health::kOk);
}

TEST_F(NvmlProbeTest, SamplesAndNamesProcesses) {
  Load("rtx4090");
  state["devices"][0]["memory"]["used_mib"] = 300;
  state["devices"][0]["processes"] = {{{"pid", ::getpid()}, {"used_mib", 290}}};
  Write();
  NvmlProbe probe = Probe();
  ASSERT_EQ(probe.Sample().size(), 1u);
  EXPECT_EQ(probe.Sample()[0].used_bytes, 300ull << 20);
  const auto lists = probe.Processes();
  ASSERT_TRUE(lists);
  ASSERT_EQ(lists->size(), 1u);
  EXPECT_EQ(lists->at(0).first, probe.List().gpus.at(0).uuid);
  const GpuProcess& process = lists->at(0).second.at(0);
  EXPECT_EQ(process.pid, ::getpid());
  EXPECT_EQ(process.name, "agent_probes_te") << "as the kernel cuts it";
  EXPECT_FALSE(process.user.empty());
  EXPECT_EQ(process.bytes, 290ull << 20);
}

TEST_F(NvmlProbeTest, ANodeWithoutLibraryAndWithoutGpuIsANodeAndNotAnError) {
  options.library.clear();
  if (OpenNvmlLibrary("")) GTEST_SKIP() << "this machine has the NVIDIA driver's library";
  AddPciFunction("0000:00:02.0", "0x8086", "0x030000");
  AddPciFunction("0000:00:03.0", "0x10de", "0x0c0330");  // the USB controller of a card
  const GpuFacts facts = Probe().List();
  EXPECT_EQ(facts, GpuFacts{});
  EXPECT_TRUE(Children().empty()) << "there is nothing left to ask";
}

TEST_F(NvmlProbeTest, AGpuWithoutTheDriversLibraryIsAMissingDriver) {
  options.library.clear();
  if (OpenNvmlLibrary("")) GTEST_SKIP() << "this machine has the NVIDIA driver's library";
  AddPciFunction("0000:41:00.0", "0x10de", "0x030200");
  const GpuFacts facts = Probe().List();
  EXPECT_TRUE(facts.problem.starts_with("driver_missing: ")) << facts.problem;
  EXPECT_NE(facts.problem.find("0000:41:00.0"), std::string::npos);
  EXPECT_TRUE(facts.gpus.empty());
}

TEST_F(NvmlProbeTest, ALibraryThatWasNamedButIsNotThereIsAProblem) {
  options.library = directory() + "/libnvidia-ml.so.1";
  EXPECT_TRUE(Probe().List().problem.starts_with("driver_missing: "));
}

TEST_F(NvmlProbeTest, SaysWhatIsWrongWithTheDriver) {
  for (const auto& [code, problem] :
       {std::pair{9, "driver_not_loaded: "}, std::pair{18, "driver_mismatch: "},
        std::pair{4, "no_access: "}, std::pair{17, "no_access: "}}) {
    Load("gh200");
    state["faults"]["nvmlInit_v2"] = {{"result", code}};
    Write();
    NvmlProbe probe = Probe();
    const GpuFacts facts = probe.List();
    EXPECT_TRUE(facts.problem.starts_with(problem)) << facts.problem;
    EXPECT_TRUE(probe.Sample().empty());
    state.erase("faults");  // the module was loaded, the rights were given
    Write();
    EXPECT_EQ(probe.List().gpus.size(), 1u) << "the same child asks again";
  }
}

TEST_F(NvmlProbeTest, ADriverThatHangsInTheFirstCallIsUnresponsiveWithinTheDeadline) {
  Load("gh200");
  state["faults"]["nvmlInit_v2"] = {{"delay_ms", "forever"}};
  Write();
  options.open_deadline = Millis{200};
  NvmlProbe probe = Probe();
  const auto start = std::chrono::steady_clock::now();
  const GpuFacts facts = probe.List();
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(facts.problem.starts_with("driver_unresponsive: ")) << facts.problem;
  EXPECT_GE(took, Millis{200});
  EXPECT_LT(took, Millis{5000});
  EXPECT_TRUE(Children().empty()) << "the child that hung was killed";
}

TEST_F(NvmlProbeTest, AHangInTheMiddleCondemnsTheGpusLastSeenAndRecoversAfterAMinute) {
  Load("a100-40x4");
  NvmlProbe probe = [&] {
    options.sample_deadline = Millis{200};
    return Probe();
  }();
  ASSERT_EQ(probe.List().gpus.size(), 4u);
  state["faults"]["nvmlDeviceGetUtilizationRates"] = {{"delay_ms", "forever"}};
  Write();
  EXPECT_TRUE(probe.Sample().empty());
  const GpuFacts hung = probe.List();
  EXPECT_TRUE(hung.problem.starts_with("driver_unresponsive: ")) << hung.problem;
  EXPECT_EQ(hung.driver, "550.127.05");
  ASSERT_EQ(hung.gpus.size(), 4u);
  for (const GpuDevice& gpu : hung.gpus) EXPECT_EQ(gpu.health, Health::kBad);

  state.erase("faults");
  Write();
  clock.Advance(Millis{59'000});
  EXPECT_FALSE(probe.List().problem.empty()) << "not started more than once a minute";
  EXPECT_TRUE(Children().empty());
  clock.Advance(Millis{2'000});
  const GpuFacts well = probe.List();
  EXPECT_EQ(well.problem, "");
  for (const GpuDevice& gpu : well.gpus) EXPECT_EQ(gpu.health, Health::kOk);
}

TEST_F(NvmlProbeTest, ASlowDriverIsNotAHungOne) {
  Load("gh200");
  state["faults"]["nvmlDeviceGetName"] = {{"delay_ms", 50}};
  Write();
  EXPECT_EQ(Probe().List().problem, "");
}

TEST_F(NvmlProbeTest, AChildThatDiesIsSaidAndStartedAgainLater) {
  Load("gh200");
  NvmlProbe probe = Probe();
  ASSERT_EQ(probe.List().gpus.size(), 1u);
  const std::vector<pid_t> children = Children();
  ASSERT_EQ(children.size(), 1u);
  ::kill(children[0], SIGKILL);
  const GpuFacts facts = probe.List();
  EXPECT_TRUE(facts.problem.starts_with("driver_unresponsive: ")) << facts.problem;
  EXPECT_NE(facts.problem.find("signal 9"), std::string::npos) << facts.problem;
  clock.Advance(Millis{61'000});
  EXPECT_EQ(probe.List().problem, "");
}

TEST_F(NvmlProbeTest, AnExecutableThatIsNotThereIsAProblemAndNotACrash) {
  Load("gh200");
  options.executable = directory() + "/absent";
  EXPECT_TRUE(Probe().List().problem.starts_with("driver_unresponsive: "));
}

TEST_F(NvmlProbeTest, AChildThatSpeaksNonsenseIsGivenUp) {
  const std::string script = directory() + "/nonsense";
  for (const char* says : {"printf '\\004\\000\\000\\000oops'", "printf '\\377\\377\\377\\377'",
                           "printf '\\005\\000'", ":"}) {
    std::ofstream(script) << "#!/bin/sh\nread x <&- 2>/dev/null\n" << says << "\n";
    ::chmod(script.c_str(), 0755);
    options.executable = script;
    const GpuFacts facts = Probe().List();
    EXPECT_TRUE(facts.problem.starts_with("driver_unresponsive: ")) << says << facts.problem;
  }
}

TEST_F(NvmlProbeTest, NoChildOutlivesTheProbe) {
  Load("gh200");
  {
    NvmlProbe probe = Probe();
    (void)probe.List();
    EXPECT_EQ(Children().size(), 1u);
  }
  EXPECT_TRUE(Children().empty());
}

TEST_F(NvmlProbeTest, AChildInAHangingCallEndsWithItsAgent) {
  Load("gh200");
  state["faults"]["nvmlInit_v2"] = {{"delay_ms", "forever"}};
  Write();
  auto child = ChildProcess::Spawn(
      {.argv = {NVML_CHILD_PROGRAM, "nvml-child", "--library", kLibrary}, .env = {}});
  ASSERT_TRUE(child);
  const std::string request = FrameOf(EncodeRequest(kAskOpen));
  ASSERT_EQ(::send(child->in(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  child->CloseIn();  // what its end of the socket sees when the agent dies
  EXPECT_EQ(child->Reap(Millis{30'000}), 0);
}

// A frozen process takes no SIGKILL and is in state D, like one stuck in the driver.
TEST_F(NvmlProbeTest, WhileAKilledChildIsStuckInTheKernelNoOtherIsStarted) {
  const fs::path group = "/sys/fs/cgroup/freezer/launch-test-" + std::to_string(::getpid());
  std::error_code error;
  if (!fs::create_directory(group, error)) GTEST_SKIP() << "needs root and a cgroup v1 freezer";
  Load("gh200");
  options.list_deadline = Millis{200};
  NvmlProbe probe = Probe();
  ASSERT_EQ(probe.List().gpus.size(), 1u);
  const pid_t child = Children().at(0);
  std::ofstream(group / "cgroup.procs") << child;
  std::ofstream(group / "freezer.state") << "FROZEN";
  EXPECT_TRUE(probe.List().problem.starts_with("driver_unresponsive: "));
  clock.Advance(Millis{120'000});
  const GpuFacts stuck = probe.List();
  EXPECT_NE(stuck.problem.find("cannot be killed (state D)"), std::string::npos) << stuck.problem;
  EXPECT_EQ(Children(), std::vector<pid_t>{child});
  std::ofstream(group / "freezer.state") << "THAWED";
  const auto end = std::chrono::steady_clock::now() + Millis{30'000};
  while (!probe.List().problem.empty() && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_EQ(probe.List().problem, "");
  fs::remove(group, error);
}

}  // namespace
}  // namespace launch::agent
