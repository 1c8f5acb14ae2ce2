#include "agent/runner/interpreter.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "common/foreign_file.h"
#include "common/text.h"

namespace launch::agent {
namespace {

enum class Found { kNo, kDirectory, kNotExecutable, kYes };

Found Look(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Found::kNo;
  if (S_ISDIR(info.st_mode)) return Found::kDirectory;
  // Of who acts, not of who this process is: that may be root, for a user.
  return ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? Found::kYes
                                                                    : Found::kNotExecutable;
}

// The first two lines of a script that a user named, or put on the PATH of his job.
constexpr std::size_t kMostShebang = 8192;  // the kernel itself reads 256 bytes of a shebang

// Interpreter of "#!/usr/bin/env -S python3" or "#!/venv/bin/python -E"; empty when none.
std::string ShebangOf(const std::string& lines, const std::string& path) {
  if (!lines.starts_with("#!")) return {};
  std::stringstream words(lines.substr(2, std::min<std::size_t>(lines.find('\n'), 4096) - 2));
  std::string word;
  words >> word;
  if (!word.ends_with("/env")) return word;
  while (words >> word) {
    if (word.starts_with("-") || word.find('=') != std::string::npos) continue;
    return FindProgram(word, path, "/").value_or(std::string());
  }
  return {};
}

// pip writes this for paths too long for a shebang: "#!/bin/sh" and then "'''exec' /path/python".
std::string ExecTrickOf(const std::string& lines) {
  const std::string mark = "'''exec' ";
  const std::size_t first = lines.find('\n');
  if (first == std::string::npos || !lines.substr(first + 1).starts_with(mark)) return {};
  const std::size_t from = first + 1 + mark.size();
  std::string rest = lines.substr(from, lines.find('\n', from) - from);
  const bool quoted = rest.starts_with('"');
  if (quoted) rest.erase(0, 1);
  return rest.substr(0, rest.find(quoted ? '"' : ' '));
}

}  // namespace

Result<std::string> FindProgram(const std::string& word, const std::string& path,
                                const std::string& workdir) {
  if (word.find('/') != std::string::npos) {
    const std::string file = word.starts_with('/') ? word : workdir + "/" + word;
    switch (Look(file)) {
      case Found::kYes:
        return file;
      case Found::kNo:
        return Fail(ErrorCode::kNotFound, "no such file");
      case Found::kDirectory:
        return Fail(ErrorCode::kNotFound, "is a directory");
      case Found::kNotExecutable:
        return Fail(ErrorCode::kNotFound, "not executable");
    }
  }
  std::string not_executable;
  for (const std::string_view directory : Split(path, ':')) {
    const std::string file = (directory.empty() ? workdir : std::string(directory)) + "/" + word;
    const Found found = Look(file);
    if (found == Found::kYes) return file;
    if (found == Found::kNotExecutable && not_executable.empty()) not_executable = file;
  }
  if (!not_executable.empty()) {
    return Fail(ErrorCode::kNotFound, not_executable + " is not executable");
  }
  return Fail(ErrorCode::kNotFound, "not found on PATH " + path);
}

Result<std::string> ResolveInterpreter(const AllocationSpec& spec, const std::string& path) {
  if (!spec.interpreter.empty()) return spec.interpreter;
  if (!spec.interpreter_of.empty()) {
    if (const auto launcher = FindProgram(spec.interpreter_of, path, spec.workdir)) {
      const std::string lines = ReadHead(*launcher, kMostShebang);
      std::string python = ShebangOf(lines, path);
      if (python.ends_with("/sh")) python = ExecTrickOf(lines);
      const std::string name = python.substr(python.rfind('/') + 1);
      if (name.starts_with("python") || name.starts_with("pypy")) return python;
    }
  }
  for (const char* const name : {"python3", "python"}) {
    if (auto python = FindProgram(name, path, spec.workdir)) return python;
  }
  return Fail(ErrorCode::kNotFound, "no python3 or python on PATH " + path,
              "name the environment with `venv:`, `conda:` or `python:`");
}

}  // namespace launch::agent
