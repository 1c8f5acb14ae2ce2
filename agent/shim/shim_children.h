// Finds and signals the children of this process without allocating.
#pragma once

namespace launch::shim {

// To each direct child. As a sub-reaper's orphans become direct children, repeating it after every
// end reaches all descendants.
void SignalChildren(int signal);

}  // namespace launch::shim
