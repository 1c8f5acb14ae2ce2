#include "common/diagnosis.h"
