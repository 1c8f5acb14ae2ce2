#include "planner/line/endless_commands.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "planner/line/command_roles.h"
#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/own_launchers.h"
#include "planner/line/python_words.h"

namespace launch {
namespace {

// `word`: what must stand behind the program; empty: nothing.
struct Endless {
  std::string_view program;
  std::string_view word;
};

constexpr std::array<Endless, 11> kEndless = {{{"vllm", "serve"},
                                               {"ollama", "serve"},
                                               {"text-generation-launcher", ""},
                                               {"tensorboard", "--logdir"},
                                               {"jupyter", "lab"},
                                               {"jupyter", "notebook"},
                                               {"jupyter", "server"},
                                               {"tail", "-f"},
                                               {"tail", "-F"},
                                               {"tail", "--follow"},
                                               {"sleep", "infinity"}}};

constexpr std::array<std::string_view, 5> kModules = {
    "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "trl.scripts.vllm_serve",
    "sglang.launch_server", "http.server"};

bool Has(const std::vector<ShellWord>& words, std::size_t first, std::string_view text) {
  return std::any_of(words.begin() + static_cast<std::ptrdiff_t>(first), words.end(),
                     [text](const ShellWord& word) { return word.value == text; });
}

// "vllm serve", as it is shown; empty: it ends by itself.
std::string EndlessAt(const ShellCommand& command) {
  const std::vector<ShellWord>& words = command.words;
  std::size_t first = PartsOf(command).first;
  if (first + 2 < words.size() && words[first + 1].value == "run") first += 2;  // uv run
  if (first >= words.size()) return {};
  const std::string program(ProgramOf(words[first]));
  if (Has(words, first, "--help") || Has(words, first, "--version")) return {};
  if (OwnLauncherOf(program) != nullptr)
    return IsServer(words) ? program + " " + words[first + 1].value : std::string();
  if (IsPython(program)) {
    const auto runs = PythonProgramOf(words, first);
    const bool serves = runs && runs->runs == PythonRuns::kModule &&
                        std::ranges::find(kModules, runs->name) != kModules.end();
    return serves ? "python -m " + runs->name : std::string();
  }
  // It ends with a process, or with what reads it.
  const bool bound =
      command.joiner == "|" || std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
        return word.value.starts_with("--pid");
      });
  for (const Endless& one : kEndless) {
    const bool is = one.program == program && (one.word.empty() || Has(words, first + 1, one.word));
    if (is && program == "tail" && bound) return {};
    // Not `jupyter nbconvert --to notebook`.
    if (is && program == "jupyter" && words[first + 1].value != one.word) continue;
    if (is) return one.word.empty() ? program : program + " " + std::string(one.word);
  }
  return {};
}

// Of each command, whether it is left in the background: `a | tee log &`.
std::vector<bool> LeftOf(const std::vector<ShellCommand>& commands) {
  std::vector<bool> left(commands.size());
  for (std::size_t i = commands.size(); i-- > 0;) {
    const std::string& joiner = commands[i].joiner;
    const bool goes_on = i + 1 < commands.size() && (joiner == "|" || joiner == "&&");
    left[i] = goes_on ? left[i + 1] : joiner == "&";
  }
  return left;
}

// How many of if, for, { ... a command opens, less those that it closes.
int Opens(const ShellCommand& command) {
  constexpr std::array<std::string_view, 7> kOpen = {"if",   "for",    "while", "until",
                                                     "case", "select", "{"};
  constexpr std::array<std::string_view, 4> kClose = {"fi", "done", "esac", "}"};
  int opens = 0;
  for (const ShellWord& word : command.words) {
    if (std::ranges::find(kOpen, word.raw) != kOpen.end()) ++opens;
    if (std::ranges::find(kClose, word.raw) != kClose.end()) --opens;
    if (opens == 0 && !StandsBeforeCommand(word.raw)) break;
  }
  return opens;
}

}  // namespace

std::optional<Finding> EndlessCommand(const ShellScript& script, const std::string& where) {
  const std::vector<ShellCommand>& commands = script.commands;
  const std::vector<CommandRole> roles = RolesOf(script);
  const std::vector<bool> left_behind = LeftOf(commands);
  std::size_t last = commands.size();  // of those that may be the training
  while (last > 0 && roles[last - 1].weight == 0) --last;
  int open = 0;
  bool left = false;  // something that may be the training goes on beside it
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const bool inside = open > 0 || commands[i].subshell > 0;
    open += Opens(commands[i]);
    const std::string endless = inside || open > 0 ? std::string() : EndlessAt(commands[i]);
    if (left_behind[i]) left = left || (roles[i].weight > 0 && endless.empty());
    if (endless.empty() || left_behind[i]) continue;
    if (i + 1 < last) {
      return MakeFinding("endless_command", Severity::kWarning,
                         "`" + endless + "` in " + where +
                             " does not end by itself: what stands behind it never starts",
                         "write & behind it, and wait there for what the training needs of it");
    }
    if (left) {
      return MakeFinding("endless_command", Severity::kWarning,
                         "`" + endless + "` in " + where +
                             " does not end by itself: the job goes on when its training has ended",
                         "write `wait` in its place; launch logs -f JOB shows the output");
    }
  }
  return std::nullopt;
}

}  // namespace launch
