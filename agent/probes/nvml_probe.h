// GpuProbe over a child process that asks the NVIDIA driver, with a deadline on every question.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/probes/child_process.h"
#include "agent/probes/gpu_probe.h"
#include "common/clock.h"
#include "common/gpu_catalog.h"

namespace launch::agent {

// One caller thread. When a question is not answered in time the child is killed, the GPUs last
// seen are reported with health bad and the problem "driver_unresponsive: ...", and no new child is
// started before `respawn_after`; none at all while a killed one is stuck in the driver.
class NvmlProbe final : public GpuProbe {
 public:
  struct Options {
    std::string executable = "/proc/self/exe";  // a program that has the verb nvml-child
    std::string library;                        // empty: found by name
    std::string sys_root = "/sys";
    std::string proc_root = "/proc";
    Millis open_deadline{15'000};  // once per child: GPUs without persistence mode start slowly
    Millis list_deadline{5'000};
    Millis sample_deadline{2'000};
    Millis respawn_after{60'000};
  };
  NvmlProbe(Options options, Clock& clock, const GpuCatalog& catalog);
  ~NvmlProbe() override;

  GpuFacts List() override;
  std::vector<GpuSample> Sample() override;
  std::optional<GpuProcessList> Processes() override;

 private:
  // The answer, or the problem of the driver ("driver_unresponsive: ...").
  tl::expected<std::string, std::string> Ask(std::string_view verb, Millis deadline);
  // A child that has opened the driver, or the problem.
  tl::expected<void, std::string> Ready();
  tl::expected<std::string, std::string> Exchange(std::string_view verb, Millis deadline);
  std::string GiveUp(const std::string& what);  // kills the child; the problem
  GpuFacts Unresponsive(const std::string& problem) const;
  std::string NameOfUser(unsigned uid);

  const Options options_;
  Clock& clock_;
  const GpuCatalog& catalog_;
  std::unique_ptr<ChildProcess> child_;
  bool opened_ = false;
  std::unique_ptr<ChildProcess> stuck_;  // killed, but still in the driver
  std::optional<BootTime> spawned_;
  std::string problem_;  // why there is no child
  GpuFacts last_;        // last good facts
  std::map<unsigned, std::string> users_;
};

// PCI functions of NVIDIA GPUs (vendor 10de, class 0300 or 0302) in sysfs, in PCI order.
std::vector<std::string> NvidiaPciFunctions(const std::string& sys_root);

}  // namespace launch::agent
