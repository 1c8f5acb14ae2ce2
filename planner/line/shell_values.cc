#include "planner/line/shell_values.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/text.h"
#include "planner/line/launch_line.h"
#include "planner/line/launcher_words.h"
#include "planner/line/shell_arithmetic.h"
#include "planner/line/shell_changes.h"
#include "planner/line/shell_place.h"

namespace launch {
namespace {

constexpr std::size_t kMostVariables = 4096;
constexpr std::size_t kLongestValue = 16 * 1024;  // A="$A$A" doubles with every line
constexpr int kDeepest = 16;

// In a text that starts once per node these have values of their own, known at the start. So have
// NNODES and NPROC_PER_NODE, but they follow what the text asks for where the job does not say.
bool IsSetByLaunch(std::string_view name, const KnownVariables& known) {
  if (name.rfind("LAUNCH_", 0) == 0 || name == "NODE_RANK" || name == "PET_NODE_RANK") return true;
  if (name == "CUDA_VISIBLE_DEVICES") return known.find("NPROC_PER_NODE") != known.end();
  if (!IsContractVariable(name)) return false;
  // Only the ranks have it: the text's own default counts, unless the job says how many nodes.
  return known.find("NNODES") != known.end();
}

std::string_view WithoutQuotes(std::string_view text) {
  const bool quoted = text.size() > 1 && text.front() == text.back() &&
                      (text.front() == '"' || text.front() == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

// Behind the bracket that closes the one at `open`; npos: none does.
std::size_t BehindBracket(std::string_view text, std::size_t open) {
  const char opening = text[open];
  const char closing = opening == '(' ? ')' : '}';
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
      continue;
    }
    depth += text[i] == opening ? 1 : text[i] == closing ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

std::string DirectoryOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

const std::string* Lookup(std::string_view name, const KnownVariables& known) {
  const auto found = known.find(name);
  return found == known.end() ? nullptr : &found->second;
}

bool Mentions(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

// "0,1" -> "0 1"
std::string WithBlanks(std::string list) {
  std::replace(list.begin(), list.end(), ',', ' ');
  return list;
}

// Under this name stands that nobody here knows how many elements an array has.
std::string UncountedName(std::string_view array) { return std::string(array) + "[#]"; }

// Under this name stands the path of a variable of which only the last part is known.
std::string PathName(std::string_view name) { return std::string(name) + "[/]"; }

// Under this name stands that a variable has a value, which nobody here knows.
std::string UnknownName(std::string_view name) { return std::string(name) + "[?]"; }

// "$(count_gpus)", "${N}" of such a variable: not what a variable that nobody sets is.
bool HasUnknownValue(const ShellWord& word, const KnownVariables& known) {
  const std::string& text = word.value;
  if (word.fixed) return false;
  if (text.find('`') != std::string::npos) return true;
  for (std::size_t at = text.find("$("); at != std::string::npos; at = text.find("$(", at + 2)) {
    if (text.compare(at, 3, "$((") != 0) return true;
  }
  return NamesOneThat(text,
                      [&](std::string_view name) { return known.contains(UnknownName(name)); });
}

// "${VENV}/bin/torchrun": nobody knows where it lies, but the program is known.
bool EndsInName(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos || slash + 1 == text.size()) return false;
  const std::string_view name = text.substr(slash + 1);
  return std::all_of(name.begin(), name.end(), [](char c) { return IsNameChar(c) || c == '-'; });
}

// Of these characters a word is the same with quotes and without them.
bool IsPlainWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return IsNameChar(c) || std::string_view("-./:,@%+").find(c) != std::string_view::npos;
  });
}

// Puts values in the place of variables. Strict: absent where one is not known; otherwise it stays
// as written.
class ValueReader {
 public:
  ValueReader(const KnownVariables& known, bool strict) : known_(known), strict_(strict) {}

