// The machine that `launch` runs on, in the place of one that ssh reaches.
#pragma once

#include <memory>

#include "cli/up/remote.h"

namespace launch::up {

std::unique_ptr<Remote> ThisMachine();

}  // namespace launch::up
