#include "common/launch.h"
