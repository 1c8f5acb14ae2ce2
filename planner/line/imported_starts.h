// Functions of other modules by which a Python program starts or submits its processes:
// `from pkg.misc import launch_job` and `launch_job(cfg, train)`. Found by their spelling.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace launch {

struct ImportedStart {
  std::string function;            // its name in the module
  std::string called;              // and in the text that imports it
  std::vector<std::string> files;  // where the module's text may lie, seen from the directory
};

// Functions that start processes, to judge by their names, which the text imports and calls.
// `script`: the path of the text.
std::vector<ImportedStart> ImportedStartsOf(std::string_view text, std::string_view script);

// The function of that name in a module's text, without indentation; empty: there is none.
std::string_view FunctionIn(std::string_view text, std::string_view name);

}  // namespace launch
