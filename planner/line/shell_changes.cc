#include "planner/line/shell_changes.h"

#include <algorithm>
#include <array>

#include "planner/line/launcher_words.h"

namespace launch {
namespace {

// The index of the first word behind keywords and assignments.
std::size_t VerbOf(const ShellCommand& command) {
  std::size_t i = 0;
  while (i < command.words.size() &&
         (StandsBeforeCommand(command.words[i].raw) || AssignmentOf(command.words[i]))) {
    ++i;
  }
  return i;
}

void TakeNames(std::string_view text, const std::function<void(std::string_view)>& use) {
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && IsNameChar(text[end])) ++end;
    if (end > i && IsNameStart(text[i])) use(text.substr(i, end - i));
    i = std::max(end, i + 1);
  }
}

// "N=4", "N+=1", "N++"; not "N>=4".
bool Writes(std::string_view arithmetic) {
  if (arithmetic.find("++") != std::string_view::npos ||
      arithmetic.find("--") != std::string_view::npos) {
    return true;
  }
  for (std::size_t at = arithmetic.find('='); at != std::string_view::npos;
       at = arithmetic.find('=', at + 1)) {
    const std::string_view before = arithmetic.substr(0, at);
    const bool shifts = before.ends_with("<<") || before.ends_with(">>");
    const bool compares = !before.empty() && !shifts &&
                          std::string_view("<>!=").find(before.back()) != std::string_view::npos;
    if (!compares && !arithmetic.substr(at + 1).starts_with('=')) return true;
  }
  return false;
}

// `read "$X"`, `unset ${X}`
bool ExpandsInName(const ShellWord& word) {
  return word.raw.find_first_of("$`") != std::string::npos;
}

// `set -a`, `set -o allexport`, `set -k`
bool ExportsAll(const ShellWord& word) {
  const bool letters = word.raw.starts_with('-') && !word.raw.starts_with("--") &&
                       word.raw.find_first_of("ak") != std::string::npos;
  return letters || word.raw == "allexport" || word.raw == "keyword";
}

// Of export and declare: neither NAME nor NAME=VALUE, nor a plain option.
bool IsNoFixedName(const ShellWord& word) {
  const std::string& raw = word.raw;
  if (raw.starts_with('-')) return raw.find_first_of("nilu$`") != std::string::npos;
  const auto end = std::find_if_not(raw.begin(), raw.end(), IsNameChar);
  const bool assigns = end != raw.end() && (*end == '=' || *end == '+' || *end == '[');
  return raw.empty() || !IsNameStart(raw[0]) || (end != raw.end() && !assigns);
}

}  // namespace

std::vector<std::string> NamesChanged(const ShellCommand& command) {
  static constexpr std::array<std::string_view, 8> kVerbs = {
      "read", "mapfile", "readarray", "getopts", "printf", "let", "for", "select"};
  const std::size_t at = VerbOf(command);
  if (at >= command.words.size()) return {};
  const std::string& verb = command.words[at].raw;
  const bool arithmetic = verb.starts_with("((") || verb == "let" ||
                          (verb == "for" && at + 1 < command.words.size() &&
                           command.words[at + 1].raw.starts_with("(("));
  if (!arithmetic && std::find(kVerbs.begin(), kVerbs.end(), verb) == kVerbs.end()) return {};
  std::vector<std::string> names;
  const auto take = [&names](std::string_view name) { names.emplace_back(name); };
  if (arithmetic) {
    bool writes = false;
    for (std::size_t i = at; i < command.words.size(); ++i) {
      writes = writes || Writes(command.words[i].raw);
    }
    for (std::size_t i = at; i < command.words.size() && writes; ++i)
      TakeNames(command.words[i].raw, take);
    return names;
  }
  const bool one = verb == "for" || verb == "select";
  for (std::size_t i = at + 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].raw;
    if (verb == "printf" && command.words[i - 1].raw != "-v") continue;
    if (!word.empty() && std::all_of(word.begin(), word.end(), IsNameChar)) take(word);
    if (one) break;
  }
  return names;
}

