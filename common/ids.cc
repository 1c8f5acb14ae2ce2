#include "common/ids.h"