  std::optional<std::string> Expand(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t end = EndOf(text, i);
      if (end == i) {
        if (strict_ && std::string_view("*?[{~").find(text[i]) != std::string_view::npos)
          return std::nullopt;
        out += text[i++];
        if (out.size() > kLongestValue) return std::nullopt;
        continue;
      }
      const std::string_view written = text.substr(i, end - i);
      const auto value = ValueOf(written);
      if (!value && strict_) return std::nullopt;
      out += value ? std::string_view(*value) : written;
      if (out.size() > kLongestValue) return std::nullopt;
      i = end;
    }
    return out;
  }

  static bool IsOneExpansion(std::string_view text) {
    return !text.empty() && EndOf(text, 0) == text.size();
  }

 private:
  // Behind the expansion that begins at `i`; `i` where none does.
  static std::size_t EndOf(std::string_view text, std::size_t i) {
    if (text[i] == '`') {
      const std::size_t close = text.find('`', i + 1);
      return close == std::string_view::npos ? i : close + 1;
    }
    if (text[i] != '$' || i + 1 >= text.size()) return i;
    if (text[i + 1] == '(' || text[i + 1] == '{') {
      const std::size_t end = BehindBracket(text, i + 1);
      return end == std::string_view::npos ? i : end;
    }
    std::size_t end = i + 1;
    while (end < text.size() && IsNameChar(text[end])) ++end;
    // $10 is $1 and a 0.
    if (end > i + 1 && IsDigit(text[i + 1])) end = i + 2;
    if (end == i + 1 && std::string_view("@*#?-$!").find(text[end]) != std::string_view::npos)
      ++end;
    return end == i + 1 ? i : end;
  }

  std::optional<std::string> ValueOf(std::string_view written) {
    if (written.front() == '`') return OfCommand(written.substr(1, written.size() - 2));
    if (written.starts_with("$((") && written.ends_with("))"))
      return OfArithmetic(written.substr(3, written.size() - 5));
    if (written[1] == '(') return OfCommand(written.substr(2, written.size() - 3));
    if (written[1] == '{') return OfBraces(written.substr(2, written.size() - 3));
    return OfName(written.substr(1));
  }

  // "N - 1", "$(nvidia-smi -L | wc -l) - 1"
  std::optional<std::string> OfArithmetic(std::string_view text) {
    std::string whole;
    for (std::size_t at = text.find("$("); at != std::string_view::npos; at = text.find("$(")) {
      const std::size_t end = BehindBracket(text, at + 1);
      if (end == std::string_view::npos || text.substr(at).starts_with("$((")) break;
      if (++level_ > kDeepest) return std::nullopt;
      const auto answer = OfCommand(text.substr(at + 2, end - at - 3));
      --level_;
      if (!answer) return std::nullopt;
      const std::string number = *answer == kGpusOfNode ? GpusAsNumber(known_) : *answer;
      whole += std::string(text.substr(0, at)) + number;
      text.remove_prefix(end);
      if (whole.size() > kLongestValue || number.empty()) return std::nullopt;
    }
    const auto number = ArithmeticValue(whole + std::string(text), known_);
    return number ? std::optional(std::to_string(*number)) : std::nullopt;
  }

  // `torch.cuda.device_count() - 1` of a program in the text.
  std::optional<std::string> OfDeviceCount(std::string_view command) const {
    constexpr std::string_view kCount = "cuda.device_count()";
    std::string_view rest = Trim(command.substr(command.find(kCount) + kCount.size()));
    rest = rest.substr(0, rest.find_first_of(")\"'`,;\n"));
    if (rest.empty() || std::string_view("+-*/%").find(rest[0]) == std::string_view::npos)
      return std::string(kGpusOfNode);
    std::string text = GpusAsNumber(known_) + std::string(rest);
    if (const std::size_t whole = text.find("//"); whole != std::string::npos) text.erase(whole, 1);
    const auto number = ArithmeticValue(text, {});
    return number ? std::optional(std::to_string(*number)) : std::nullopt;
  }

