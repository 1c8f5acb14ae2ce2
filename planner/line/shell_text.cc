#include "planner/line/shell_text.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/text.h"

namespace launch {
namespace {

constexpr int kMaxShellDepth = 64;
constexpr std::size_t kMostTried = 1 << 20;  // texts may be hostile

// Words that open or close compound commands when they stand first.
constexpr std::array<std::string_view, 19> kKeywords = {
    "if", "then", "else", "elif",     "fi", "for", "while", "until",  "do",    "done",
    "in", "case", "esac", "function", "{",  "}",   "[[",    "select", "coproc"};

class ShellReader {
 public:
  explicit ShellReader(std::string_view text) : text_(text) {}

  Result<ShellScript> Read() {
    while (!AtEnd()) {
      LAUNCH_RETURN_IF_ERROR(Step());
    }
    EndCommand("");
    if (!script_.commands.empty()) {
      std::string& last = script_.commands.back().joiner;
      if (last == "\n" || last == ";") last.clear();
    }
    return std::move(script_);
  }

 private:
  struct HereDocument {
    std::string end;           // the word of its last line
    bool tabs = false;         // "<<-": those at the beginning of a line are not part of it
    std::size_t command = 0;   // in the script
    std::size_t redirect = 0;  // of the command
  };

  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool Looking(std::string_view what) const { return text_.substr(at_, what.size()) == what; }

  Unexpected Open(std::size_t where, std::string what) const {
    int line = 1;
    int column = 1;
    for (std::size_t i = 0; i < where; ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n' ? 1 : 0;
    }
    return Fail(ErrorCode::kInvalidArgument,
                "run: " + what + " opened at line " + std::to_string(line) + ", column " +
                    std::to_string(column) + " is never closed",
                "close it, or put a backslash in front of a literal one");
  }

  void EndCommand(std::string joiner) {
    if (command_.words.empty() && command_.redirects.empty()) {
      // "a &&\n b": the newline after an operator joins nothing.
      if (!joiner.empty() && joiner != "\n" && !script_.commands.empty()) {
        script_.commands.back().joiner = std::move(joiner);
      }
      return;
    }
    command_.joiner = std::move(joiner);
    command_.subshell = subshell_;
    if (!command_.words.empty() &&
        std::find(kKeywords.begin(), kKeywords.end(), command_.words[0].raw) != kKeywords.end()) {
      script_.compound = true;
    }
    script_.commands.push_back(std::move(command_));
    command_ = {};
  }

  Result<void> Step() {
    const char c = Peek();
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
      return {};
    }
    if (c == '\\' && (Peek(1) == '\n' || at_ + 1 == text_.size())) {
      at_ += 2;  // continuation, or a trailing backslash at the end of the block
      return {};
    }
    if (c == '#') {
      while (!AtEnd() && Peek() != '\n') ++at_;
      return {};
    }
    if (c == '\n') {
      ++at_;
      EndCommand("\n");
      ReadHereDocuments();
      return {};
    }
    if (IsRedirect()) return ReadRedirect();
    for (std::string_view op : {"&&", "||", ";;", "|&", "&", "|", ";"}) {
      if (!Looking(op)) continue;
      at_ += op.size();
      if (op == ";;") script_.compound = true;
      EndCommand(op == "|&" ? "|" : std::string(op));
      return {};
    }
    if (c == '(' && Peek(1) == '(' && ReadArithmetic()) return {};
    if (c == '(' || c == ')') {
      script_.compound = true;
      ++at_;
      EndCommand(";");
      // `f()` opens and closes; what closes a pattern of `case` opened nothing.
      subshell_ = c == '(' ? subshell_ + 1 : std::max(0, subshell_ - 1);
      return {};
    }
    LAUNCH_ASSIGN_OR_RETURN(ShellWord word, ReadWord());
    command_.words.push_back(std::move(word));
    return {};
  }

