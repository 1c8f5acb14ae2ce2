#include "common/pki.h"
