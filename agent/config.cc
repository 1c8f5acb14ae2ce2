#include "agent/config.h"
