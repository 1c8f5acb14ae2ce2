#include "agent/probes/nvml_session.h"

#include <unistd.h>

#include <set>

#include "tests/unit/agent/probes/nvml_fixture.h"

namespace launch::agent {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

// The real library with some symbols withheld, as an older driver would.
class Without final : public SymbolResolver {
 public:
  Without(SymbolResolver& all, std::set<std::string> missing)
      : all_(all), missing_(std::move(missing)) {}
  void* Find(const char* symbol) override {
    return missing_.contains(symbol) ? nullptr : all_.Find(symbol);
  }

 private:
  SymbolResolver& all_;
  const std::set<std::string> missing_;
};

class NvmlSessionTest : public FakeDriver {
 protected:
  NvmlSession Session(std::set<std::string> missing = {}) {
    if (!library_) library_ = OpenNvmlLibrary(kLibrary).value();
    Without resolver(*library_, std::move(missing));
    return {ResolveNvml(resolver), [this](std::int64_t pid) { return pids.contains(pid); }};
  }
  GpuFacts List(std::set<std::string> missing = {}) { return Session(std::move(missing)).List(); }

  std::set<std::int64_t> pids;

 private:
  std::unique_ptr<SymbolResolver> library_;
};

TEST_F(NvmlSessionTest, ReadsAGraceHopperNodeAsTheDriverTellsIt) {
  Load("gh200");
  const GpuFacts facts = List();
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.driver, "570.124.06");
  EXPECT_EQ(facts.driver_cuda, (CudaVersion{12, 8}));
  EXPECT_EQ(facts.coherent, CoherentMode::kNuma);
  ASSERT_EQ(facts.gpus.size(), 1u);
  const GpuDevice& gpu = facts.gpus[0];
  EXPECT_EQ(gpu.model, "NVIDIA GH200 480GB");
  EXPECT_EQ(gpu.memory_bytes, 97871 * kMiB);
  EXPECT_EQ(gpu.reserved_bytes, 618 * kMiB);
  EXPECT_EQ(gpu.cc, (ComputeCapability{9, 0}));
  EXPECT_EQ(gpu.pci, "0009:01:00.0");
  EXPECT_EQ(gpu.numa, 1);
  EXPECT_EQ(gpu.ecc, true);
  EXPECT_EQ(gpu.power_limit_w, 900);
  EXPECT_EQ(gpu.health, Health::kOk);
}

TEST_F(NvmlSessionTest, TellsClocksPcieRemappedRowsAndTheFabric) {
  Load("h100x8");
  state["devices"][0]["pcie"]["width"] = 8;
  state["devices"][0]["remapped"]["correctable"] = 2;
  state["devices"][1]["fabric_state"] = 2;
  state["devices"][1]["clock_mhz"] = 1410;
  state["devices"][1]["default_clock_mhz"] = 1980;
  Write();
  const GpuFacts facts = List();
  ASSERT_EQ(facts.gpus.size(), 8u);
  const GpuDevice& narrow = facts.gpus[0];
  EXPECT_EQ(narrow.pcie, (PcieLink{5, 5, 8, 16}));
  EXPECT_EQ(narrow.clocks, (ClockLimits{1980, std::nullopt, 2619}));
  EXPECT_EQ(narrow.remapped, (RemappedRows{2, 0, false, false}));
  EXPECT_EQ(narrow.fabric, FabricState::kCompleted);
  EXPECT_EQ(narrow.health, Health::kWarn);
  EXPECT_TRUE(narrow.why.starts_with("pcie_narrow: ")) << narrow.why;
  EXPECT_EQ(facts.gpus[1].fabric, FabricState::kInProgress);
  EXPECT_EQ(facts.gpus[1].clocks.graphics_set, 1410);
  EXPECT_TRUE(facts.gpus[1].why.starts_with("fabric_not_ready: ")) << facts.gpus[1].why;
  EXPECT_EQ(facts.gpus[2].health, Health::kOk) << facts.gpus[2].why;
}

