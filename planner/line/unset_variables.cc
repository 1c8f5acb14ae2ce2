#include "planner/line/unset_variables.h"

#include <algorithm>
#include <array>
#include <map>

#include "planner/line/shell_text.h"

namespace launch {
namespace {

constexpr std::size_t kMostUnset = 64;  // texts may be hostile

// Where `name` stands as a whole word from `from` on.
std::size_t FindWord(std::string_view text, std::string_view name, std::size_t from) {
  for (std::size_t at = text.find(name, from); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t behind = at + name.size();
    const bool whole = (at == 0 || !IsNameChar(text[at - 1])) &&
                       (behind >= text.size() || !IsNameChar(text[behind]));
    if (whole) return at;
  }
  return std::string_view::npos;
}

// What may set variables that the text does not name.
bool SetsUnseen(std::string_view text, const ShellScript& script) {
  constexpr std::array<std::string_view, 12> kWords = {
      "source", "eval",     "read",  "getopts",    "mapfile", "readarray",
      "module", "activate", "spack", "micromamba", "declare", "typeset"};
  const bool word = std::any_of(kWords.begin(), kWords.end(), [&](std::string_view one) {
    return FindWord(text, one, 0) != std::string_view::npos;
  });
  return word || std::any_of(script.commands.begin(), script.commands.end(), [](const auto& one) {
           return std::any_of(one.words.begin(), one.words.end(),
                              [](const ShellWord& part) { return part.raw == "."; });
         });
}

bool Tests(const ShellCommand& command) {
  return std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    return word.raw == "[" || word.raw == "[[" || word.raw == "test" || word.raw.starts_with("((");
  });
}

// A text in it has quotes of its own.
bool IsPlain(std::string_view raw) {
  return raw.find("$(") == std::string_view::npos && raw.find('`') == std::string_view::npos &&
         raw.find("${!") == std::string_view::npos;
}

// "GPUS=${GPUS}" and "DATA=${DATA:?set DATA}" give a variable what it had.
bool IsOfItself(const ShellAssignment& assignment) {
  std::string_view value = assignment.value.raw;
  if (value.starts_with('"')) value.remove_prefix(1);
  if (value.ends_with('"')) value.remove_suffix(1);
  const std::string& name = assignment.name;
  return value == "$" + name || value == "${" + name + "}" ||
         value.starts_with("${" + name + ":?") || value.starts_with("${" + name + "?");
}

// Outside of "$NAME" and "${NAME": how often.
int TimesNamed(std::string_view text, std::string_view name) {
  int count = 0;
  for (std::size_t at = FindWord(text, name, 0); at != std::string_view::npos;
       at = FindWord(text, name, at + 1)) {
    const std::string_view before = text.substr(0, at);
    if (!before.ends_with('$') && !before.ends_with("${") && !before.ends_with("${#")) ++count;
  }
  return count;
}

bool HasDefault(std::string_view text, const std::string& name) {
  for (const std::string_view sign : {"-", ":-", "=", ":=", "+", ":+"}) {
    if (text.find("${" + name + std::string(sign)) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<UnsetUse> NeverSet(std::string_view text) {
  const Result<ShellScript> script = ReadShell(text);
  if (!script || SetsUnseen(text, *script)) return {};
  std::vector<UnsetUse> found;
  std::vector<std::string> tested;
  std::map<std::string, int> of_itself;  // how often names stand in such assignments
  for (const ShellCommand& command : script->commands) {
    ShellScript plain{{ShellCommand{{}, command.redirects, "", 0}}, false};
    for (const ShellWord& word : command.words) {
      if (IsPlain(word.raw)) plain.commands[0].words.push_back(word);
      const auto assignment = AssignmentOf(word);
      if (assignment && IsOfItself(*assignment))
        of_itself[assignment->name] += TimesNamed(word.raw, assignment->name);
    }
    const bool tests = Tests(command);
    for (const ShellUse& use : VariablesUsed(plain)) {
      if (tests) tested.push_back(use.name);
      const auto same = [&](const UnsetUse& one) { return one.name == use.name; };
      const auto known = std::find_if(found.begin(), found.end(), same);
      if (known != found.end())
        known->stops = known->stops && use.guarded;
      else if (found.size() < kMostUnset)
        found.push_back({use.name, use.guarded});
    }
  }
  std::erase_if(found, [&](const UnsetUse& use) {
    return std::ranges::find(tested, use.name) != tested.end() || HasDefault(text, use.name) ||
           TimesNamed(text, use.name) > of_itself[use.name];
  });
  return found;
}

bool IsOfTheNode(std::string_view name) {
  constexpr std::array kNames = std::to_array<std::string_view>(
      {"HOME",       "USER",       "LOGNAME",       "PATH",    "PWD",        "OLDPWD",
       "HOSTNAME",   "SHELL",      "LANG",          "TMPDIR",  "TERM",       "TZ",
       "MAIL",       "DISPLAY",    "EDITOR",        "RANDOM",  "SRANDOM",    "SECONDS",
       "LINENO",     "UID",        "EUID",          "PPID",    "OSTYPE",     "HOSTTYPE",
       "MACHTYPE",   "IFS",        "OPTARG",        "OPTIND",  "REPLY",      "PIPESTATUS",
       "FUNCNAME",   "GROUPS",     "DIRSTACK",      "COLUMNS", "LINES",      "EPOCHSECONDS",
       "SHLVL",      "SHELLOPTS",  "EPOCHREALTIME", "_",       "PYTHONPATH", "LD_LIBRARY_PATH",
       "LD_PRELOAD", "VIRTUAL_ENV"});
  constexpr std::array<std::string_view, 15> kBeginnings = {
      "LAUNCH_", "SLURM", "PET_",  "CUDA", "NCCL_", "CONDA", "BASH", "LC_",
      "XDG_",    "SSH_",  "OMPI_", "PMI",  "PBS_",  "LSB_",  "TORCH"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](std::string_view beginning) { return name.starts_with(beginning); });
}

}  // namespace launch