  // "((i << 2))" and "for ((i = 0; ...))" as one word: nothing in it is a command or a document.
  // False, and nothing is read, where the brackets are those of subshells.
  bool ReadArithmetic() {
    const std::size_t begin = at_;
    ShellWord word;
    const bool closed = tried_ < kMostTried && SkipBracket('(', ')').has_value();
    if (!closed || text_.substr(at_ - 2, 2) != "))") {
      tried_ += at_ - begin + 1;
      at_ = begin;
      return false;
    }
    script_.compound = true;
    word.raw = word.value = std::string(text_.substr(begin, at_ - begin));
    word.fixed = false;
    CountTo(begin, word);
    command_.words.push_back(std::move(word));
    return true;
  }

  bool IsRedirect() const {
    std::size_t ahead = 0;
    while (IsDigit(Peek(ahead))) ++ahead;
    if (Peek(ahead) == '<' && Peek(ahead + 1) == '(') return false;  // process substitution
    if (Peek(ahead) == '>' && Peek(ahead + 1) == '(') return false;
    if (Peek(ahead) == '<' || Peek(ahead) == '>') return true;
    return Peek() == '&' && Peek(1) == '>';
  }

  Result<void> ReadRedirect() {
    ShellRedirect redirect;
    bool digits = false;
    while (IsDigit(Peek())) {
      redirect.raw += text_[at_++];
      digits = true;
    }
    std::string op;
    for (std::string_view candidate :
         {"<<<", "<<-", "&>>", "&>", "<<", "<&", "<>", ">>", ">&", ">|", "<", ">"}) {
      if (Looking(candidate)) {
        op = candidate;
        break;
      }
    }
    at_ += op.size();
    redirect.raw += op;
    while (Peek() == ' ' || Peek() == '\t') ++at_;
    LAUNCH_ASSIGN_OR_RETURN(ShellWord target, ReadWord());
    redirect.target = target.raw;
    if (op == "<<" || op == "<<-") {
      script_.compound = true;
      here_documents_.push_back(
          {target.value, op == "<<-", script_.commands.size(), command_.redirects.size()});
    }
    const bool to_descriptor =
        op == ">&" && !target.raw.empty() && (IsDigit(target.raw[0]) || target.raw[0] == '-');
    redirect.output = !to_descriptor && op.find('>') != std::string::npos && op != "<>";
    if (!to_descriptor && !digits && op != ">&") redirect.raw += ' ';
    redirect.raw += target.raw;
    command_.redirects.push_back(std::move(redirect));
    return {};
  }

  // Behind the newline that ended their commands.
  void ReadHereDocuments() {
    for (const HereDocument& open : here_documents_) {
      script_.commands[open.command].redirects[open.redirect].document = TakeDocument(open);
    }
    here_documents_.clear();
  }

  // Its lines from here on, up to the one that ends it.
  std::string TakeDocument(const HereDocument& open) {
    std::string document;
    while (!AtEnd()) {
      const std::size_t stop = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, stop - at_);
      at_ = stop + (stop < text_.size() ? 1 : 0);
      while (open.tabs && !line.empty() && line.front() == '\t') line.remove_prefix(1);
      if (line == open.end) break;
      document += std::string(line) + "\n";
    }
    return document;
  }

  // At "<<" inside of $( ... ).
  Result<void> NoteInnerDocument(std::vector<HereDocument>& inner) {
    at_ += 2;
    const bool tabs = Peek() == '-';
    if (tabs) ++at_;
    while (Peek() == ' ' || Peek() == '\t') ++at_;
    LAUNCH_ASSIGN_OR_RETURN(const ShellWord end, ReadWord());
    inner.push_back({end.value, tabs, 0, 0});
    return {};
  }

  // NAME=( a "b c" $D ), at the bracket: words over any number of lines.
  Result<void> ReadArray(ShellWord& word) {
    const std::size_t open = at_++;
    while (Peek() != ')') {
      if (AtEnd()) return Open(open, "the bracket (");
      const char c = Peek();
      if (c == '#') {
        while (!AtEnd() && Peek() != '\n') ++at_;
      } else if (c == '\\' && Peek(1) == '\n') {
        at_ += 2;
      } else if (std::string_view(" \t\r\n;|&(<>").find(c) != std::string_view::npos) {
        ++at_;  // blanks, and what bash itself would refuse here
      } else {
        LAUNCH_ASSIGN_OR_RETURN(ShellWord element, ReadWord());
        word.elements.push_back(std::move(element));
      }
    }
    ++at_;
    return {};
  }

