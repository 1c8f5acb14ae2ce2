// One function for each parser of foreign bytes. They return for every input: what must hold is
// said by Require, and the sanitizers say the rest.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace launch::fuzz {

// Not assert: it must hold in every build.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

void FuzzAttemptDirectory(std::string_view bytes);
void FuzzCheckpoint(std::string_view bytes);
void FuzzConstraint(std::string_view bytes);
void FuzzDeepspeedConfig(std::string_view bytes);
void FuzzFlightRecord(std::string_view bytes);
void FuzzHfConfig(std::string_view bytes);
void FuzzHostlist(std::string_view bytes);
void FuzzIgnoreRules(std::string_view bytes);
void FuzzImport(std::string_view bytes);
void FuzzJobFile(std::string_view bytes);
void FuzzJoinLine(std::string_view bytes);
void FuzzLauncherProcesses(std::string_view bytes);
void FuzzLogScanner(std::string_view bytes);
void FuzzNetworkAnswer(std::string_view bytes);
void FuzzNvmlStrings(std::string_view bytes);
void FuzzProgress(std::string_view bytes);
void FuzzProtoMessages(std::string_view bytes);
void FuzzPythonAnswer(std::string_view bytes);
void FuzzPythonStacks(std::string_view bytes);
void FuzzRpcMessages(std::string_view bytes);
void FuzzRunLine(std::string_view bytes);
void FuzzSnapshot(std::string_view bytes);
void FuzzStoredRow(std::string_view bytes);

}  // namespace launch::fuzz
