// Texts that divide the GPUs among programs of their own, which run at the same time:
// `for i in 0 1 2 3; do CUDA_VISIBLE_DEVICES=$i python eval.py & done; wait`.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "planner/line/shell_text.h"

namespace launch {

struct DeviceSplit {
  // The assignment of one program, as written: "CUDA_VISIBLE_DEVICES=$i", "RANK=1", "--device
  // cuda:$i".
  std::string assignment;
  std::set<int> devices;    // of all programs; empty: they are not written out
  bool by_devices = false;  // not by ranks alone
  bool by_flags = false;    // the devices are places among those that the programs see
  bool maybe = false;       // the text may not come to it, or they may share a device
};

// GPUs that the programs need together; 0: not known.
int GpusOf(const DeviceSplit& split);

// How the script gives a device to each of several programs that run side by side; absent for
// programs that run one after another, or that share a device.
std::optional<DeviceSplit> DeviceSplitOf(const ShellScript& script);

// What to write where it would be started several times.
std::string HintInsteadOfSplit(const DeviceSplit& split);

}  // namespace launch