  void CountTo(std::size_t at, ShellWord& word) {
    for (; counted_ < at && counted_ < text_.size(); ++counted_) {
      column_ = text_[counted_] == '\n' ? 1 : column_ + 1;
      line_ += text_[counted_] == '\n' ? 1 : 0;
    }
    word.line = line_;
    word.column = column_;
  }

  Result<ShellWord> ReadWord() {
    ShellWord word;
    CountTo(at_, word);
    const std::size_t begin = at_;
    while (!AtEnd()) {
      const char c = Peek();
      if (std::string_view(" \t\r\n;|&").find(c) != std::string_view::npos) break;
      if (c == '(' || c == ')') {
        if (c == '(' && at_ > begin) script_.compound = true;  // f(), A=(...), @(pattern)
        const bool array = c == '(' && at_ > begin && text_[at_ - 1] == '=' &&
                           IsNameStart(text_[begin]) && !in_array_;
        if (!array) break;
        word.fixed = false;
        in_array_ = true;
        LAUNCH_RETURN_IF_ERROR(ReadArray(word));
        in_array_ = false;
        continue;
      }
      if (c == '<' || c == '>') {
        if (Peek(1) != '(' || at_ > begin) break;
        word.fixed = false;  // process substitution
        ++at_;
        LAUNCH_RETURN_IF_ERROR(SkipBracket('(', ')'));
        continue;
      }
      LAUNCH_RETURN_IF_ERROR(WordPart(word));
    }
    word.raw = Unfolded(begin);
    return word;
  }

  // The raw text since `begin` without "\<newline>", which bash removes everywhere but in '...'.
  std::string Unfolded(std::size_t begin) const {
    std::string raw;
    bool single = false;
    bool twice = false;
    bool escaped = false;  // in $'...'
    for (std::size_t i = begin; i < at_ && i < text_.size(); ++i) {
      if (escaped && text_[i] == '\\' && i + 1 < text_.size()) {
        raw += text_[i++];
        raw += text_[i];
        continue;
      }
      if (text_[i] == '\'' && !twice) {
        single = !single;
        escaped = single && i > begin && text_[i - 1] == '$';
      }
      if (text_[i] == '"' && !single) twice = !twice;
      if (!single && text_[i] == '\\' && i + 1 < text_.size()) {
        if (text_[i + 1] == '\n') {
          ++i;
          continue;
        }
        raw += text_[i++];
      }
      raw += text_[i];
    }
    return raw;
  }

  Result<void> WordPart(ShellWord& word) {
    const char c = Peek();
    if (c == '\\') {
      if (Peek(1) != '\n' && at_ + 1 < text_.size()) word.value += Peek(1);
      at_ = std::min(at_ + 2, text_.size());
      return {};
    }
    if (c == '\'') return SingleQuoted(word);
    if (c == '"') return DoubleQuoted(word);
    if (c == '$' && Peek(1) == '\'') return EscapedQuoted(word);
    if (c == '$' && Peek(1) == '"') {  // to be translated: in the C locale as it is
      ++at_;
      return DoubleQuoted(word);
    }
    if (c == '$' || c == '`') return Expansion(word);
    if (c == '*' || c == '?' || c == '[' || c == '{' || (c == '~' && word.value.empty())) {
      word.fixed = false;
    }
    word.value += c;
    ++at_;
    return {};
  }

  Result<void> SingleQuoted(ShellWord& word) {
    const std::size_t open = at_++;
    const std::size_t close = text_.find('\'', at_);
    if (close == std::string_view::npos) return Open(open, "the quote '");
    word.value += text_.substr(at_, close - at_);
    at_ = close + 1;
    return {};
  }

