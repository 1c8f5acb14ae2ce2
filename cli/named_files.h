// The configuration files a job names, read where the user submits: the planner reads their text.
#pragma once

#include <map>
#include <string>

#include "common/error.h"
#include "common/job.h"

namespace launch {

// Text by path as written, relative paths from the workdir: `model.config` (a config.json, or a
// directory that holds one), and the files behind --deepspeed, --deepspeed_config, --ds_config,
// --config_file and --fsdp_config in `run`, shell scripts that it runs, and the Python programs of
// all of these. A file of `run` that is not here is left out: it may exist on the nodes only.
// kInvalidArgument when model.config cannot be read or is too large.
Result<std::map<std::string, std::string>> ReadNamedFiles(const JobSpec& spec);

}  // namespace launch
