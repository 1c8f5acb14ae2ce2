#include "common/inventory.h"
