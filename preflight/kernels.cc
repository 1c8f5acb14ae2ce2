#include "preflight/kernels.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "common/units.h"

namespace launch {
namespace {

struct ArchEntry {
  ComputeCapability cc;
  bool ptx = false;
  char suffix = ' ';  // 'a': this capability only; 'f': this family only
};

std::optional<ArchEntry> ReadEntry(std::string_view text) {
  ArchEntry entry;
  if (text.starts_with("sm_")) {
    text.remove_prefix(3);
  } else if (text.starts_with("compute_")) {
    text.remove_prefix(8);
    entry.ptx = true;
  } else {
    return std::nullopt;  // another vendor's
  }
  if (!text.empty() && (text.back() == 'a' || text.back() == 'f')) {
    entry.suffix = text.back();
    text.remove_suffix(1);
  }
  const auto number = ParseInt(text);
  if (!number || *number < 10 || *number > 9999) return std::nullopt;
  entry.cc = {static_cast<int>(*number / 10), static_cast<int>(*number % 10)};
  return entry;
}

bool RunsOn(const ArchEntry& entry, ComputeCapability cc) {
  if (entry.suffix == 'a') return entry.cc == cc;
  const bool same_family = entry.cc.major == cc.major && entry.cc.minor <= cc.minor;
  if (entry.suffix == 'f') return same_family;
  return entry.ptx ? entry.cc <= cc : same_family;
}

}  // namespace

Kernels KernelsFor(const std::vector<std::string>& arch_list, ComputeCapability cc) {
  bool known = false;
  bool compiled = false;
  for (const std::string& text : arch_list) {
    const auto entry = ReadEntry(text);
    if (!entry) continue;
    known = true;
    if (!RunsOn(*entry, cc)) continue;
    if (!entry->ptx) return Kernels::kNative;
    compiled = true;
  }
  if (!known) return Kernels::kUnknown;
  return compiled ? Kernels::kCompiled : Kernels::kNone;
}

std::string ArchName(ComputeCapability cc) {
  return "sm_" + std::to_string(cc.major) + std::to_string(cc.minor);
}

}  // namespace launch