  std::optional<std::string> OfName(std::string_view name) const {
    if (const std::string* value = Lookup(name, known_)) return *value;
    // Slurm's own word for it, in lines that sbatch ran.
    if (name == "SLURM_GPUS_ON_NODE" || name == "SLURM_GPUS_PER_NODE")
      return std::string(kGpusOfNode);
    if (name == "SLURM_CPUS_ON_NODE" || name == "SLURM_JOB_CPUS_PER_NODE")
      return std::string(kCoresOfNode);
    return std::nullopt;
  }

  // "NAME", "NAME:-8", "NAME[@]", "#NAME[@]"
  std::optional<std::string> OfBraces(std::string_view inner) {
    const bool count = inner.starts_with('#');
    if (count) inner.remove_prefix(1);
    std::size_t end = 0;
    while (end < inner.size() && IsNameChar(inner[end])) ++end;
    const std::string_view name = inner.substr(0, end);
    std::string_view rest = inner.substr(end);
    if (rest == "[0]" && !count) return OfName(name);
    if (rest == "%/*" && !count) {
      const std::string* path = Lookup(name, known_);
      return path == nullptr ? std::nullopt : std::optional(DirectoryOf(*path));
    }
    if (rest == "[@]" || rest == "[*]") {
      const std::string* array = Lookup(std::string(name) + "[@]", known_);
      if (array == nullptr) return std::nullopt;
      if (!count) return *array;
      if (Lookup(UncountedName(name), known_) != nullptr) return std::nullopt;
      const auto words = ReadShell(*array);
      if (!words || words->commands.size() != 1) return std::nullopt;
      return std::to_string(words->commands[0].words.size());
    }
    if (count) {  // ${#NAME}: its length
      const std::string* value = rest.empty() ? Lookup(name, known_) : nullptr;
      return value == nullptr ? std::nullopt : std::optional(std::to_string(value->size()));
    }
    if (rest.empty()) return OfName(name);
    const std::string* value = Lookup(name, known_);
    if (rest == "//,/ " && value != nullptr) return WithBlanks(*value);
    if (value != nullptr && (rest == "#*=" || rest == "##*=")) {
      const std::size_t equals = rest == "#*=" ? value->find('=') : value->rfind('=');
      return equals == std::string::npos ? *value : value->substr(equals + 1);
    }
    const bool as_unset =
        value != nullptr && value->empty() && (rest.starts_with(":-") || rest.starts_with(":="));
    if (value != nullptr && !as_unset) {
      const bool plain = rest.starts_with(":-") || rest.starts_with(":=") ||
                         rest.starts_with('-') || rest.starts_with('=') || rest.starts_with(":?");
      return plain ? std::optional(*value) : std::nullopt;
    }
    if (rest.starts_with(':')) rest.remove_prefix(1);
    if (rest.empty() || (rest[0] != '-' && rest[0] != '=')) return std::nullopt;
    if (known_.contains(UnknownName(name))) return std::nullopt;
    // What stands in the text, unless launch sets the variable.
    const std::string_view otherwise = WithoutQuotes(rest.substr(1));
    if (IsSetByLaunch(name, known_) || ++level_ > kDeepest) return std::nullopt;
    if (otherwise.find_first_of("\"'\\") != std::string_view::npos) return std::nullopt;
    auto expanded = Expand(otherwise);
    --level_;
    return expanded;
  }

