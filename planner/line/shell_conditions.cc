#include "planner/line/shell_conditions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/units.h"
#include "planner/line/shell_arithmetic.h"

namespace launch {
namespace {

constexpr std::size_t kMostOpen = 256;  // branches within each other

// The words between the brackets of a test, without `if` in front; absent: it is none.
std::optional<std::vector<ShellWord>> TestWords(const ShellCommand& command) {
  std::vector<ShellWord> words = command.words;
  while (!words.empty() && (words[0].raw == "if" || words[0].raw == "elif"))
    words.erase(words.begin());
  if (words.empty()) return std::nullopt;
  const std::string first = words[0].raw;
  const bool brackets =
      (first == "[" && words.back().raw == "]") || (first == "[[" && words.back().raw == "]]");
  if (!brackets && first != "test") return std::nullopt;
  if (brackets) words.pop_back();
  if (!words.empty()) words.erase(words.begin());
  return words;
}

std::optional<bool> Compared(std::string_view op, const std::string& left,
                             const std::string& right) {
  // What only the node knows is no word.
  const bool symbol =
      left == kGpusOfNode || left == kCoresOfNode || right == kGpusOfNode || right == kCoresOfNode;
  if (symbol) return std::nullopt;
  if (op == "=" || op == "==") return left == right;
  if (op == "!=") return left != right;
  const auto a = ParseInt(left);
  const auto b = ParseInt(right);
  if (!a || !b) return std::nullopt;
  if (op == "-eq") return *a == *b;
  if (op == "-ne") return *a != *b;
  if (op == "-gt") return *a > *b;
  if (op == "-ge") return *a >= *b;
  if (op == "-lt") return *a < *b;
  if (op == "-le") return *a <= *b;
  return std::nullopt;
}

bool IsPlainPattern(const std::string& raw) {
  return raw.find_first_of("*?[]$`\\") == std::string::npos;
}

bool IsChain(const std::string& joiner) { return joiner == "&&" || joiner == "||"; }

// Not "{ a; b; }" nor "( a; b )", of which it would be a part only.
bool IsSimple(const ShellCommand& command) {
  static constexpr std::array<std::string_view, 10> kOpen = {
      "{", "if", "case", "while", "until", "for", "select", "function", "!", "time"};
  return command.subshell == 0 && !command.words.empty() &&
         std::find(kOpen.begin(), kOpen.end(), command.words[0].raw) == kOpen.end();
}

}  // namespace

std::optional<bool> TestValue(const ShellCommand& command, const KnownVariables& known) {
  const std::size_t first =
      !command.words.empty() && (command.words[0].raw == "if" || command.words[0].raw == "elif");
  if (command.words.size() == first + 1 &&
      (command.words[first].raw == "true" || command.words[first].raw == "false")) {
    return command.words[first].raw == "true";
  }
  // "((N > 1))" is one word.
  const std::string_view whole =
      command.words.size() == first + 1 ? std::string_view(command.words[first].raw) : "";
  if (whole.starts_with("((") && whole.ends_with("))")) {
    const auto number = ArithmeticValue(whole.substr(2, whole.size() - 4), known);
    return number ? std::optional(*number != 0) : std::nullopt;
  }
  const auto words = TestWords(command);
  if (!words) return std::nullopt;
  if (words->size() == 2) {
    const std::string& op = (*words)[0].raw;
    const auto value = FixedValue((*words)[1], known);
    if (!value || (op != "-z" && op != "-n")) return std::nullopt;
    return value->empty() == (op == "-z");
  }
  if (words->size() != 3) return std::nullopt;
  const auto left = FixedValue((*words)[0], known);
  const auto right = FixedValue((*words)[2], known);
  // A pattern may stand there in [[ ]], also as the value of a variable.
  constexpr std::string_view kOfPatterns = "*?[]\\`";
  const bool pattern = (*words)[2].raw.find_first_of(kOfPatterns) != std::string::npos ||
                       (right && right->find_first_of(kOfPatterns) != std::string::npos);
  if (pattern) return std::nullopt;
  return left && right ? Compared((*words)[1].raw, *left, *right) : std::nullopt;
}

namespace {

// `--gpus=*` and `*.json`, of stars alone; absent: another pattern, or too long a one.
std::optional<bool> FitsStars(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kLongest = 64;
  constexpr std::size_t kLongestText = 1024;
  const bool plain = std::all_of(pattern.begin(), pattern.end(), [](char c) {
    return IsNameChar(c) || std::string_view("*-=./:,+@").find(c) != std::string_view::npos;
  });
  if (!plain || pattern.size() > kLongest || text.size() > kLongestText) return std::nullopt;
  std::size_t star = std::string_view::npos;
  std::size_t behind = 0;  // of the text, where the last star ends
  std::size_t at = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      behind = i;
    } else if (at < pattern.size() && pattern[at] == text[i]) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++behind;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

}  // namespace

bool DecidedBranches::IsDead() const {
  return std::any_of(frames_.begin(), frames_.end(), [](const Frame& one) { return one.dead; });
}

bool DecidedBranches::Decides() const {
  return sure_ && std::none_of(frames_.begin(), frames_.end(),
                               [](const Frame& one) { return one.kind == Kind::kLoop; });
}

bool DecidedBranches::Reached() const {
  return std::none_of(frames_.begin(), frames_.end(), [](const Frame& one) { return one.unsure; });
}

void DecidedBranches::Enter() {
  Push(Kind::kText);
  skip_joiner_.clear();
  in_chain_ = false;
}

void DecidedBranches::CloseTo(std::size_t depth) {
  if (frames_.size() > depth) frames_.resize(depth);
  skip_joiner_.clear();
  in_chain_ = false;
}

void DecidedBranches::Push(Kind kind) {
  const bool lost = frames_.size() == kMostOpen;
  if (lost) frames_.clear();
  if (!frames_.empty()) frames_.back().unclear = true;
  frames_.push_back({.kind = kind, .unsure = lost || kind == Kind::kLoop});
}

// `if A || B && C; then`: bash takes the tests from left to right.
void DecidedBranches::TakeTest(const ShellCommand& command, const KnownVariables& known) {
  static constexpr std::array<std::string_view, 2> kGroups = {"{", "!"};
  Frame& frame = frames_.back();
  const auto& words = command.words;
  const std::size_t first = words[0].raw == "if" || words[0].raw == "elif" ? 1 : 0;
  const bool group =
      command.subshell > 0 ||
      (first < words.size() && std::ranges::find(kGroups, words[first].raw) != kGroups.end());
  const std::string joiner = std::exchange(frame.joiner, command.joiner);
  frame.unclear = frame.unclear || group || (!joiner.empty() && !IsChain(joiner));
  const auto value = Decides() ? TestValue(command, known) : std::optional<bool>();
  const bool settles = joiner == "||";  // the value after which the other one does not matter
  if (joiner.empty()) {
    frame.condition = value;
  } else if (frame.condition != settles && (value == settles || frame.condition.has_value())) {
    frame.condition = value;
  }
}

// Patterns are commands of their own: the last of them ends with `)`.
void DecidedBranches::TakePattern(const ShellWord& word, const std::string& joiner) {
  Frame& frame = frames_.back();
  const bool plain = word.fixed && IsPlainPattern(word.raw);
  if (word.raw == "*") {
    frame.matches = frame.matches || !frame.open;
    frame.open = true;
  } else if (!plain || !frame.subject) {
    const auto fits = frame.subject ? FitsStars(word.raw, *frame.subject) : std::nullopt;
    frame.open = frame.open || !fits;
    frame.matches = frame.matches || fits.value_or(false);
  } else if (word.value == *frame.subject) {
    frame.matches = true;
  }
  if (joiner == "|") return;
  const bool decides = Decides() && frame.subject;
  frame.dead = decides && (frame.taken || (!frame.matches && !frame.open));
  frame.unsure = frame.unsure || (!frame.dead && !(decides && frame.matches));
  frame.taken = frame.taken || (decides && frame.matches);
  frame.pattern = frame.matches = frame.open = false;
}

void DecidedBranches::TakeKeywords(const ShellCommand& command, const KnownVariables& known) {
  static constexpr std::array<std::string_view, 4> kLoops = {"while", "until", "for", "select"};
  static constexpr std::array<std::string_view, 4> kWithin = {"do", "{", "!", "time"};
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].raw;
    const bool in_if = !frames_.empty() && frames_.back().kind == Kind::kIf;
    if (word == "if" || (word == "elif" && in_if)) {
      if (word == "if") {
        Push(Kind::kIf);
      } else {
        frames_.back().dead = frames_.back().taken;
      }
      Frame& frame = frames_.back();
      frame.in_condition = true;
      frame.unclear = i > 0;  // `! if ...`
      frame.joiner.clear();
      TakeTest(command, known);
      return;
    }
    if (word == "then" && in_if) {
      Frame& frame = frames_.back();
      frame.in_condition = false;
      if (frame.unclear) frame.condition.reset();
      frame.dead = frame.taken || !frame.condition.value_or(true);
      frame.unsure = frame.unsure || !frame.condition;
      frame.taken = frame.taken || frame.condition.value_or(false);
    } else if (word == "else" && in_if) {
      frames_.back().dead = frames_.back().taken;
    } else if (word == "case") {
      Push(Kind::kCase);
      frames_.back().pattern = true;
      if (i + 1 < command.words.size() && sure_)
        frames_.back().subject = FixedValue(command.words[i + 1], known);
      if (i + 3 < command.words.size()) TakePattern(command.words[i + 3], command.joiner);
      return;
    } else if (std::find(kLoops.begin(), kLoops.end(), word) != kLoops.end()) {
      Push(Kind::kLoop);
      return;
    } else if (word == "fi" || word == "esac" || word == "done") {
      if (!frames_.empty() && frames_.back().kind != Kind::kText) frames_.pop_back();
      return;
    } else if (std::find(kWithin.begin(), kWithin.end(), word) == kWithin.end()) {
      return;
    }
  }
}

