// Measured runs as a file: YAML, one entry a run, for `plan --calibration FILE`.
#pragma once

#include <string>
#include <vector>

#include "cli/client.h"
#include "common/error.h"
#include "common/plan.h"
#include "common/view.h"

namespace launch {

// A list of MeasuredRun (common/plan.h), its fields by their names; device is a class of
// configs/gpus.yaml, a driver's name, mps or cpu. Errors name file, line and field.
Result<std::vector<MeasuredRun>> ParseCalibration(std::string_view text, const std::string& file);
Result<std::vector<MeasuredRun>> ReadCalibrationFile(const std::string& path);
std::string FormatCalibration(const std::vector<MeasuredRun>& runs);

// Runs of the caller's own jobs that the cluster knows, oldest first, by one read: those named
// `name`, or all when it is empty, probes among them; at most the newest 200.
Result<std::vector<MeasuredRun>> HistoryOf(Client& client, const std::string& name);

}  // namespace launch