std::vector<std::string> LocalNames(const ShellCommand& command) {
  const std::size_t at = VerbOf(command);
  std::vector<std::string> names;
  if (at >= command.words.size()) return names;
  const std::string& verb = command.words[at].raw;
  if (verb != "local" && verb != "declare" && verb != "typeset") return names;
  for (std::size_t i = at + 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].raw;
    if (word.starts_with('-') && word.find('g') != std::string::npos) return {};
    const auto end = std::find_if_not(word.begin(), word.end(), IsNameChar);
    if (end != word.begin()) names.emplace_back(word.begin(), end);
  }
  return names;
}

bool MayChangeAny(const ShellCommand& command) {
  static constexpr std::array<std::string_view, 8> kAny = {"eval",  "source",  ".",     "trap",
                                                           "alias", "unalias", "shopt", "enable"};
  static constexpr std::array<std::string_view, 5> kDeclare = {"export", "declare", "typeset",
                                                               "readonly", "local"};
  const std::size_t at = VerbOf(command);
  if (at >= command.words.size()) return false;
  const auto is_of = [&](const auto& verbs) {
    return std::find(verbs.begin(), verbs.end(), command.words[at].raw) != verbs.end();
  };
  const std::string& verb = command.words[at].raw;
  const auto behind = command.words.begin() + static_cast<std::ptrdiff_t>(at) + 1;
  static constexpr std::array<std::string_view, 5> kNaming = {"read", "mapfile", "readarray",
                                                              "getopts", "unset"};
  const bool prints = verb == "printf" && behind != command.words.end() && behind->raw == "-v";
  if (prints || is_of(kNaming)) return std::any_of(behind, command.words.end(), ExpandsInName);
  if (verb == "command" || verb == "builtin")
    return behind != command.words.end() && !behind->raw.starts_with("-");
  if (verb == "set") return std::any_of(behind, command.words.end(), ExportsAll);
  if (is_of(kAny)) return true;
  return is_of(kDeclare) && std::any_of(behind, command.words.end(), IsNoFixedName);
}

bool MaySetParameters(const ShellCommand& command) {
  const std::size_t at = VerbOf(command);
  if (at >= command.words.size()) return false;
  const std::string& verb = command.words[at].raw;
  if (verb == "eval") {
    return std::any_of(
        command.words.begin() + static_cast<std::ptrdiff_t>(at), command.words.end(),
        [](const ShellWord& word) { return word.raw.find("set") != std::string::npos; });
  }
  if (verb != "set") return false;
  bool names_option = false;  // set -o pipefail
  for (std::size_t i = at + 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].raw;
    const bool option = word.starts_with('-') || word.starts_with('+');
    if (word == "--" || word == "-" || (!option && !names_option)) return true;
    names_option = option && word.ends_with('o');
  }
  return false;
}

bool NamesOneThat(std::string_view word, const std::function<bool(std::string_view)>& is) {
  bool found = false;
  TakeNames(word, [&](std::string_view name) { found = found || is(name); });
  return found;
}

bool ExpandsOneThat(std::string_view word, const std::function<bool(std::string_view)>& is) {
  if (word.find('`') != std::string_view::npos) return true;
  for (std::size_t at = word.find('$'); at < word.size(); at = word.find('$', at + 1)) {
    std::string_view rest = word.substr(at + 1);
    if (rest.starts_with('(')) return true;
    if (rest.starts_with('{')) rest.remove_prefix(1);
    if (rest.starts_with('#') || rest.starts_with('!')) rest.remove_prefix(1);
    std::size_t end = 0;
    while (end < rest.size() && IsNameChar(rest[end])) ++end;
    if (end > 0 && is(rest.substr(0, end))) return true;
  }
  return false;
}

}  // namespace launch