TEST_F(NvmlSessionTest, TellsOfAPowerLimitThatWasSetBelowTheDefault) {
  Load("h100x8");
  for (nlohmann::json& gpu : state["devices"]) gpu["default_power_limit_w"] = 700;
  state["devices"][1]["power_limit_w"] = 450;
  state["devices"][2]["power_limit_w"] = 750;
  state["devices"][3].erase("default_power_limit_w");
  state["devices"][3]["power_limit_w"] = 450;  // a driver that names no default
  Write();
  const GpuFacts facts = List();
  ASSERT_EQ(facts.gpus.size(), 8u);
  const GpuDevice& limited = facts.gpus[1];
  EXPECT_EQ(limited.health, Health::kWarn);
  EXPECT_EQ(limited.why,
            "power_limited: its power limit was set to 450 W, 700 W is usual; nvidia-smi -i " +
                limited.pci + " -pl 700 resets it");
  for (const std::size_t other : {0, 2, 3})
    EXPECT_EQ(facts.gpus[other].health, Health::kOk) << facts.gpus[other].why;
}

TEST_F(NvmlSessionTest, KeepsTheHighestPcieGenerationThatAGpuReached) {
  Load("rtx4090");  // without work
  NvmlSession session = Session();
  EXPECT_EQ(session.List().gpus.at(0).pcie, (PcieLink{1, 4, 16, 16}));
  for (const int generation : {4, 1}) {
    state["devices"][0]["pcie"]["generation"] = generation;
    Write();
    EXPECT_EQ(session.List().gpus.at(0).pcie.generation, 4);
  }
  EXPECT_EQ(session.List().gpus.at(0).health, Health::kOk);
}

TEST_F(NvmlSessionTest, AnOlderDriverLeavesPcieAndClocksOut) {
  Load("h100x8");
  const GpuFacts facts = List({"nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetCurrPcieLinkGeneration",
                               "nvmlDeviceGetMaxPcieLinkGeneration",
                               "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkWidth",
                               "nvmlDeviceGetRemappedRows", "nvmlDeviceGetGpuFabricInfoV"});
  const GpuDevice& gpu = facts.gpus.at(0);
  EXPECT_EQ(gpu.pcie, PcieLink{});
  EXPECT_EQ(gpu.clocks, ClockLimits{});
  EXPECT_EQ(gpu.remapped, std::nullopt);
  EXPECT_EQ(gpu.fabric, std::nullopt);
  EXPECT_EQ(gpu.health, Health::kOk);
}

TEST_F(NvmlSessionTest, LeavesAbsentWhatAGpuDoesNotSupport) {
  Load("rtx4090");
  const GpuDevice gpu = List().gpus.at(0);
  EXPECT_EQ(gpu.ecc, std::nullopt);
  EXPECT_EQ(gpu.numa, std::nullopt);
  EXPECT_TRUE(gpu.mig.empty());
  EXPECT_TRUE(gpu.links.empty());
  EXPECT_EQ(gpu.health, Health::kOk);
}

TEST_F(NvmlSessionTest, TreatsEveryKindOfNoAsAbsentAndNotAsZero) {
  for (const int code : {3, 13, 21, 25, 27, 28}) {
    Load("gh200");
    for (const char* symbol : {"nvmlDeviceGetEccMode", "nvmlDeviceGetEnforcedPowerLimit",
                               "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetNumaNodeId"})
      state["faults"][symbol] = {{"result", code}};
    Write();
    const GpuDevice gpu = List().gpus.at(0);
    EXPECT_EQ(gpu.ecc, std::nullopt) << code;
    EXPECT_EQ(gpu.power_limit_w, std::nullopt) << code;
    EXPECT_EQ(gpu.cc, std::nullopt) << code;
    EXPECT_EQ(gpu.numa, std::nullopt) << code;
    EXPECT_EQ(gpu.health, Health::kOk) << code;
  }
}