  // $'it\'s\t', at the dollar: what escapes stand for. Those of other characters than bytes make
  // the word one that is not known.
  Result<void> EscapedQuoted(ShellWord& word) {
    const std::size_t open = ++at_;
    ++at_;
    while (!AtEnd() && Peek() != '\'') {
      if (Peek() != '\\' || at_ + 1 >= text_.size()) {
        word.value += text_[at_++];
        continue;
      }
      const char c = Peek(1);
      at_ += 2;
      constexpr std::string_view kLetters = "abeEfnrtv\\'\"?";
      constexpr std::string_view kMeanings = "\a\b\x1b\x1b\f\n\r\t\v\\'\"?";
      if (const std::size_t at = kLetters.find(c); at != std::string_view::npos) {
        word.value += kMeanings[at];
      } else if ((c >= '0' && c <= '7') || c == 'x') {
        if (c != 'x') --at_;
        word.value += NumberedByte(c == 'x' ? 16 : 8, c == 'x' ? 2 : 3);
      } else {
        word.fixed = false;  // \uHHHH, \cX
        word.value += '\\';
        word.value += c;
      }
    }
    if (AtEnd()) return Open(open, "the quote '");
    ++at_;
    return {};
  }

  char NumberedByte(int base, int most) {
    int number = 0;
    for (; most > 0 && !AtEnd(); --most, ++at_) {
      const char c = Peek();
      const int digit = IsDigit(c)             ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : base;
      if (digit >= base) break;
      number = number * base + digit;
    }
    return static_cast<char>(number & 0xff);
  }

  Result<void> DoubleQuoted(ShellWord& word) {
    const std::size_t open = at_++;
    while (!AtEnd() && Peek() != '"') {
      const char c = Peek();
      if (c == '\\' && at_ + 1 < text_.size()) {
        if (Peek(1) != '\n') {
          if (std::string_view("$`\"\\").find(Peek(1)) == std::string_view::npos) word.value += c;
          word.value += Peek(1);
        }
        at_ += 2;
      } else if (c == '$' || c == '`') {
        LAUNCH_RETURN_IF_ERROR(Expansion(word));
      } else {
        word.value += c;
        ++at_;
      }
    }
    if (AtEnd()) return Open(open, "the quote \"");
    ++at_;
    return {};
  }

  // $X, ${...}, $(...), $((...)), `...`: skipped as a whole, kept in the value as written.
  Result<void> Expansion(ShellWord& word) {
    const std::size_t begin = at_;
    if (Peek() == '`') {
      ++at_;
      while (!AtEnd() && Peek() != '`') at_ += Peek() == '\\' ? 2 : 1;
      if (AtEnd()) return Open(begin, "the backtick");
      ++at_;
    } else if (Peek(1) == '(') {
      ++at_;
      LAUNCH_RETURN_IF_ERROR(SkipBracket('(', ')'));
    } else if (Peek(1) == '{') {
      ++at_;
      LAUNCH_RETURN_IF_ERROR(SkipBracket('{', '}'));
    } else {
      ++at_;
      if (IsNameStart(Peek())) {
        while (IsNameChar(Peek())) ++at_;
      } else if (IsDigit(Peek()) ||
                 std::string_view("@*#?-$!").find(Peek()) != std::string_view::npos) {
        if (!AtEnd()) ++at_;
      } else {
        word.value += '$';  // a lone dollar is itself
        return {};
      }
    }
    word.fixed = false;
    word.value += text_.substr(begin, at_ - begin);
    return {};
  }

