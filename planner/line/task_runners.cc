#include "planner/line/task_runners.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"

namespace launch {
namespace {

// `verb`: the word that such a task stands behind; empty: there is none.
struct TaskRunner {
  std::string_view program;
  std::string_view verb;
};

constexpr std::array<TaskRunner, 10> kRunners = {{{"wandb", "agent"},
                                                  {"make", ""},
                                                  {"gmake", ""},
                                                  {"just", ""},
                                                  {"poe", ""},
                                                  {"dvc", "repro"},
                                                  {"pixi", "run"},
                                                  {"hatch", "run"},
                                                  {"pdm", "run"},
                                                  {"rye", "run"}}};

// What builds or cleans starts no training.
bool OnlyBuilds(std::string_view task) {
  constexpr std::array<std::string_view, 7> kBuilds = {"all",   "build", "install", "clean",
                                                       "setup", "env",   "deps"};
  return std::find(kBuilds.begin(), kBuilds.end(), task) != kBuilds.end();
}

// "train", "train-ddp"; not "./train.sh", "python".
bool IsTaskName(const ShellWord& word) {
  return word.fixed && !IsPython(word.value) && !word.value.empty() && word.value[0] != '-' &&
         std::all_of(word.value.begin(), word.value.end(),
                     [](char c) { return IsNameChar(c) || c == '-' || c == ':' || c == '@'; });
}

bool IsMake(std::string_view program) { return program == "make" || program == "gmake"; }

// "-C docker", "-j 8", "-e gpu"
bool TakesNext(std::string_view program, const std::string& flag, const std::string& next) {
  constexpr std::array<std::string_view, 9> kOfMake = {
      "-C", "-f", "-I", "-o", "-W", "--directory", "--file", "--makefile", "--include-dir"};
  constexpr std::array<std::string_view, 11> kOfOthers = {"-e",
                                                          "-p",
                                                          "-f",
                                                          "-d",
                                                          "-C",
                                                          "--manifest-path",
                                                          "--environment",
                                                          "--project",
                                                          "--justfile",
                                                          "--working-directory",
                                                          "--directory"};
  if (!IsMake(program)) return std::ranges::find(kOfOthers, flag) != kOfOthers.end();
  const bool number = !next.empty() && next.find_first_not_of("0123456789.") == std::string::npos;
  if (flag == "-j" || flag == "-l" || flag == "--jobs") return number;
  return std::ranges::find(kOfMake, flag) != kOfMake.end();
}

}  // namespace

std::string LastTaskOf(const ShellScript& script) {
  const auto last = std::find_if(script.commands.rbegin(), script.commands.rend(),
                                 [](const ShellCommand& one) { return !one.words.empty(); });
  if (last == script.commands.rend() || FindLauncher(*last)) return {};
  const std::vector<ShellWord>& words = last->words;
  const std::size_t first = PartsOf(*last).first;
  if (first >= words.size()) return {};
  const std::string_view program = ProgramOf(words[first]);
  const auto* const runner = std::find_if(kRunners.begin(), kRunners.end(), [&](const auto& one) {
    return one.program == program &&
           (one.verb.empty() || (first + 1 < words.size() && words[first + 1].value == one.verb));
  });
  if (runner == kRunners.end()) return {};
  std::string shown(program);
  if (!runner->verb.empty()) shown += " " + std::string(runner->verb);
  if (runner->verb == "agent") return shown;  // of a sweep that stands elsewhere
  const bool names = runner->verb == "run";
  for (std::size_t i = first + (runner->verb.empty() ? 1 : 2); i < words.size(); ++i) {
    const std::string next = i + 1 < words.size() ? words[i + 1].value : std::string();
    if (TakesNext(program, words[i].value, next)) {
      ++i;
      continue;
    }
    if (words[i].value.starts_with('-') || AssignmentOf(words[i])) continue;
    if (!IsTaskName(words[i]) || OnlyBuilds(words[i].value)) return {};
    return shown + " " + words[i].value;
  }
  return names ? std::string() : shown;
}

}  // namespace launch