TEST_F(NvmlSessionTest, NamesWhatIsWrongWithTheWholeDriver) {
  const std::vector<std::pair<int, std::string>> rows = {{9, "driver_not_loaded"},
                                                         {18, "driver_mismatch"},
                                                         {4, "no_access"},
                                                         {17, "no_access"},
                                                         {999, "driver_unresponsive"}};
  for (const auto& [code, problem] : rows) {
    Load("gh200");
    state["faults"]["nvmlInit_v2"] = {{"result", code}};
    Write();
    const GpuFacts facts = List();
    EXPECT_TRUE(facts.problem.starts_with(problem + ": ")) << code << " gave " << facts.problem;
    EXPECT_TRUE(facts.gpus.empty());
  }
}

TEST_F(NvmlSessionTest, KeepsALostGpuAsABadPlaceholderAndTheOthersAsTheyAre) {
  Load("a100-40x4");
  NvmlSession session = Session();
  const GpuFacts before = session.List();
  state["devices"][1]["lost"] = true;
  Write();
  const GpuFacts after = session.List();
  EXPECT_EQ(after.problem, "");
  ASSERT_EQ(after.gpus.size(), 4u);
  EXPECT_EQ(after.gpus[1].uuid, before.gpus[1].uuid);
  EXPECT_EQ(after.gpus[1].memory_bytes, before.gpus[1].memory_bytes);
  EXPECT_EQ(after.gpus[1].health, Health::kBad);
  EXPECT_TRUE(after.gpus[1].why.starts_with("lost: ")) << after.gpus[1].why;
  for (const int index : {0, 2, 3}) EXPECT_EQ(after.gpus[index].health, Health::kOk);
  EXPECT_EQ(after.gpus[0].links.size(), 2u) << "no link leads to a lost GPU";
}

TEST_F(NvmlSessionTest, SeesAGpuComeBack) {
  Load("rtx4090");
  state["devices"][0]["lost"] = true;
  Write();
  NvmlSession session = Session();
  EXPECT_EQ(session.List().gpus.at(0).health, Health::kBad);
  state["devices"][0]["lost"] = false;
  Write();
  const GpuDevice back = session.List().gpus.at(0);
  EXPECT_EQ(back.health, Health::kOk);
  EXPECT_EQ(back.model, "NVIDIA GeForce RTX 4090");
}

TEST_F(NvmlSessionTest, GivesALostGpuThatWasNeverSeenAnIdentityOfItsOwn) {
  Load("a100-40x4");
  state["devices"][0]["lost"] = true;
  state["devices"][2]["lost"] = true;
  Write();
  const GpuFacts facts = List();
  ASSERT_EQ(facts.gpus.size(), 4u);
  EXPECT_EQ(facts.gpus[0].health, Health::kOk) << "what has no known place comes last";
  EXPECT_EQ(facts.gpus[3].health, Health::kBad);
  EXPECT_NE(facts.gpus[2].uuid, facts.gpus[3].uuid);
  EXPECT_FALSE(facts.gpus[3].uuid.value.empty());
}

TEST_F(NvmlSessionTest, CondemnsAGpuWhenOneQueryInTheMiddleFindsItLost) {
  for (const auto& [code, why] : {std::pair{15, "lost: "}, std::pair{16, "needs_reset: "}}) {
    Load("a100-40x4");
    state["faults"]["nvmlDeviceGetMemoryInfo_v2"] = {{"result", code}, {"devices", {2}}};
    Write();
    const GpuFacts facts = List();
    ASSERT_EQ(facts.gpus.size(), 4u);
    EXPECT_EQ(facts.gpus[2].health, Health::kBad);
    EXPECT_TRUE(facts.gpus[2].why.starts_with(why)) << facts.gpus[2].why;
    EXPECT_EQ(facts.gpus[2].pci, "0000:47:00.0");
    EXPECT_EQ(facts.gpus[3].health, Health::kOk);
  }
}

