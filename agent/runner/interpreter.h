// Finds programs on a rank's PATH, and the Python that a launcher word stands for.
#pragma once

#include <string>

#include "common/error.h"
#include "common/launch.h"

namespace launch::agent {

// Where the node's own programs are, such as a container runtime that the job's PATH lacks.
inline constexpr const char* kSystemPath = "/usr/local/bin:/usr/bin:/bin";

// Absolute path of `word` on `path` ("a:b"); a word with '/' is taken relative to `workdir`.
// The error says what was found: "not found on PATH /a:/b", "not executable", "no such file".
Result<std::string> FindProgram(const std::string& word, const std::string& path,
                                const std::string& workdir);

// spec.interpreter, else the interpreter in the first line of spec.interpreter_of, else python3 or
// python on `path`.
Result<std::string> ResolveInterpreter(const AllocationSpec& spec, const std::string& path);

}  // namespace launch::agent
