#include "common/hostlist.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "common/units.h"

namespace launch {
namespace {

struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;  // of zero-padded numbers
};

// One comma-separated element: literal pieces with bracketed ranges between them.
struct Element {
  std::vector<std::string> literals;  // one more than ranges
  std::vector<std::vector<Range>> brackets;
};

Unexpected Bad(std::string_view text, std::size_t column, const std::string& why) {
  return Fail(
      ErrorCode::kInvalidArgument,
      "host list '" + std::string(text) + "', column " + std::to_string(column + 1) + ": " + why,
      "write names like gpu[01-16,20],login1");
}

Result<Range> ParseRange(std::string_view text, std::string_view piece, std::size_t column) {
  const auto dash = piece.find('-');
  const auto first_text = piece.substr(0, dash);
  const auto last_text = dash == std::string_view::npos ? first_text : piece.substr(dash + 1);
  const auto digits = [](std::string_view s) {
    return !s.empty() && s.size() <= 12 &&
           std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (!digits(first_text) || !digits(last_text))
    return Bad(text, column, "expected numbers like 01-16");
  Range range;
  range.first = static_cast<std::uint64_t>(*ParseInt(first_text));
  range.last = static_cast<std::uint64_t>(*ParseInt(last_text));
  range.width = first_text.size() > 1 && first_text[0] == '0' ? first_text.size() : 0;
  if (range.width > 0 && last_text.size() != first_text.size()) {
    return Bad(text, column, "padded numbers must have the same width");
  }
  if (range.last < range.first) return Bad(text, column, "the range runs backwards");
  return range;
}

Result<std::vector<Element>> Parse(std::string_view text) {
  std::vector<Element> elements;
  Element current;
  std::string literal;
  const auto finish = [&]() {
    current.literals.push_back(std::exchange(literal, {}));
    elements.push_back(std::exchange(current, {}));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ',') {
      if (literal.empty() && current.brackets.empty()) return Bad(text, i, "an empty name");
      finish();
    } else if (c == '[') {
      const auto close = text.find(']', i);
      if (close == std::string_view::npos) return Bad(text, i, "'[' is never closed");
      std::vector<Range> ranges;
      std::size_t at = i + 1;
      while (at <= close) {
        const auto end = std::min(text.find(',', at), close);
        LAUNCH_ASSIGN_OR_RETURN(const Range range, ParseRange(text, text.substr(at, end - at), at));
        ranges.push_back(range);
        at = end + 1;
      }
      current.literals.push_back(std::exchange(literal, {}));
      current.brackets.push_back(std::move(ranges));
      if (current.brackets.size() > 4) return Bad(text, i, "more than four brackets in a name");
      i = close;
    } else if (c == ']') {
      return Bad(text, i, "']' without '['");
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '-' || c == '_') {
      literal += c;
    } else {
      return Bad(text, i, std::string("'") + c + "' cannot stand in a host name");
    }
  }
  if (literal.empty() && current.brackets.empty()) return Bad(text, text.size(), "an empty name");
  finish();
  return elements;
}

std::string Number(std::uint64_t value, std::size_t width) {
  std::string text = std::to_string(value);
  if (text.size() < width) text.insert(0, width - text.size(), '0');
  return text;
}

void Expand(const Element& element, std::size_t bracket, const std::string& prefix,
            std::vector<std::string>& names) {
  const std::string so_far = prefix + element.literals[bracket];
  if (bracket == element.brackets.size()) {
    names.push_back(so_far);
    return;
  }
  for (const Range& range : element.brackets[bracket]) {
    for (std::uint64_t n = range.first; n <= range.last; ++n) {
      Expand(element, bracket + 1, so_far + Number(n, range.width), names);
    }
  }
}

}  // namespace

Result<std::vector<std::string>> ExpandHostlist(std::string_view text, std::size_t max_hosts) {
  if (text.size() > 64 * 1024) return Bad(text.substr(0, 40), 0, "longer than 64 KiB");
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<Element> elements, Parse(text));
  std::uint64_t total = 0;
  for (const Element& element : elements) {
    std::uint64_t count = 1;
    for (const auto& ranges : element.brackets) {
      std::uint64_t here = 0;
      for (const Range& range : ranges)
        here += std::min<std::uint64_t>(range.last - range.first + 1, max_hosts + 1);
      count = std::min<std::uint64_t>(count * here, max_hosts + 1);
    }
    total += count;
    if (total > max_hosts) {
      return Bad(text.substr(0, 80), 0, "more than " + std::to_string(max_hosts) + " hosts");
    }
  }
  std::vector<std::string> names;
  names.reserve(total);
  for (const Element& element : elements) Expand(element, 0, "", names);
  return names;
}

std::string FoldHostlist(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());

  // Names with the same text before their last number, the same text after it and the same padding
  // fold.
  struct Stem {
    std::string before;
    std::string after;
    std::size_t width = 0;
    auto operator<=>(const Stem&) const = default;
  };
  std::map<Stem, std::set<std::uint64_t>> numbered;
  std::vector<std::string> plain;
  for (const std::string& name : names) {
    std::size_t end = name.size();
    while (end > 0 && !(name[end - 1] >= '0' && name[end - 1] <= '9')) --end;
    std::size_t begin = end;
    while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
    if (begin == end || end - begin > 12) {
      plain.push_back(name);
      continue;
    }
    const std::string digits = name.substr(begin, end - begin);
    const bool padded = digits.size() > 1 && digits[0] == '0';
    Stem stem{name.substr(0, begin), name.substr(end), digits.size()};
    if (!padded) {
      // "gpu10" belongs to the padded family gpu01..gpu99 when one is there, else it has no width.
      const bool family = std::any_of(names.begin(), names.end(), [&](const std::string& other) {
        return other.size() == name.size() && other.compare(0, begin, stem.before) == 0 &&
               other[begin] == '0' && other.compare(end, std::string::npos, stem.after) == 0 &&
               digits.size() > 1;
      });
      if (!family) stem.width = 0;
    }
    numbered[stem].insert(static_cast<std::uint64_t>(*ParseInt(digits)));
  }
  std::vector<std::string> parts = plain;
  for (const auto& [stem, numbers] : numbered) {
    std::string ranges;
    for (auto it = numbers.begin(); it != numbers.end();) {
      const std::uint64_t first = *it;
      std::uint64_t last = first;
      while (++it != numbers.end() && *it == last + 1) last = *it;
      if (!ranges.empty()) ranges += ",";
      ranges += Number(first, stem.width);
      if (last != first) ranges += "-" + Number(last, stem.width);
    }
    parts.push_back(numbers.size() == 1 ? stem.before + ranges + stem.after
                                        : stem.before + "[" + ranges + "]" + stem.after);
  }
  std::sort(parts.begin(), parts.end());
  std::string folded;
  for (const std::string& part : parts) folded += (folded.empty() ? "" : ",") + part;
  return folded;
}

}  // namespace launch