  // Where a script stands: $(dirname "$0"), $(cd "$(dirname "$0")/.." && pwd), $(realpath "$0").
  std::optional<std::string> OfPathCommand(std::string_view command) {
    if (command == "pwd" || command == "pwd -P") return OfName("PWD");
    const std::size_t blank = command.find(' ');
    if (blank == std::string_view::npos || ++level_ > kDeepest) return std::nullopt;
    const std::string_view verb = command.substr(0, blank);
    std::string_view rest = Trim(command.substr(blank));
    if (rest.ends_with(" -P")) rest = Trim(rest.substr(0, rest.size() - 3));
    const std::size_t behind = std::min(rest.rfind("&&"), rest.rfind(';'));
    const bool enters = verb == "cd" && rest.ends_with("pwd") && behind < rest.size();
    if (enters) rest = Trim(rest.substr(0, behind));
    while (rest.size() > 3 && rest[0] == '-' && rest.find(' ') < rest.size()) {
      rest = Trim(rest.substr(rest.find(' ')));  // --, -f, -P, -m
    }
    for (const std::string_view redirect : {" >", " &>", " 2>"}) {
      rest = Trim(rest.substr(0, rest.find(redirect)));
    }
    std::optional<std::string> path;
    if (enters || verb == "dirname" || verb == "realpath" || verb == "readlink") {
      path = Expand(WithoutQuotes(rest));
    }
    --level_;
    if (!path || verb == "dirname") return path ? std::optional(DirectoryOf(*path)) : path;
    if (path->empty()) return std::nullopt;
    const std::string* here = Lookup("PWD", known_);
    if (!path->starts_with('/') && here == nullptr) return path;
    return NormalPath(path->starts_with('/') ? *path : *here + "/" + *path);
  }

  // The questions after the number of GPUs or cores, and after the length of a list with commas.
  std::optional<std::string> OfCommand(std::string_view command) {
    const std::string_view asked = Trim(command);
    if (auto path = OfPathCommand(asked)) return path;
    if (asked == "nproc" || asked == "nproc --all" || asked == "getconf _NPROCESSORS_ONLN" ||
        Mentions(command, "os.cpu_count()")) {
      return std::string(kCoresOfNode);
    }
    const bool counted = Mentions(command, "wc -l") || Mentions(command, "grep -c");
    const bool listed = Mentions(command, "nvidia-smi") &&
                        (Mentions(command, "-L") || Mentions(command, "--list-gpus") ||
                         Mentions(command, "--query-gpu") || Mentions(command, "grep"));
    if (asked.starts_with("expr ")) return OfArithmetic(asked.substr(5));
    if (Mentions(command, "cuda.device_count()")) return OfDeviceCount(command);
    if ((counted && listed) ||
        (Mentions(command, "nvidia-smi") && Mentions(command, "--query-gpu=count"))) {
      return std::string(kGpusOfNode);
    }
    return OfList(asked, counted);
  }

  // `echo $GPUS | tr ',' ' '`, and with `| wc -l` the length of that list.
  std::optional<std::string> OfList(std::string_view asked, bool counted) {
    if (!asked.starts_with("echo ") || !Mentions(asked, ",")) return std::nullopt;
    constexpr std::array<std::string_view, 4> kCuts = {"tr ',' ' '", "tr \",\" \" \"", "tr , ' '",
                                                       "sed 's/,/ /g'"};
    const bool cut = !counted && std::any_of(kCuts.begin(), kCuts.end(), [&](std::string_view end) {
      return asked.ends_with(end);
    });
    if (!cut && !(counted && Mentions(asked, "tr "))) return std::nullopt;
    // Those that the job gets, unless the text gives it a value.
    const bool devices = Mentions(asked, "CUDA_VISIBLE_DEVICES") &&
                         Lookup("CUDA_VISIBLE_DEVICES", known_) == nullptr &&
                         Lookup("NPROC_PER_NODE", known_) != nullptr;
    if (devices) return counted ? std::optional(std::string(kGpusOfNode)) : std::nullopt;
    if (++level_ > kDeepest) return std::nullopt;
    const auto value = Expand(WithoutQuotes(Trim(asked.substr(5, asked.find('|', 5) - 5))));
    --level_;
    if (!value || value->empty() || value->find('$') != std::string::npos) return std::nullopt;
    if (cut) return WithBlanks(*value);
    return std::to_string(std::count(value->begin(), value->end(), ',') + 1);
  }

  const KnownVariables& known_;
  const bool strict_;
  int level_ = 0;
};

