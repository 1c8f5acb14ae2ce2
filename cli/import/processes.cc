#include "cli/import/processes.h"

#include <algorithm>

#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/shell_text.h"

namespace launch {
namespace {

bool CallsAScript(const ShellCommand& command) {
  const std::size_t first = PartsOf(command).first;
  if (first >= command.words.size()) return false;
  const std::string_view program = ProgramOf(command.words[first]);
  return program == "bash" || program == "sh" || program.ends_with(".sh");
}

}  // namespace

bool CallsPythonAlone(std::string_view run) {
  const Result<ShellScript> script = ReadShell(run);
  if (!script || FindLauncher(*script)) return false;
  bool python = false;
  for (const ShellCommand& command : script->commands) {
    if (command.words.empty()) continue;
    const std::string_view first = command.words.front().value;
    if (first == "source" || first == ".") continue;
    if (CallsAScript(command)) return false;
    python = python || std::ranges::any_of(command.words, [](const ShellWord& word) {
               return IsPython(word.value);
             });
  }
  return python;
}

}  // namespace launch
