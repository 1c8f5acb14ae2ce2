#include "agent/core/seams.h"
