#include "cli/conda_names.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "cli/environment_variable.h"

namespace launch {
namespace {

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string Parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

CondaFacts ReadCondaFacts() {
  CondaFacts facts;
  facts.prefix = EnvironmentVariable("CONDA_PREFIX");
  facts.program = EnvironmentVariable("CONDA_EXE");
  const std::string home = EnvironmentVariable("HOME");
  if (!home.empty()) {
    std::ifstream in(home + "/.conda/environments.txt");
    std::ostringstream text;
    text << in.rdbuf();
    facts.environments = text.str();
  }
  return facts;
}

Result<std::string> CondaPrefix(const std::string& name, const CondaFacts& facts) {
  if (name.find('/') != std::string::npos) return name;
  const std::string base = Parent(Parent(facts.program));
  if (name == "base" && !base.empty()) return base;
  std::vector<std::string> prefixes;
  if (!facts.prefix.empty()) prefixes.push_back(facts.prefix);
  std::istringstream lines(facts.environments);
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '/' || line.back() == '\r')) line.pop_back();
    if (!line.empty()) prefixes.push_back(line);
  }
  std::string names;
  for (const std::string& prefix : prefixes) {
    if (BaseName(prefix) == name) return prefix;
    names += (names.empty() ? "" : ", ") + BaseName(prefix);
  }
  return Fail(ErrorCode::kInvalidArgument, "conda: this machine knows no environment " + name,
              names.empty() ? "write its path: conda: /path/to/envs/" + name
                            : "known are " + names + "; or write its path");
}

}  // namespace launch