// Quotes have been taken away from the value: what looks like a variable may not be one.
bool IsLiteralInParts(const ShellWord& word) {
  const std::string_view bare = WithoutQuotes(word.raw);
  return !bare.ends_with(word.value) && word.raw.find_first_of("'\\") != std::string::npos;
}

std::optional<std::string> ValueIn(const ShellWord& word, const KnownVariables& known,
                                   bool strict) {
  if (word.fixed) return word.value;
  if (IsLiteralInParts(word)) return std::nullopt;
  return ValueReader(known, strict).Expand(word.value);
}

struct Elements {
  std::string text;
  bool counted = true;  // each is one word, or its value is known
};

Elements JoinedElements(const std::vector<ShellWord>& elements, const KnownVariables& known) {
  Elements joined;
  for (const ShellWord& element : elements) {
    const bool one = element.fixed || (element.raw.starts_with('"') && element.raw.ends_with('"') &&
                                       !Mentions(element.raw, "@"));
    joined.counted = joined.counted && (one || ValueIn(element, known, /*strict=*/true));
    const auto value = element.fixed ? std::nullopt : ValueIn(element, known, /*strict=*/false);
    joined.text += (joined.text.empty() ? "" : " ") + value.value_or(element.raw);
    if (joined.text.size() > kLongestValue) return {"", false};
  }
  return joined;
}

}  // namespace

std::optional<std::string> FixedValue(const ShellWord& word, const KnownVariables& known) {
  return ValueIn(word, known, /*strict=*/true);
}

std::optional<std::string> PartlyKnown(const ShellWord& word, const KnownVariables& known) {
  return ValueIn(word, known, /*strict=*/false);
}

void LeaveUnknown(const std::string& name, KnownVariables& known) {
  known.erase(name);
  if (known.size() < kMostVariables) known.insert_or_assign(UnknownName(name), "");
}

void Unset(const std::string& name, KnownVariables& known) {
  known.erase(name);
  known.erase(UnknownName(name));
}

void TakeAssignment(const ShellWord& word, KnownVariables& known) {
  std::size_t end = 0;
  while (end < word.raw.size() && IsNameChar(word.raw[end])) ++end;
  const std::string_view rest = std::string_view(word.raw).substr(end);
  const bool more = rest.starts_with("+=");
  if (end > 0 && !IsDigit(word.raw[0]) && (more || rest.starts_with('='))) {
    const std::string name = word.raw.substr(0, end);
    if (known.size() >= kMostVariables && !known.contains(name)) return;
    if (rest.ends_with(')') && rest.substr(more ? 2 : 1).starts_with('(')) {
      std::string& array = known[name + "[@]"];
      const Elements added = JoinedElements(word.elements, known);
      if (!more) array.clear();
      if (!more) known.erase(UncountedName(name));
      if (!added.counted) known.insert_or_assign(UncountedName(name), "");
      if (array.size() + added.text.size() > kLongestValue) return;
      array += (array.empty() ? "" : " ") + added.text;
      return;
    }
    ShellWord value = word;
    value.raw = word.raw.substr(end + (more ? 2 : 1));
    value.value = word.value.substr(std::min(end + (more ? 2 : 1), word.value.size()));
    auto text = ValueIn(value, known, /*strict=*/true);
    if (!text && value.value.find(' ') != std::string::npos) {
      text = ValueIn(value, known, /*strict=*/false);
    }
    if (more) {
      const std::string* before = Lookup(name, known);
      text = before != nullptr && text && before->size() + text->size() < kLongestValue
                 ? std::optional(*before + *text)
                 : std::nullopt;
    }
    known.erase(PathName(name));
    if (text) {
      known.erase(UnknownName(name));
      known.insert_or_assign(name, *text);
      return;
    }
    known.erase(name);
    if (HasUnknownValue(value, known)) {
      LeaveUnknown(name, known);
    } else {
      known.erase(UnknownName(name));
    }
    auto path = more ? std::nullopt : ValueIn(value, known, /*strict=*/false);
    if (path && EndsInName(*path)) known.insert_or_assign(PathName(name), std::move(*path));
    return;
  }
  // ": ${NGPU:=4}"
  const std::string_view bare = WithoutQuotes(word.raw);
  if (!bare.starts_with("${") || !bare.ends_with('}') || !Mentions(bare, "=")) return;
  end = 2;
  while (end < bare.size() && IsNameChar(bare[end])) ++end;
  if (!bare.substr(end).starts_with(":=") && !bare.substr(end).starts_with('=')) return;
  if (const auto value = ValueIn(word, known, /*strict=*/true)) {
    known.insert_or_assign(std::string(bare.substr(2, end - 2)), *value);
  }
}

