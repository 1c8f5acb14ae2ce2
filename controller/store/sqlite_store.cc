#include "controller/store/store.h"
