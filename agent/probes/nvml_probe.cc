#include "agent/probes/gpu_probe.h"
