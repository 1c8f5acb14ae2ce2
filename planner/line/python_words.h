// What an interpreter is told to run: a script, a module or a text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

enum class PythonRuns { kScript, kModule, kText };

struct PythonProgram {
  PythonRuns runs = PythonRuns::kScript;
  std::size_t word = 0;    // index of the script, or of the flag: "-m", "-um", "-mpkg.train"
  std::string name;        // of the script or module
  std::size_t behind = 0;  // index of the program's first own argument
};

// words[first] is the interpreter. Absent: it reads standard input, or only says something.
std::optional<PythonProgram> PythonProgramOf(const std::vector<ShellWord>& words,
                                             std::size_t first);

// The module that words[i] alone makes an interpreter run: "-m pkg", "-um pkg", "-mpkg".
std::optional<PythonProgram> ModuleAt(const std::vector<ShellWord>& words, std::size_t i);

// `uv run -m pkg a`, `uv run train.py`: where the module's flag or the script stands behind
// words[first]. Absent: it is no uv, or runs another program.
std::optional<std::size_t> UvProgramAt(const std::vector<ShellWord>& words, std::size_t first);

// Files that a module may be: "pkg/mod.py" and "pkg/mod/__main__.py" for "pkg.mod".
std::vector<std::string> ModuleFiles(std::string module);

// Where the text of the program may lie that the words run: those of `python -m pkg.mod`, the
// script itself of `python a.py` and `./a.py`.
std::vector<std::string> PythonFilesOf(const std::vector<ShellWord>& words);

}  // namespace launch
