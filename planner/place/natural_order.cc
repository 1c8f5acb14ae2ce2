#include "planner/place/natural_order.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "common/text.h"

namespace launch {
namespace {

std::string_view DigitsAt(const std::string& text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && IsDigit(text[end])) ++end;
  return std::string_view(text).substr(at, end - at);
}

std::string_view WithoutZeros(std::string_view digits) {
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? digits.substr(digits.size() - 1) : digits.substr(first);
}

}  // namespace

bool NaturalLess(const std::string& a, const std::string& b) {
  std::size_t i = 0;
  std::size_t k = 0;
  while (i < a.size() && k < b.size()) {
    if (IsDigit(a[i]) && IsDigit(b[k])) {
      const std::string_view left = DigitsAt(a, i);
      const std::string_view right = DigitsAt(b, k);
      const std::string_view x = WithoutZeros(left);
      const std::string_view y = WithoutZeros(right);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      i += left.size();
      k += right.size();
    } else {
      if (a[i] != b[k]) return a[i] < b[k];
      ++i;
      ++k;
    }
  }
  if (i != a.size() || k != b.size()) return i == a.size() && k != b.size();
  return a < b;  // "01" and "1" still have an order
}

}  // namespace launch
