// How many descriptors this process may have open.
#pragma once

namespace launch {

// Raises the soft limit to the hard one, 2^20 at most, and lowers none. Shells and containers start
// programs with a soft limit of 1024, for the sake of select(2), which we do not use. What the
// kernel refuses stays as it is.
void RaiseDescriptorLimit();

}  // namespace launch