TEST_F(NvmlSessionTest, ReportsDevicesThatMayNotBeOpened) {
  Load("a100-40x4");
  state["faults"]["nvmlDeviceGetHandleByIndex_v2"] = {{"result", 4}, {"devices", {3}}};
  Write();
  const GpuFacts facts = List();
  EXPECT_TRUE(facts.problem.starts_with("no_access: ")) << facts.problem;
  EXPECT_EQ(facts.gpus.at(3).health, Health::kBad);
  EXPECT_EQ(facts.gpus.at(0).health, Health::kOk);
}

TEST_F(NvmlSessionTest, AGpuThatIsNoLongerCountedIsLostAndNotForgotten) {
  Load("a100-40x4");
  NvmlSession session = Session();
  const GpuFacts before = session.List();
  ASSERT_EQ(before.gpus.size(), 4u);
  state["devices"].erase(1);  // the library now counts three, under other numbers
  Write();
  const GpuFacts after = session.List();
  ASSERT_EQ(after.gpus.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(after.gpus[i].uuid, before.gpus[i].uuid);
    EXPECT_EQ(after.gpus[i].health, i == 1 ? Health::kBad : Health::kOk) << i;
  }
}

TEST_F(NvmlSessionTest, OrdersGpusByPciAndNotAsTheLibraryCounts) {
  Load("a100-40x4");
  std::swap(state["devices"][0], state["devices"][3]);
  state.erase("topology");
  for (auto& device : state["devices"]) device.erase("nvlink");
  Write();
  const GpuFacts facts = List();
  EXPECT_EQ(facts.gpus[0].pci, "0000:07:00.0");
  EXPECT_EQ(facts.gpus[3].pci, "0000:4e:00.0");
}

TEST_F(NvmlSessionTest, LinksFollowTheirGpuWhenTheLibraryCountsDifferently) {
  Load("a100-40x4");
  state["topology"] = {{"default", 50}};
  for (auto& device : state["devices"]) device.erase("nvlink");
  state["devices"][0]["nvlink"] = {{{"peer", 2}, {"count", 2}, {"version", 3}}};
  state["devices"][2]["nvlink"] = {{{"peer", 0}, {"count", 2}, {"version", 3}}};
  state["devices"][0]["pci"] = "0000:ff:00.0";
  Write();
  const GpuFacts facts = List();
  ASSERT_EQ(facts.gpus[3].pci, "0000:ff:00.0");
  for (const GpuLink& link : facts.gpus[3].links)
    EXPECT_EQ(link.kind == LinkKind::kNvlink, link.peer_pci == "0000:47:00.0") << link.peer_pci;
}

TEST_F(NvmlSessionTest, CountsNvlinksToPeersAndThroughSwitches) {
  Load("a100-40x4");
  const GpuDevice a100 = List().gpus.at(0);
  ASSERT_EQ(a100.links.size(), 3u);
  EXPECT_EQ(
      a100.links[0],
      (GpuLink{.peer_pci = "0000:0f:00.0", .kind = LinkKind::kNvlink, .version = 3, .count = 4}));
  Load("h100x8");
  const GpuFacts facts = List();
  ASSERT_EQ(facts.gpus.size(), 8u);
  ASSERT_EQ(facts.gpus[7].links.size(), 7u);
  EXPECT_EQ(facts.gpus[7].links[0].kind, LinkKind::kNvlink);
  EXPECT_EQ(facts.gpus[7].links[0].count, 18);
  EXPECT_EQ(facts.gpus[7].links[0].version, 4);
}

TEST_F(NvmlSessionTest, NamesThePathBetweenGpusWithoutNvlink) {
  const std::vector<std::pair<int, LinkKind>> rows = {{0, LinkKind::kPix},   {10, LinkKind::kPix},
                                                      {20, LinkKind::kPxb},  {30, LinkKind::kPhb},
                                                      {40, LinkKind::kNode}, {50, LinkKind::kSys}};
  for (const auto& [level, kind] : rows) {
    Load("a100-40x4");
    for (auto& device : state["devices"]) device.erase("nvlink");
    state["topology"] = {{"default", level}};
    Write();
    EXPECT_EQ(List().gpus.at(1).links.at(0).kind, kind) << level;
  }
}

