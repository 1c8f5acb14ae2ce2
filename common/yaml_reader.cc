#include "common/yaml_reader.h"
