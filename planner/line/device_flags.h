// Flags by which a program is told which devices, or how many, it is to use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

struct NamedDevices {
  std::string flag;           // "--gpus 0,1,2,3"
  int count = 0;              // 0: all that there are
  bool of_lightning = false;  // which compares them with the ranks that it finds
};

// How many devices a list names: "0,1", "[0,1]", "0,", "cuda:0,1". Absent: it is none.
std::optional<int> DevicesInList(std::string_view value);

// What `--gpus 4`, `--devices 0,1`, `--device 0,1`, hydra's `gpus=[0,1]` and the like ask for, the
// most of them. One number behind a flag of one device (`--gpu 2`) is that device's. `lightning`:
// the script is known to be of it; other flags and words tell as well.
std::optional<NamedDevices> DevicesNamedIn(const std::vector<ShellWord>& arguments, bool lightning);

// A device that a command is given: "--device cuda:$g", with its "$g".
struct GivenDevice {
  std::string shown;
  std::string value;
};

// What the words of a program say by a flag for the numbers of devices, also where only the rounds
// of a loop have a value for it; not a name like "cpu".
std::optional<GivenDevice> DeviceGivenIn(const std::vector<ShellWord>& words);

}  // namespace launch