TEST_F(NvmlSessionTest, AnOlderDriverOnlyLacksFields) {
  Load("gh200");
  const GpuFacts facts =
      List({"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetNumaNodeId", "nvmlDeviceGetC2cModeInfoV",
            "nvmlDeviceGetAddressingMode", "nvmlDeviceGetGpuFabricInfoV",
            "nvmlDeviceGetFieldValues", "nvmlSystemGetCudaDriverVersion_v2",
            "nvmlDeviceGetNvLinkState", "nvmlDeviceGetMigMode", "nvmlDeviceGetRemappedRows"});
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.driver_cuda, (CudaVersion{12, 8})) << "the older call still tells it";
  EXPECT_EQ(facts.gpus.at(0).memory_bytes, 97871 * kMiB);
  EXPECT_EQ(facts.gpus.at(0).reserved_bytes, std::nullopt);
  EXPECT_EQ(facts.gpus.at(0).numa, std::nullopt);
  EXPECT_EQ(facts.gpus.at(0).health, Health::kOk);
}

TEST_F(NvmlSessionTest, NoSingleMissingSymbolBreaksTheList) {
  Load("h100x8");
  const std::vector<std::string> symbols = {"nvmlShutdown",
                                            "nvmlSystemGetDriverVersion",
                                            "nvmlDeviceGetName",
                                            "nvmlDeviceGetPciInfo_v3",
                                            "nvmlDeviceGetCudaComputeCapability",
                                            "nvmlDeviceGetMemoryInfo_v2",
                                            "nvmlDeviceGetTopologyCommonAncestor",
                                            "nvmlDeviceGetNvLinkRemoteDeviceType",
                                            "nvmlDeviceGetNvLinkRemotePciInfo_v2",
                                            "nvmlDeviceGetNvLinkVersion",
                                            "nvmlDeviceGetEccMode"};
  for (const std::string& symbol : symbols) {
    const GpuFacts facts = List({symbol});
    EXPECT_EQ(facts.problem, "") << symbol;
    EXPECT_EQ(facts.gpus.size(), 8u) << symbol;
  }
  EXPECT_TRUE(List({"nvmlInit_v2"}).problem.starts_with("driver_mismatch: "));
  EXPECT_TRUE(List({"nvmlDeviceGetCount_v2"}).problem.starts_with("driver_mismatch: "));
}

TEST_F(NvmlSessionTest, ListsMigSlicesAcrossHoles) {
  Load("a100-40x4");
  state["devices"][0]["mig"] = {
      {"enabled", true},
      {"max", 7},
      {"slices",
       {{{"uuid", "MIG-1"}, {"profile", "3g.20gb"}, {"memory_mib", 19968}, {"gi", 1}, {"ci", 0}},
        nullptr,
        {{"uuid", "MIG-2"}, {"profile", "1g.5gb"}, {"memory_mib", 4864}, {"gi", 9}, {"ci", 0}}}}};
  Write();
  const std::vector<MigSlice> by_name = List().gpus.at(0).mig;
  ASSERT_EQ(by_name.size(), 2u);
  EXPECT_EQ(by_name[0], (MigSlice{GpuUuid{"MIG-1"}, "3g.20gb", 19968 * kMiB}));
  EXPECT_EQ(by_name[1], (MigSlice{GpuUuid{"MIG-2"}, "1g.5gb", 4864 * kMiB}));
  EXPECT_EQ(List({"nvmlDeviceGetName"}).gpus.at(0).mig, by_name) << "profile from the sizes";
}

