#include "common/inventory_yaml.h"
