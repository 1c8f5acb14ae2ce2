#include "controller/core/record.h"
