#include "controller/core/effect.h"
