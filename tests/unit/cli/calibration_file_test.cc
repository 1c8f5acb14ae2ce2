#include "cli/calibration_file.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

TEST(CalibrationFile, IsReadBackAsItWasWritten) {
  std::vector<MeasuredRun> runs = {
      {"a \"b\"", "A100-40GB", 4, 64, 45.5, std::nullopt},
      {"c", "cpu", 1, std::nullopt, std::nullopt, 1800},
      {"d", "mps", 1, 8, 0.5, 60, 4, 3.25, "llama", "hf", "zero1", 0.75}};
  MeasuredRun& full = runs.emplace_back(runs.back());
  full.cold_peak_gib = 30.5;
  full.cold_fixed_gib = 10.25;
  full.script = "0123456789abcdef";
  full.precision = "bf16";
  full.offload = "none";
  full.checkpointing = "full";
  MeasuredRun& probe = runs.emplace_back(full);
  probe.step_seconds = probe.seconds = probe.peak_gib = std::nullopt;
  constexpr double kGb = 1 << 30;
  probe.probe = ProbePoint{4, 2, true, 1.5 * kGb, 2.5 * kGb, 1.25 * kGb, 0.25, 0.125};
  const auto read = ParseCalibration(FormatCalibration(runs), "runs.yaml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, runs);
  EXPECT_TRUE(ParseCalibration(FormatCalibration({}), "runs.yaml")->empty());
}

TEST(CalibrationFile, RefusesWhatIsNoMeasurement) {
  const std::pair<const char*, const char*> cases[] = {
      {"job: x", "not a list"},
      {"- device: cpu\n  seconds: 1", "job"},
      {"- job: x\n  seconds: 1", "device"},
      {"- job: x\n  device: cpu", "step_seconds"},
      {"- job: x\n  device: cpu\n  seconds: 0", "seconds"},
      {"- job: x\n  device: cpu\n  seconds: .inf", "number"},
      {"- job: x\n  device: cpu\n  ranks: 0\n  seconds: 1", "ranks"},
      {"- job: x\n  device: cpu\n  second: 1", "seconds"},
      {"- job: x\n  device: cpu\n  seconds: 1\n  micro: 0", "micro"},
      {"- job: x\n  device: cpu\n  seconds: 1\n  peak_gib: -1", "peak_gib"},
      {"- job: x\n  device: cpu\n  seconds: 1\n  cold_step_seconds: 0", "cold_step_seconds"},
      {"- job: x\n  device: cpu\n  seconds: 1\n  cold_peak_gib: 0", "cold_peak_gib"},
      {"- job: x\n  device: cpu\n  probe: 3", "a map"},
      {"- job: x\n  device: cpu\n  probe: {micro: 0, peak_gib: 1}", "micro"},
      {"- job: x\n  device: cpu\n  probe: {micro: 1}", "peak_gib"},
      {"- job: x\n  device: cpu\n  probe: {micro: 1, peak_gib: .nan}", "number"},
  };
  for (const auto& [text, word] : cases) {
    const auto read = ParseCalibration(text, "runs.yaml");
    ASSERT_FALSE(read) << text;
    EXPECT_NE((read.error().message + read.error().hint).find(word), std::string::npos)
        << read.error().message;
  }
}

}  // namespace
}  // namespace launch
