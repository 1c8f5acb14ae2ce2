#include "planner/line/makefile.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

#include "common/quoted.h"
#include "common/text.h"
#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/shell_values.h"

namespace launch {
namespace {

// Texts may be hostile: those of a file that is read, of the recipes and of a value.
constexpr std::size_t kLongestFile = 64 * 1024;
constexpr std::size_t kLongest = 64 * 1024;
constexpr std::size_t kMostTargets = 64;  // of one rule
constexpr int kDeepestMake = 16;          // variables and goals within each other

bool IsVariableName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), IsNameChar);
}

std::vector<std::string> WordsIn(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

class Makefile {
 public:
  explicit Makefile(const MakeCall& call) : call_(call) {}

  // False: there is something in it that is not read here.
  bool Read(std::string_view text) {
    std::string line;
    bool recipe = false;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view piece = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (piece.ends_with('\r')) piece.remove_suffix(1);
      if (line.empty()) recipe = piece.starts_with('\t');
      if (recipe && piece.starts_with('\t')) piece.remove_prefix(1);
      line += piece;
      if (line.ends_with('\\') && !text.empty()) {
        if (recipe) {
          line += '\n';
        } else {
          line.back() = ' ';
        }
        continue;
      }
      if (!(recipe ? TakeRecipe(line) : TakeLine(line))) return false;
      line.clear();
    }
    return true;
  }

  std::optional<std::string> Recipes() {
    std::vector<std::string> goals = call_.goals;
    if (goals.empty()) goals.push_back(first_);
    // Side by side: which of them run at once nobody here knows.
    if (call_.at_once && goals.size() > 1) return std::nullopt;
    for (const std::string& goal : goals)
      if (!Add(goal, 0)) return std::nullopt;
    const auto exports = Exports();
    if (!exports) return std::nullopt;
    std::string text = "set -e\n" + *exports;
    for (const std::string& line : lines_) {
      // Each line has a shell of its own.
      const bool moves = lines_.size() > 1 && (Has(line, "cd ") || Has(line, "="));
      text += moves ? "(\n" + line + "\n)\n" : line + "\n";
    }
    return lines_.empty() || text.size() > kLongest ? std::nullopt : std::optional(text);
  }

 private:
  struct Rule {
    std::string needs;
    std::vector<std::string> lines;
  };
  struct Variable {
    std::string value;
    bool otherwise = false;  // ?=
    bool expanded = false;   // :=
    bool unread = false;     // := of a function
  };

  static bool Has(std::string_view text, std::string_view what) {
    return text.find(what) != std::string_view::npos;
  }

  bool TakeRecipe(const std::string& line) {
    for (const std::string& target : open_) {
      std::vector<std::string>& lines = rules_[target].lines;
      if (!recipe_begun_) lines.clear();  // of two recipes make takes the last
      lines.push_back(line);
    }
    recipe_begun_ = true;
    return true;
  }

  bool TakeLine(std::string_view line) {
    constexpr std::array<std::string_view, 12> kMore = {
        "ifeq",     "ifneq",  "ifdef", "ifndef", "include", "-include",
        "sinclude", "define", "vpath", "else",   "endif",   "override"};
    line = Trim(line.substr(0, line.find('#')));
    const std::vector<std::string> words = WordsIn(line);
    if (words.empty()) return true;
    if (std::ranges::find(kMore, words[0]) != kMore.end()) return false;
    if (words[0] == "export" || words[0] == "unexport") {
      line = Trim(line.substr(words[0].size()));
      const bool exports = words[0] == "export";
      if (!Has(line, "=")) {
        if (words.size() == 1) exports_all_ = exports;
        for (std::size_t i = 1; i < words.size(); ++i) NoteExport(words[i], exports);
        return true;
      }
      exported_name_ = exports;
    }
    const std::size_t equals = line.find('=');
    const std::size_t colon = line.find(':');
    const bool assigns = equals != std::string_view::npos &&
                         (colon == std::string_view::npos || equals < colon || equals == colon + 1);
    const bool taken = assigns ? TakeVariable(line, equals) : TakeRule(line, colon);
    exported_name_ = false;
    return taken;
  }

  void NoteExport(std::string_view name, bool exports) {
    if (exports) {
      exported_.emplace(name);
    } else if (const auto known = exported_.find(name); known != exported_.end()) {
      exported_.erase(known);
    }
  }

  bool TakeVariable(std::string_view line, std::size_t equals) {
    std::string_view name = line.substr(0, equals);
    const char sign = name.empty() ? ' ' : name.back();
    if (sign == '!') return false;
    if (sign == ':' || sign == '?' || sign == '+') name.remove_suffix(1);
    if (name.ends_with(':')) name.remove_suffix(1);  // "::="
    name = Trim(name);
    const std::string_view value = Trim(line.substr(equals + 1));
    if (name == ".DEFAULT_GOAL") {
      first_ = value;
      return true;
    }
    if (!IsVariableName(name)) return false;
    if (exported_name_) exported_.emplace(name);
    const auto known = variables_.find(name);
    if (sign == '+' && known != variables_.end()) {
      Variable& variable = known->second;
      const auto more = variable.expanded ? Expanded(value, "", 0) : std::string(value);
      variable.unread = variable.unread || !more;
      variable.value.append(" ").append(more.value_or(""));
    } else if (sign == ':') {
      const auto now = Expanded(value, "", 0);
      variables_[std::string(name)] = {now.value_or(""), false, true, !now};
    } else if (sign != '?' || known == variables_.end()) {
      variables_[std::string(name)] = {std::string(value), sign == '?' || sign == '+'};
    }
    return true;
  }

  // What recipes see beside their own text. Absent: a value that is not read here.
  std::optional<std::string> Exports() {
    std::string text;
    for (const auto& [name, value] : call_.variables)
      if (IsVariableName(name)) text += "export " + name + "=" + ShellQuote(value) + "\n";
    for (const auto& [name, variable] : variables_) {
      if (call_.variables.contains(name) || !(exports_all_ || exported_.contains(name))) continue;
      const auto value = ValueOf(name, "", 0);
      const bool plain = value && value->find_first_of("\"`\\") == std::string::npos &&
                         !Has(*value, "$(") && !Has(variable.value, "$$");
      if (!plain) return std::nullopt;
      text += "export " + name + "=\"" + *value + "\"\n";
      if (text.size() > kLongest) return std::nullopt;
    }
    return text;
  }

  bool TakeRule(std::string_view line, std::size_t colon) {
    if (colon == std::string_view::npos) return false;
    const std::string_view needs = line.substr(colon + 1);
    open_ = WordsIn(line.substr(0, colon));
    // A second colon, a recipe in the line, a variable of the target.
    if (needs.starts_with(':') || Has(needs, ";") || Has(needs, "=") || open_.empty()) return false;
    if (Has(line.substr(0, colon), "$") || open_[0] == ".ONESHELL") return false;
    if (open_.size() > kMostTargets) return false;
    recipe_begun_ = false;
    exports_all_ = exports_all_ || open_[0] == ".EXPORT_ALL_VARIABLES";
    for (const std::string& target : open_) {
      patterns_ = patterns_ || Has(target, "%");
      if (first_.empty() && target[0] != '.' && !Has(target, "%")) first_ = target;
      rules_[target].needs.append(" ").append(needs);
    }
    return true;
  }

  bool Add(const std::string& goal, int depth) {
    const auto rule = rules_.find(goal);
    if (rule == rules_.end() || depth > kDeepestMake) return false;
    if (!done_.insert(goal).second) return true;
    const auto needs = Expanded(rule->second.needs, goal, 0);
    if (!needs) return false;
    for (const std::string& need : WordsIn(*needs)) {
      if (need == "|") continue;
      const bool ruled = rules_.contains(need);
      // A file that lies there already has no rule, if no pattern makes it.
      if (!ruled && patterns_) return false;
      if (ruled && !Add(need, depth + 1)) return false;
    }
    for (std::string_view line : rule->second.lines) {
      bool may_fail = false;
      while (!line.empty() && (Has("@-+", line.substr(0, 1)) || line[0] == ' ')) {
        may_fail = may_fail || line[0] == '-';
        line.remove_prefix(1);
      }
      auto text = Expanded(line, goal, 0);
      if (!text || (bytes_ += text->size()) > kLongest) return false;
      if (!Trim(*text).empty()) lines_.push_back(may_fail ? *text + " || true" : *text);
    }
    return true;
  }

  // Absent: a function, or a name that stands for files.
  std::optional<std::string> Expanded(std::string_view text, const std::string& goal, int depth) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '$') {
        out += text[i];
        continue;
      }
      if (out.size() > kLongest || depth > kDeepestMake || --uses_left_ < 0) return std::nullopt;
      if (++i == text.size()) return std::nullopt;
      if (text[i] == '$' || text[i] == '@') {
        out += text[i] == '$' ? "$" : goal;
        continue;
      }
      std::string_view name = text.substr(i, 1);
      if (text[i] == '(' || text[i] == '{') {
        const std::size_t end = text.find(text[i] == '(' ? ')' : '}', i);
        if (end == std::string_view::npos) return std::nullopt;
        name = text.substr(i + 1, end - i - 1);
        i = end;
      }
      const auto value = IsVariableName(name) ? ValueOf(name, goal, depth + 1) : std::nullopt;
      if (!value) return std::nullopt;
      out += *value;
    }
    return out;
  }

  std::optional<std::string> ValueOf(std::string_view name, const std::string& goal, int depth) {
    if (const auto given = call_.variables.find(name); given != call_.variables.end())
      return given->second;
    const auto set = variables_.find(name);
    const std::string of_environment = "${" + std::string(name);
    if (set == variables_.end())
      return name == "MAKE" ? SubMake() : name == "CURDIR" ? "$PWD" : of_environment + "}";
    if (set->second.unread) return std::nullopt;
    if (set->second.expanded) return set->second.value;
    auto value = Expanded(set->second.value, goal, depth);
    if (!value || !set->second.otherwise) return value;
    const bool plain = value->find_first_of("\"'{}$`\\ ") == std::string::npos;
    return plain ? std::optional(of_environment + ":-" + *value + "}") : std::nullopt;
  }

  // What the command line sets reaches the makes within.
  std::string SubMake() const {
    std::string text = "make";
    for (const auto& [name, value] : call_.variables)
      text.append(" ").append(ShellQuote(name + "=" + value));
    return text;
  }

  const MakeCall& call_;
  int uses_left_ = 4096;  // of variables: texts may be hostile
  std::map<std::string, Variable, std::less<>> variables_;
  std::map<std::string, Rule, std::less<>> rules_;
  std::set<std::string, std::less<>> exported_;
  bool exports_all_ = false;
  bool exported_name_ = false;     // the line that is read begins with `export`
  bool patterns_ = false;          // some rule is one for many files
  std::vector<std::string> open_;  // targets whose recipe is read
  bool recipe_begun_ = false;
  std::size_t bytes_ = 0;  // of the recipes
  std::string first_;
  std::set<std::string> done_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> MakeCall::Paths() const {
  const std::string prefix = directory.empty() ? "" : directory + "/";
  if (!file.empty()) return {file[0] == '/' ? file : prefix + file};
  return {prefix + "GNUmakefile", prefix + "makefile", prefix + "Makefile"};
}

