#include "common/gpu_catalog.h"
