#include "common/plan.h"

#include "common/enum_text.h"

namespace launch {
namespace {

constexpr EnumText<Basis, 4> kBasis{{{Basis::kNone, "none"},
                                     {Basis::kCold, "cold"},
                                     {Basis::kProbed, "probed"},
                                     {Basis::kMeasured, "measured"}}};

}  // namespace

std::string_view ToString(Basis v) { return kBasis.Print(v); }

}  // namespace launch
