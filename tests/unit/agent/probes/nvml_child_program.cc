// The program that tests give to NvmlProbe: the verb nvml-child and nothing else.
#include <string>

#include "agent/probes/nvml_child.h"

int main(int argc, char** argv) {
  if (argc < 2 || std::string(argv[1]) != launch::agent::kNvmlChildVerb) return 2;
  const bool named = argc == 4 && std::string(argv[2]) == "--library";
  return launch::agent::RunNvmlChild(named ? argv[3] : "");
}
