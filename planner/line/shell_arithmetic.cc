#include "planner/line/shell_arithmetic.h"

#include <array>
#include <span>

#include "common/text.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr int kDeepestBracket = 16;
constexpr std::int64_t kLongestShift = 30;
constexpr std::int64_t kLargestNumber = 1'000'000'000;

// By the precedence of bash. The part of `?:` that is not taken, and what stands behind a `&&` or
// `||` that is decided, has to be known too.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const KnownVariables& known) : text_(text), known_(known) {}

  std::optional<std::int64_t> Value() {
    const auto value = Choice();
    Blanks();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;
  // Operators of one level, each before those that it begins with.
  using Operators = std::span<const std::string_view>;

  static constexpr std::array<std::string_view, 1> kOr = {"||"};
  static constexpr std::array<std::string_view, 1> kAnd = {"&&"};
  static constexpr std::array<std::string_view, 2> kEqual = {"==", "!="};
  static constexpr std::array<std::string_view, 4> kCompare = {"<=", ">=", "<", ">"};
  static constexpr std::array<std::string_view, 2> kShift = {"<<", ">>"};
  static constexpr std::array<std::string_view, 2> kSum = {"+", "-"};
  static constexpr std::array<std::string_view, 3> kProduct = {"*", "/", "%"};
  static constexpr std::array<Operators, 7> kLevels = {kOr,    kAnd, kEqual,  kCompare,
                                                       kShift, kSum, kProduct};

  void Blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Take(char c) {
    Blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // The operator at hand, where it is one of those; empty: it is none, or assigns.
  std::string_view TakeOneOf(Operators operators) {
    Blanks();
    const std::string_view rest = text_.substr(at_);
    for (const std::string_view one : operators) {
      if (!rest.starts_with(one)) continue;
      const std::string_view behind = rest.substr(one.size());
      // "<<" is no "<", "**" and "++" are not known, "<<=" and "+=" assign.
      const bool longer = one.size() == 1 && !behind.empty() && behind[0] == one[0];
      const bool assigns = !one.ends_with('=') && behind.starts_with('=');
      if (longer || assigns) return {};
      at_ += one.size();
      return one;
    }
    return {};
  }
  static Number Bounded(std::int64_t value) {
    return value >= -kLargestNumber && value <= kLargestNumber ? Number(value) : std::nullopt;
  }

  // "G < 8 ? G : 8"
  Number Choice() {
    if (++level_ > kDeepestBracket) return std::nullopt;
    Number value = Level(0);
    if (value && Take('?')) {
      const Number yes = Choice();
      const Number no = yes && Take(':') ? Choice() : std::nullopt;
      value = !no ? std::nullopt : *value != 0 ? yes : no;
    }
    --level_;
    return value;
  }

  // From the left to the right.
  Number Level(std::size_t level) {
    if (level == kLevels.size()) return Factor();
    Number left = Level(level + 1);
    while (left) {
      const std::string_view op = TakeOneOf(kLevels[level]);
      if (op.empty()) break;
      const Number right = Level(level + 1);
      left = right ? Applied(op, *left, *right) : std::nullopt;
    }
    return left;
  }

  static Number Applied(std::string_view op, std::int64_t left, std::int64_t right) {
    if (op == "||") return left != 0 || right != 0;
    if (op == "&&") return left != 0 && right != 0;
    if (op == "==") return left == right;
    if (op == "!=") return left != right;
    if (op == "<=") return left <= right;
    if (op == ">=") return left >= right;
    if (op == "<") return left < right;
    if (op == ">") return left > right;
    if (op == "+") return Bounded(left + right);
    if (op == "-") return Bounded(left - right);
    if (op == "*") return Bounded(left * right);
    if (op == "/" || op == "%") {
      if (right == 0) return std::nullopt;
      return op == "/" ? left / right : left % right;
    }
    if (left < 0 || right < 0 || right > kLongestShift) return std::nullopt;
    return Bounded(op == "<<" ? left << right : left >> right);
  }

  Number Factor() {
    if (Take('!')) {
      if (++level_ > kDeepestBracket) return std::nullopt;
      const Number value = Factor();
      --level_;
      return value ? Number(*value == 0) : std::nullopt;
    }
    if (Take('(')) {
      const Number inner = Choice();
      return Take(')') ? inner : std::nullopt;
    }
    Blanks();
    const bool dollar = Take('$');
    const bool braces = dollar && Take('{');
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
    std::string_view word = text_.substr(begin, at_ - begin);
    if (braces && !Take('}')) return std::nullopt;
    if (word.empty()) return std::nullopt;
    if (dollar || !IsDigit(word[0])) {
      const auto value = known_.find(word);
      if (value == known_.end()) return std::nullopt;
      word = value->second;
    }
    const std::string gpus = word == kGpusOfNode ? GpusAsNumber(known_) : std::string();
    if (!gpus.empty()) word = gpus;
    const auto number = ParseInt(word);
    return number ? Bounded(*number) : std::nullopt;
  }

  const std::string_view text_;
  const KnownVariables& known_;
  std::size_t at_ = 0;
  int level_ = 0;
};

}  // namespace

std::string GpusAsNumber(const KnownVariables& known) {
  const auto told = known.find(std::string_view("SLURM_GPUS_ON_NODE"));
  return told != known.end() && ParseInt(told->second) ? told->second : std::string();
}

std::optional<std::int64_t> ArithmeticValue(std::string_view text, const KnownVariables& known) {
  return Arithmetic(text, known).Value();
}

}  // namespace launch
