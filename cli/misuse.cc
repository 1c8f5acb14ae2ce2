#include "cli/misuse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>

#include "cli/job_reader.h"
#include "cli/shell_words.h"
#include "cli/verb_output.h"

namespace launch {
namespace {

// Verbs whose command stands behind `--`; of those that take one, a job file in front of it.
constexpr std::array<std::string_view, 5> kTakesJob = {"submit", "run", "plan", "check", "init"};
constexpr std::array<std::string_view, 2> kTakesCommand = {"exec", "shell"};

template <std::size_t n>
bool IsOneOf(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Error Misuse(std::string message, std::string hint) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(hint), {}};
}

std::string HelpOf(const CLI::App& parser) {
  const CLI::App& verb = GivenVerb(parser);
  return &verb == &parser ? "launch --help" : "launch " + VerbPath(verb) + " --help";
}

std::vector<std::string> VerbNames(const CLI::App& above) {
  std::vector<std::string> names;
  for (const CLI::App* verb : above.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
    for (const std::string& alias : verb->get_aliases()) names.push_back(alias);
  }
  return names;
}

// "launch run -- python train.py": the words as they were typed, with `--` in front of word `at`.
std::string WithDashes(const Words& words, std::size_t at) {
  const auto begin = words.begin() + static_cast<std::ptrdiff_t>(at);
  return "launch " + JoinWords(Words(words.begin(), begin)) + " -- " +
         JoinWords(Words(begin, words.end()));
}

bool IsChange(const std::string& file, const std::string& word) {
  if (word.starts_with('-') || word.find('=') == std::string::npos) return false;
  return file == "-" || file.ends_with(".yaml") || file.ends_with(".yml") || ParseOverride(word);
}

// The line that was meant where `--` is missing; empty: that is not what is wrong.
std::string MeantLine(const CLI::App& verb, const Words& words, const std::string& extra) {
  const auto place = [&](const std::string& word) {
    return static_cast<std::size_t>(std::ranges::find(words, word) - words.begin());
  };
  if (IsOneOf(kTakesCommand, verb.get_name())) {
    const bool option = extra.starts_with('-');
    if (option || place(extra) == words.size()) return {};
    return "put the command behind --: " + WithDashes(words, place(extra));
  }
  if (!IsOneOf(kTakesJob, verb.get_name())) return {};
  const CLI::Option* first = verb.get_option_no_throw("file");
  const std::string file = first != nullptr && first->count() > 0 ? first->results().front() : "";
  if (IsChange(file, extra)) return "put changes behind --: " + WithDashes(words, place(extra));
  const bool job_file = file.empty() || file.ends_with(".yaml") || file.ends_with(".yml");
  if (job_file || place(file) == words.size()) return {};
  return "put the command behind --: " + WithDashes(words, place(file));
}

}  // namespace

Error MissingWord(const CLI::RequiredError& error, const CLI::App& parser) {
  const CLI::App& verb = GivenVerb(parser);
  const std::string help = HelpOf(parser);
  const std::string message = error.what();
  const bool verb_missing = verb.get_require_subcommand_min() > 0;
  const std::vector<std::string> left = parser.remaining(true);
  if (verb_missing && left.empty()) {
    const std::string of = &verb == &parser ? "launch" : "launch " + VerbPath(verb);
    return Misuse("`" + of + "` needs a verb", "`" + help + "` lists them");
  }
  if (verb_missing && left[0].starts_with('-'))
    return Misuse("there is no option `" + left[0] + "` here", help);
  if (verb_missing) {
    const std::string nearest = NearestName(left[0], VerbNames(verb));
    return Misuse("there is no verb `" + left[0] + "`" +
                      (&verb == &parser ? "" : " of `launch " + VerbPath(verb) + "`"),
                  nearest.empty() ? help + " lists them" : "did you mean `" + nearest + "`?");
  }
  constexpr std::string_view kIsRequired = " is required";
  if (message.starts_with('-') || !message.ends_with(kIsRequired)) return Misuse(message, help);
  return Misuse("an argument is missing: " + message.substr(0, message.size() - kIsRequired.size()),
                help);
}

Error WrongWord(const CLI::ParseError& error, const CLI::App& parser, const Words& words,
                bool has_rest) {
  const std::string help = HelpOf(parser);
  const std::vector<std::string> left = parser.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !left.empty()) {
    // Of several the first that was typed.
    const auto typed = [&](const std::string& word) { return std::ranges::find(words, word); };
    const std::string extra = *std::ranges::min_element(
        left, [&](const std::string& a, const std::string& b) { return typed(a) < typed(b); });
    const std::string meant = has_rest ? std::string() : MeantLine(GivenVerb(parser), words, extra);
    return Misuse(extra.starts_with('-') ? "there is no option `" + extra + "` here"
                                         : "`" + extra + "` was not expected",
                  meant.empty() ? help : meant);
  }
  // Checks of ours bring their hint along.
  const std::string message = error.what();
  constexpr std::string_view kHint = "\n  hint: ";
  if (const std::size_t hint = message.find(kHint); hint != std::string::npos)
    return Misuse(message.substr(0, hint), message.substr(hint + kHint.size()));
  return Misuse(message, help);
}

}  // namespace launch
