#include "common/view.h"
