#include "planner/start/expansion.h"

#include <utility>

#include "planner/line/shell_text.h"

namespace launch {
namespace {

constexpr int kMaxExpansionDepth = 8;
constexpr std::size_t kMaxBytes = 128 * 1024;  // what Linux takes as one string of an environment

bool BelongsToName(char c, bool first) { return first ? IsNameStart(c) : IsNameChar(c); }

std::size_t NameEnd(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && BelongsToName(text[end], end == at)) ++end;
  return end;
}

class Expander {
 public:
  Expander(std::string_view key, const std::map<std::string, std::string>& variables)
      : key_(key), variables_(variables) {}

  Result<std::string> Expand(std::string_view text, int depth) const {
    if (depth > kMaxExpansionDepth) return Bad("is nested too deeply", "use plain $NAME");
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      if (out.size() > kMaxBytes) return Bad("grows over 128 KiB", "write a shorter value");
      const bool escaped = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '$';
      if (escaped) {
        out += '$';
        i += 2;
      } else if (text[i] != '$' || i + 1 >= text.size()) {
        out += text[i++];
      } else if (text[i + 1] == '{') {
        const std::size_t close = Closing(text, i + 1);
        if (close == std::string_view::npos) return Bad("has a ${ that is never closed", "add }");
        LAUNCH_ASSIGN_OR_RETURN(std::string value,
                                Braced(text.substr(i + 2, close - i - 2), depth));
        out += value;
        i = close + 1;
      } else if (IsNameStart(text[i + 1])) {
        const std::size_t end = NameEnd(text, i + 1);
        LAUNCH_ASSIGN_OR_RETURN(std::string value, Value(text.substr(i + 1, end - i - 1)));
        out += value;
        i = end;
      } else {
        out += text[i++];
      }
    }
    if (out.size() > kMaxBytes) return Bad("grows over 128 KiB", "write a shorter value");
    return out;
  }

 private:
  Unexpected Bad(std::string what, std::string hint) const {
    return Fail(ErrorCode::kInvalidArgument, key_ + " " + std::move(what), std::move(hint));
  }

  static std::size_t Closing(std::string_view text, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
      if (text[i] == '{') ++depth;
      if (text[i] == '}' && --depth == 0) return i;
    }
    return std::string_view::npos;
  }

  Result<std::string> Value(std::string_view name) const {
    const auto found = variables_.find(std::string(name));
    if (found != variables_.end()) return found->second;
    const std::string shown(name);
    if (shown.rfind("LAUNCH_", 0) == 0) {
      return Bad("uses $" + shown + ", which is set only when a rank starts",
                 "use it in run:, or write the value");
    }
    return Bad("uses $" + shown + ", which is not set on the node",
               "set " + shown + " above it in env:, or write ${" + shown + ":-VALUE}");
  }

  Result<std::string> Braced(std::string_view inner, int depth) const {
    const std::size_t end = NameEnd(inner, 0);
    const std::string name(inner.substr(0, end));
    std::string_view rest = inner.substr(end);
    if (name.empty()) return Bad("has ${" + std::string(inner) + "}", "write ${NAME}");
    if (rest.empty()) return Value(name);
    const bool colon = rest[0] == ':';
    if (colon) rest.remove_prefix(1);
    if (rest.empty() || (rest[0] != '-' && rest[0] != '+')) {
      return Bad("has ${" + std::string(inner) + "}",
                 "only ${NAME}, ${NAME:-otherwise} and ${NAME:+when set} are read here");
    }
    const auto found = variables_.find(name);
    const bool set = found != variables_.end() && !(colon && found->second.empty());
    if (rest[0] == '-') {
      return set ? Result<std::string>(found->second) : Expand(rest.substr(1), depth + 1);
    }
    return set ? Expand(rest.substr(1), depth + 1) : Result<std::string>(std::string());
  }

  std::string key_;
  const std::map<std::string, std::string>& variables_;
};

}  // namespace

Result<std::string> ExpandVariables(std::string_view text, std::string_view key,
                                    const std::map<std::string, std::string>& variables) {
  return Expander(key, variables).Expand(text, 0);
}

}  // namespace launch
