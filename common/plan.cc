#include "common/plan.h"

#include "common/enum_text.h"

namespace launch {
namespace {

constexpr EnumText<Basis, 4> kBasis{{{Basis::kNone, "none"},
                                     {Basis::kCold, "cold"},
                                     {Basis::kProbed, "probed"},
                                     {Basis::kMeasured, "measured"}}};

}  // namespace

LAUNCH_ENUM_TEXT(Basis, ParseBasis, kBasis)

}  // namespace launch
