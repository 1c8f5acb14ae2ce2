// fuzz --target=NAME [flags of libFuzzer] [corpus...]: one program for all targets, so that one
// link serves them all. libFuzzer passes over flags that begin with "--".
#include <cstdint>
#include <string>

#include "tests/fuzz/targets.h"

namespace launch::fuzz {
namespace {

struct Target {
  const char* name;
  void (*run)(std::string_view bytes);
};

constexpr Target kTargets[] = {
    {"attempt_directory", FuzzAttemptDirectory},
    {"checkpoint", FuzzCheckpoint},
    {"constraint", FuzzConstraint},
    {"deepspeed_config", FuzzDeepspeedConfig},
    {"flight_record", FuzzFlightRecord},
    {"hf_config", FuzzHfConfig},
    {"hostlist", FuzzHostlist},
    {"ignore_rules", FuzzIgnoreRules},
    {"import", FuzzImport},
    {"job_file", FuzzJobFile},
    {"join_line", FuzzJoinLine},
    {"launcher_processes", FuzzLauncherProcesses},
    {"log_scanner", FuzzLogScanner},
    {"network_answer", FuzzNetworkAnswer},
    {"nvml_strings", FuzzNvmlStrings},
    {"progress", FuzzProgress},
    {"proto_messages", FuzzProtoMessages},
    {"python_answer", FuzzPythonAnswer},
    {"python_stacks", FuzzPythonStacks},
    {"rpc_messages", FuzzRpcMessages},
    {"run_line", FuzzRunLine},
    {"snapshot", FuzzSnapshot},
    {"stored_row", FuzzStoredRow},
};

const Target* chosen = nullptr;

}  // namespace
}  // namespace launch::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace launch::fuzz;
  const std::string flag = "--target=";
  for (int i = 1; i < *argc; ++i) {
    const std::string argument = (*argv)[i];
    if (!argument.starts_with(flag)) continue;
    for (const Target& target : kTargets) {
      if (argument.substr(flag.size()) == target.name) chosen = &target;
    }
  }
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "fuzz: give --target=NAME, one of:");
  for (const Target& target : kTargets) std::fprintf(stderr, " %s", target.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  launch::fuzz::chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