bool DecidedBranches::Skips(const ShellCommand& command, const KnownVariables& known, bool sure) {
  sure_ = sure;
  const bool behind_another = std::exchange(in_chain_, IsChain(command.joiner));
  const bool in_condition = !frames_.empty() && frames_.back().in_condition;
  if (command.words.empty()) {
    if (in_condition) frames_.back().unclear = true;
    return IsDead();
  }
  const bool pattern = !frames_.empty() && frames_.back().pattern && command.words[0].raw != "esac";
  if (pattern) {
    TakePattern(command.words[0], command.joiner);
    return true;
  }
  if (in_condition && command.words[0].raw != "then") TakeTest(command, known);
  TakeKeywords(command, known);
  bool skips = IsDead();
  if (command.joiner == ";;" && !frames_.empty() && frames_.back().kind == Kind::kCase) {
    frames_.back().pattern = true;
    frames_.back().dead = false;
  }
  if (skips) return true;
  if (!skip_joiner_.empty() && IsSimple(command)) {
    if (command.joiner != skip_joiner_) skip_joiner_.clear();
    return true;
  }
  skip_joiner_.clear();
  const bool first = IsChain(command.joiner) && !behind_another && command.subshell == 0;
  const auto value = first && Decides() ? TestValue(command, known) : std::optional<bool>();
  if (value && *value == (command.joiner == "||")) skip_joiner_ = command.joiner;
  return false;
}

}  // namespace launch