  // At the opening bracket; ends behind the matching one.
  Result<void> SkipBracket(char opening, char closing) {
    const std::size_t open = at_;
    if (depth_ >= kMaxShellDepth) {
      return Fail(ErrorCode::kInvalidArgument, "run: brackets are nested deeper than 64",
                  "put the script into a file");
    }
    ++depth_;
    ShellWord ignored;
    std::vector<HereDocument> inner;  // of the commands in $( ... )
    const bool arithmetic = opening != '(' || Peek(1) == '(';
    int depth = 0;
    do {
      if (AtEnd()) return Open(open, std::string("the bracket ") + opening);
      const char c = Peek();
      if (c == '\\') {
        at_ += 2;
      } else if (c == '$' && Peek(1) == '\'' && opening == '(') {
        LAUNCH_RETURN_IF_ERROR(EscapedQuoted(ignored));
      } else if (c == '\'' && opening == '(') {
        LAUNCH_RETURN_IF_ERROR(SingleQuoted(ignored));
      } else if (!arithmetic && Looking("<<") && Peek(2) != '<') {
        LAUNCH_RETURN_IF_ERROR(NoteInnerDocument(inner));
      } else if (c == '\n' && !inner.empty()) {
        ++at_;
        for (const HereDocument& document : inner) (void)TakeDocument(document);
        inner.clear();
      } else if (c == '"') {
        LAUNCH_RETURN_IF_ERROR(DoubleQuoted(ignored));
      } else if (c == '`' || (c == '$' && (Peek(1) == '(' || Peek(1) == '{'))) {
        LAUNCH_RETURN_IF_ERROR(Expansion(ignored));
      } else {
        depth += c == opening ? 1 : c == closing ? -1 : 0;
        ++at_;
      }
    } while (depth > 0);
    --depth_;
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  ShellScript script_;
  ShellCommand command_;
  std::vector<HereDocument> here_documents_;
  bool in_array_ = false;
  std::size_t tried_ = 0;    // bytes looked at for arithmetic that was none
  std::size_t counted_ = 0;  // line_ and column_ are those of this position
  int line_ = 1;
  int column_ = 1;
  int depth_ = 0;
  int subshell_ = 0;
};

void CollectUses(std::string_view raw, std::vector<ShellUse>& uses) {
  bool single = false;
  bool twice = false;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const char c = raw[i];
    if (c == '\\' && !single) {
      ++i;
      continue;
    }
    if (c == '$' && !single && !twice && i + 1 < raw.size() && raw[i + 1] == '\'') {
      for (i += 2; i < raw.size() && raw[i] != '\''; ++i) i += raw[i] == '\\' ? 1 : 0;
      continue;
    }
    if (c == '\'' && !twice) single = !single;
    if (c == '"' && !single) twice = !twice;
    if (c != '$' || single || i + 1 >= raw.size()) continue;
    std::size_t at = i + 1;
    const bool braced = raw[at] == '{';
    if (braced) ++at;
    if (braced && at < raw.size() && (raw[at] == '#' || raw[at] == '!')) ++at;
    std::size_t end = at;
    while (end < raw.size() && (end == at ? IsNameStart(raw[end]) : IsNameChar(raw[end]))) ++end;
    if (end == at) continue;
    ShellUse use{std::string(raw.substr(at, end - at)), false};
    if (braced && end < raw.size()) {
      const char next = raw[end] == ':' && end + 1 < raw.size() ? raw[end + 1] : raw[end];
      use.guarded = std::string_view("-+=?").find(next) != std::string_view::npos;
    }
    uses.push_back(std::move(use));
  }
}

}  // namespace

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool IsNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

Result<ShellScript> ReadShell(std::string_view text) { return ShellReader(text).Read(); }

std::optional<ShellAssignment> AssignmentOf(const ShellWord& word) {
  if (word.raw.empty() || !IsNameStart(word.raw[0])) return std::nullopt;
  std::size_t end = 0;
  while (end < word.raw.size() && IsNameChar(word.raw[end])) ++end;
  if (end >= word.raw.size() || word.raw[end] != '=') return std::nullopt;
  ShellAssignment assignment{word.raw.substr(0, end), word};
  assignment.value.raw = word.raw.substr(end + 1);
  assignment.value.value = word.value.substr(std::min(end + 1, word.value.size()));
  return assignment;
}

std::vector<ShellUse> VariablesUsed(const ShellScript& script) {
  std::vector<ShellUse> uses;
  for (const ShellCommand& command : script.commands) {
    for (const ShellWord& word : command.words) CollectUses(word.raw, uses);
    for (const ShellRedirect& redirect : command.redirects) CollectUses(redirect.target, uses);
  }
  return uses;
}

bool UsesArgZero(const ShellScript& script) {
  const auto uses = [](const ShellWord& word) {
    return word.raw.find("$0") != std::string::npos || word.raw.find("${0") != std::string::npos;
  };
  return std::any_of(script.commands.begin(), script.commands.end(), [&](const ShellCommand& one) {
    return std::any_of(one.words.begin(), one.words.end(), uses);
  });
}

}  // namespace launch
