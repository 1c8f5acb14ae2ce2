#include "common/hostlist.h"