TEST_F(NvmlSessionTest, SamplesAndProcessesOfASliceAreItsOwn) {
  Load("a100-40x4");
  state["devices"][0]["mig"] = {{"enabled", true},
                                {"max", 7},
                                {"slices",
                                 {{{"uuid", "MIG-1"},
                                   {"profile", "3g.20gb"},
                                   {"memory_mib", 19968},
                                   {"used_mib", 700},
                                   {"gi", 1}},
                                  {{"uuid", "MIG-2"},
                                   {"profile", "1g.5gb"},
                                   {"memory_mib", 4864},
                                   {"used_mib", 0},
                                   {"gi", 9}}}}};
  state["devices"][0]["processes"] = {{{"pid", ::getpid()}, {"used_mib", 700}, {"gi", 1}}};
  Write();
  NvmlSession session = Session();
  (void)session.List();
  std::map<std::string, GpuSample> samples;
  for (const GpuSample& sample : session.Sample()) samples[sample.uuid.value] = sample;
  EXPECT_EQ(samples.at("MIG-1").used_bytes, 700 * kMiB);
  EXPECT_EQ(samples.at("MIG-2").used_bytes, 0u);
  EXPECT_EQ(samples.at("MIG-1").utilization, std::nullopt) << "the driver does not tell it";
  std::map<std::string, std::size_t> processes;
  for (const auto& [uuid, list] : session.Processes()) processes[uuid.value] = list.size();
  EXPECT_EQ(processes.at("MIG-1"), 1u);
  EXPECT_EQ(processes.at("MIG-2"), 0u) << "a neighbour's process does not hold it";
}

TEST_F(NvmlSessionTest, CondemnsMigModeWithoutSlicesAndWarnsOfAPendingChange) {
  Load("a100-40x4");
  state["devices"][0]["mig"] = {{"enabled", true}, {"max", 7}, {"slices", nlohmann::json::array()}};
  state["devices"][1]["mig"] = {{"enabled", false}, {"pending", true}};
  Write();
  const GpuFacts facts = List();
  EXPECT_EQ(facts.gpus.at(0).health, Health::kBad);
  EXPECT_TRUE(facts.gpus.at(0).why.starts_with("mig_without_slices: "));
  EXPECT_EQ(facts.gpus.at(1).health, Health::kWarn);
  EXPECT_TRUE(facts.gpus.at(1).why.starts_with("mig_pending: "));
  EXPECT_EQ(facts.gpus.at(2).health, Health::kOk);
}

TEST_F(NvmlSessionTest, TellsPersistenceModeOnlyWhereTheDriverDoes) {
  Load("gh200");
  EXPECT_EQ(List().gpus.at(0).persistence, std::nullopt);
  state["devices"][0]["persistence"] = 0;
  Write();
  EXPECT_EQ(List().gpus.at(0).persistence, false);
  state["devices"][0]["persistence"] = 1;
  Write();
  EXPECT_EQ(List().gpus.at(0).persistence, true);
}

TEST_F(NvmlSessionTest, TellsCoherentMemoryThatTheDriverManages) {
  Load("gh200");
  state["devices"][0].erase("numa");
  Write();
  EXPECT_EQ(List().coherent, CoherentMode::kDriver);
  state["devices"][0].erase("c2c");
  state["devices"][0]["addressing"] = 2;
  Write();
  EXPECT_EQ(List().coherent, CoherentMode::kDriver);
  state["devices"][0]["addressing"] = 1;
  Write();
  EXPECT_EQ(List().coherent, CoherentMode::kNone);
}

TEST_F(NvmlSessionTest, TakesTheDriversRequestForARecoveryAsBadHealth) {
  Load("h100x8");
  state["devices"][2]["recovery_action"] = 1;
  state["devices"][3]["remapped"]["pending"] = true;
  state["devices"][4]["remapped"]["failure"] = true;
  state["devices"][5]["fabric_state"] = 2;
  state["devices"][6]["fabric_state"] = 0;
  Write();
  const GpuFacts facts = List();
  EXPECT_EQ(facts.gpus[2].health, Health::kBad);
  EXPECT_TRUE(facts.gpus[2].why.starts_with("needs_reset: ")) << facts.gpus[2].why;
  EXPECT_EQ(facts.gpus[3].health, Health::kWarn);
  EXPECT_EQ(facts.gpus[4].health, Health::kBad);
  EXPECT_EQ(facts.gpus[5].health, Health::kBad);
  EXPECT_EQ(facts.gpus[6].health, Health::kOk) << "no fabric is well";
}

