#include "common/constraint.h"
