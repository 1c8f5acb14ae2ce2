// Verdicts after the run; diagnosis/ is a later issue, its values live in common/diagnosis.h.
#include "common/diagnosis.h"