TEST_F(NvmlSessionTest, SamplesWhatTheDriverMeasures) {
  Load("gh200");
  state["devices"][0]["memory"]["used_mib"] = 40000;
  state["devices"][0]["utilization"]["gpu"] = 83;
  Write();
  NvmlSession session = Session();
  const GpuSample sample = session.Sample().at(0);
  EXPECT_EQ(sample.used_bytes, 40000 * kMiB) << "without what the driver reserves";
  EXPECT_EQ(sample.utilization, 0.83);
  EXPECT_EQ(sample.power_w, 98.4);
  EXPECT_EQ(sample.temperature_c, 34);
  state["devices"][0]["memory"]["used_mib"] = 50000;
  state["devices"][0].erase("power_w");
  Write();
  const GpuSample next = session.Sample().at(0);
  EXPECT_EQ(next.used_bytes, 50000 * kMiB);
  EXPECT_EQ(next.power_w, std::nullopt);
}

TEST_F(NvmlSessionTest, ListsProcessesOfEveryKindOncePerGpu) {
  Load("rtx4090");
  state["devices"][0]["processes"] = {{{"pid", 100}, {"used_mib", 300}},
                                      {{"pid", 100}, {"used_mib", 300}, {"kind", "graphics"}},
                                      {{"pid", 101}, {"kind", "graphics"}},
                                      {{"pid", 102}, {"used_mib", 5}, {"kind", "mps"}}};
  Write();
  pids = {100, 101, 102};
  const auto lists = Session().Processes();
  ASSERT_EQ(lists.size(), 1u);
  const std::vector<GpuProcess>& processes = lists[0].second;
  ASSERT_EQ(processes.size(), 3u);
  EXPECT_EQ(processes[0].bytes, 300 * kMiB);
  EXPECT_EQ(processes[1].bytes, std::nullopt) << "not known is not zero";
  EXPECT_EQ(processes[2].pid, 102);
}

TEST_F(NvmlSessionTest, GrowsForManyProcesses) {
  Load("rtx4090");
  for (int pid = 1000; pid < 1100; ++pid) {
    state["devices"][0]["processes"].push_back({{"pid", pid}, {"used_mib", 1}});
    pids.insert(pid);
  }
  Write();
  EXPECT_EQ(Session().Processes().at(0).second.size(), 100u);
}

TEST_F(NvmlSessionTest, ReadsTheLongerProcessRecordsOfEarlyR535Drivers) {
  Load("rtx4090");
  for (const int pid : {500, 501, 502})
    state["devices"][0]["processes"].push_back({{"pid", pid}, {"used_mib", pid}});
  pids = {500, 501, 502};
  for (const int stride : {24, 32}) {
    state["process_stride"] = stride;
    Write();
    const auto lists = Session().Processes();
    const std::vector<GpuProcess>& processes = lists.at(0).second;
    ASSERT_EQ(processes.size(), 3u) << stride;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(processes[i].pid, 500 + i) << stride;
      EXPECT_EQ(processes[i].bytes, (500 + i) * kMiB) << stride;
    }
  }
}

TEST_F(NvmlSessionTest, ProcessesOfAnotherPidNamespaceAreReadAsDocumented) {
  Load("rtx4090");
  for (const int pid : {500, 501, 502})
    state["devices"][0]["processes"].push_back({{"pid", pid}, {"used_mib", pid}});
  Write();
  EXPECT_EQ(Session().Processes().at(0).second.at(2).pid, 502);
}

TEST_F(NvmlSessionTest, AFailedListOfProcessesIsNoEmptyOne) {
  Load("rtx4090");
  Write();
  ASSERT_EQ(Session().Processes().size(), 1u);
  EXPECT_TRUE(Session().Processes().at(0).second.empty());
  state["faults"]["nvmlDeviceGetComputeRunningProcesses_v3"] = {{"result", 999}};
  Write();
  EXPECT_TRUE(Session().Processes().empty()) << "nothing is said of that GPU";
}

}  // namespace
}  // namespace launch::agent