namespace {

// What "$T" and "${T}" are in quotes: one word, and the program of that name where it stands first.
std::optional<ShellWord> ValueOfQuoted(const ShellWord& word, const KnownVariables& known) {
  if (word.fixed || !word.value.starts_with('$') || !ValueReader::IsOneExpansion(word.value))
    return std::nullopt;
  const bool quoted = word.raw.starts_with('"') && word.value.size() + 2 == word.raw.size();
  const auto value = ValueReader(known, /*strict=*/true).Expand(word.value);
  if (value && (!quoted || !IsPlainWord(*value))) return std::nullopt;
  ShellWord one = word;
  if (value) {
    one.raw = one.value = *value;
    one.fixed = true;
    return one;
  }
  std::string_view name = std::string_view(word.value).substr(1);
  if (name.starts_with('{')) name = name.substr(1, name.size() - 2);
  const std::string* path = Lookup(PathName(name), known);
  if (path == nullptr) return std::nullopt;
  one.value = *path;
  return one;
}

}  // namespace

std::vector<ShellWord> WordSplitter::Split(const std::vector<ShellWord>& words,
                                           const KnownVariables& known) {
  std::vector<ShellWord> out;
  for (const ShellWord& word : words) {
    if (auto one = ValueOfQuoted(word, known); one && one->value.size() <= left_) {
      left_ -= one->value.size();
      out.push_back(std::move(*one));
      continue;
    }
    // Quotes keep a value together, but for "${ARRAY[@]}".
    const bool open = !word.fixed && (word.value == word.raw || word.value.ends_with("[@]}") ||
                                      word.value == "$@");
    const auto value = open && word.value[0] == '$'
                           ? ValueReader(known, /*strict=*/true).Expand(word.value)
                           : std::nullopt;
    if (!value || value->size() > left_) {
      out.push_back(word);
      continue;
    }
    left_ -= value->size();
    const auto inner = ReadShell(*value);
    if (!inner || inner->commands.empty()) continue;  // empty: no word at all
    for (ShellWord part : inner->commands.front().words) {
      part.line = word.line;
      part.column = word.column;
      out.push_back(std::move(part));
    }
  }
  return out;
}

void NestedTexts::Visit(std::string_view text, const std::function<void(const ShellScript&)>& use) {
  if (!Has(text)) return;
  left_ -= text.size() + kEach;
  const auto script = ReadShell(text);
  if (!script) return;
  ++level_;
  use(*script);
  --level_;
}

std::vector<std::string_view> ShellDocuments(const ShellCommand& command) {
  std::vector<std::string_view> documents;
  bool shell = false;
  bool copies = false;
  for (const ShellWord& word : command.words) {
    const std::string_view program = ProgramOf(word);
    shell = shell || program == "bash" || program == "sh";
    copies = copies || (program == "cat" && command.joiner == "|") ||
             (program == "tee" && command.words.back().value.ends_with(".sh"));
  }
  for (const ShellRedirect& redirect : command.redirects) {
    copies = copies || (redirect.output && redirect.target.ends_with(".sh"));
  }
  for (const ShellRedirect& redirect : command.redirects) {
    if ((shell || copies) && !redirect.document.empty()) documents.push_back(redirect.document);
  }
  return documents;
}

}  // namespace launch
