#include "preflight/preflight.h"
