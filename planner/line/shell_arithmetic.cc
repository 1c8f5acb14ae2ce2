#include "planner/line/shell_arithmetic.h"

#include "common/text.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr int kDeepestBracket = 16;
constexpr std::int64_t kLargestNumber = 1'000'000'000;

class Arithmetic {
 public:
  Arithmetic(std::string_view text, const KnownVariables& known) : text_(text), known_(known) {}

  std::optional<std::int64_t> Value() {
    const auto value = Sum();
    Blanks();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;

  void Blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Take(char c) {
    Blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  static Number Bounded(std::int64_t value) {
    return value >= -kLargestNumber && value <= kLargestNumber ? Number(value) : std::nullopt;
  }

  Number Sum() {
    Number left = Product();
    while (left) {
      const bool plus = Take('+');
      if (!plus && !Take('-')) break;
      const Number right = Product();
      left = right ? Bounded(plus ? *left + *right : *left - *right) : std::nullopt;
    }
    return left;
  }

  Number Product() {
    Number left = Factor();
    while (left) {
      const char op = Take('*') ? '*' : Take('/') ? '/' : Take('%') ? '%' : '\0';
      if (op == '\0') break;
      const Number right = Factor();
      if (!right || (op != '*' && *right == 0)) return std::nullopt;
      left = op == '*' ? Bounded(*left * *right) : op == '/' ? *left / *right : *left % *right;
    }
    return left;
  }

  Number Factor() {
    if (Take('(')) {
      if (++level_ > kDeepestBracket) return std::nullopt;
      const Number inner = Sum();
      --level_;
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
