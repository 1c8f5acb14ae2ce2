#include "common/job.h"
