#include "tests/unit/diagnosis/pattern_examples.h"

#include <algorithm>
#include <cstdlib>

namespace launch {
namespace {

constexpr std::size_t kMost = 4000;     // of one pattern
constexpr std::size_t kSmallClass = 3;  // characters that are all tried

using Texts = std::vector<PatternExample>;

class Reader {
 public:
  explicit Reader(std::string_view pattern) : rest_(pattern) {}

  Texts Alternatives() {
    Texts all;
    do {
      const std::string_view from = rest_;
      Texts more = Sequence();
      const int number = static_cast<int>(names_.size());
      names_.emplace_back(from.substr(0, from.size() - rest_.size()));
      for (PatternExample& example : more) {
        example.taken.insert(number);
        all.push_back(std::move(example));
      }
    } while (Take('|'));
    return all;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  static Texts Of(std::string_view text) { return {{std::string(text), {}}}; }

  bool Take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  char Next() {
    const char c = rest_.empty() ? '\0' : rest_[0];
    if (!rest_.empty()) rest_.remove_prefix(1);
    return c;
  }

  static PatternExample Joined(const PatternExample& a, const PatternExample& b) {
    PatternExample both = a;
    both.text += b.text;
    both.taken.insert(b.taken.begin(), b.taken.end());
    return both;
  }

  // Each with each, or where that is too many each at least once.
  static Texts Product(const Texts& left, const Texts& right) {
    Texts product;
    if (left.size() * right.size() <= kMost) {
      for (const PatternExample& a : left)
        for (const PatternExample& b : right) product.push_back(Joined(a, b));
    } else {
      for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i)
        product.push_back(Joined(left[i % left.size()], right[i % right.size()]));
    }
    return product;
  }

  Texts Sequence() {
    Texts texts = Of("");
    while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')')
      texts = Product(texts, Repeated(Atom()));
    return texts;
  }

  Texts Repeated(Texts atom) {
    int least = 1;
    bool may_miss = false;
    bool endless = false;
    if (Take('?')) {
      may_miss = true;
    } else if (Take('*')) {
      may_miss = endless = true;
    } else if (Take('{')) {
      const std::size_t end = rest_.find('}');
      least = std::atoi(std::string(rest_.substr(0, end)).c_str());
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      may_miss = least == 0;
    } else {
      endless = Take('+');
    }
    if (!Take('?')) Take('+');  // how greedy it is
    Texts texts = atom;
    if (endless && any_) texts = Of(std::string(1, kAnything));
    for (int i = 1; i < least; ++i) {
      for (std::size_t t = 0; t < texts.size(); ++t) texts[t].text += atom[t].text;
    }
    if (may_miss) texts.emplace_back();
    return texts;
  }

  Texts Atom() {
    any_ = false;
    switch (const char c = Next()) {
      case '(':
        return Group();
      case '[':
        return Class();
      case '\\':
        return Escaped();
      case '.':
        any_ = true;
        return Of("x");
      case '^':
      case '$':
        return Of("");
      default:
        return Of(std::string(1, c));
    }
  }

  Texts Group() {
    if (Take('?')) {
      while (!rest_.empty() && rest_[0] != ':' && rest_[0] != ')') Next();
      if (Take(')')) return Of("");  // a flag for what follows
      Take(':');
    }
    Texts texts = Alternatives();
    Take(')');
    any_ = false;
    return texts;
  }

  Texts Escaped() {
    switch (const char c = Next()) {
      case 'd':
        return Of("7");
      case 'S':
      case 'D':
      case 'w':
        return Of("x");
      case 's':
      case 'W':
        return Of(" ");
      case 'b':
        return Of("");
      case 'n':
        return Of("\n");
      default:
        return Of(std::string(1, c));
    }
  }

  Texts Class() {
    const bool excluded = Take('^');
    std::string members;
    while (!rest_.empty() && (rest_[0] != ']' || members.empty())) {
      const char c = Next();
      if (c == '\\') {
        members += Escaped()[0].text;
      } else if (rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
        Next();
        for (char m = c; m < rest_[0]; ++m) members += m;
      } else {
        members += c;
      }
    }
    Take(']');
    any_ = excluded && members.size() == 1;
    if (excluded) {
      for (const char c : {'x', '7', ' '})
        if (members.find(c) == std::string::npos) return Of(std::string(1, c));
      return Of("-");
    }
    Texts texts;
    for (const char c : members)
      if (texts.empty() || members.size() <= kSmallClass) texts.push_back({std::string(1, c), {}});
    return texts;
  }

  std::string_view rest_;
  bool any_ = false;  // the last atom stands for every character of a line
  std::vector<std::string> names_;
};

}  // namespace

PatternExamples ExamplesOf(std::string_view pattern) {
  Reader reader(pattern);
  PatternExamples all;
  all.examples = reader.Alternatives();
  all.alternatives = reader.names();
  return all;
}

}  // namespace launch
