#include "agent/runner/rank_runner.h"