namespace {

// Short flags in one word that change nothing of what is started: "-ks", "-B".
bool IsHarmless(std::string_view flags) {
  return flags.substr(1).find_first_not_of("Bkrswm") == std::string_view::npos;
}

bool IsJobCount(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::optional<MakeCall> MakeCallOf(const ShellCommand& command, const KnownVariables& known) {
  const std::size_t first = PartsOf(command).first;
  if (first >= command.words.size()) return std::nullopt;
  const std::string program(ProgramOf(command.words[first]));
  if (program != "make" && program != "gmake") return std::nullopt;
  MakeCall call{.shown = program};
  for (std::size_t i = first + 1; i < command.words.size(); ++i) {
    const auto value = FixedValue(command.words[i], known);
    if (!value) return std::nullopt;
    const std::size_t equals = value->find('=');
    const bool more = i + 1 < command.words.size();
    if (*value == "-C" || *value == "-f") {
      const auto path = more ? FixedValue(command.words[++i], known) : std::nullopt;
      if (!path) return std::nullopt;
      (*value == "-C" ? call.directory : call.file) = *path;
    } else if (value->starts_with("-C") || value->starts_with("-f")) {
      (value->starts_with("-C") ? call.directory : call.file) = value->substr(2);
    } else if (value->starts_with("-j")) {
      const bool next = value->size() == 2 && more && IsJobCount(command.words[i + 1].value);
      const std::string jobs = next ? command.words[++i].value : value->substr(2);
      if (!jobs.empty() && !IsJobCount(jobs)) return std::nullopt;
      call.at_once = jobs != "1";
    } else if (value->starts_with('-') && !IsHarmless(*value)) {
      return std::nullopt;
    } else if (!value->starts_with('-') && equals != std::string::npos) {
      call.variables[value->substr(0, equals)] = value->substr(equals + 1);
    } else if (!value->starts_with('-')) {
      call.goals.push_back(*value);
    }
  }
  if (!call.goals.empty()) call.shown += " " + call.goals.front();
  return call;
}

std::optional<std::string> RecipesOf(std::string_view makefile, const MakeCall& call) {
  if (makefile.size() > kLongestFile) return std::nullopt;
  Makefile file(call);
  if (!file.Read(makefile)) return std::nullopt;
  auto text = file.Recipes();
  if (text && !call.directory.empty()) text->insert(0, "cd " + ShellQuote(call.directory) + "\n");
  return text;
}

}  // namespace launch
