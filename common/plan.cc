#include "common/plan.h"
