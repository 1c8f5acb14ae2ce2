// job.yaml, a training line and overrides to a JobSpec; every refusal names file, line and field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/job.h"

namespace launch {

struct ReadJob {
  JobSpec spec;
  std::vector<std::string> notices;  // aliases that were read, sizes that were guessed
  std::string source;                // text of the file, or of the line
};

// A value that replaces the file's: of a flag ("--nodes"), of `-e K=V` (field "env") or of
// `key=value`.
struct JobOverride {
  std::string field;  // canonical name or alias
  std::string value;  // YAML text of the value
  std::string flag;   // how the user wrote it, for errors
};

// "Train 8B" -> "train-8b": what a file may be called is more than what a job may be called.
std::string NameFrom(std::string_view text);

// Splits "key=value"; the key must be a field.
Result<JobOverride> ParseOverride(std::string_view text);

// Reads the job file `path`, as the user wrote it. Relative paths in it are taken from the file's
// directory, those of overrides from `cwd` (absolute).
Result<ReadJob> ReadJobFile(const std::string& path, const std::vector<JobOverride>& overrides,
                            const std::string& cwd);
// The same for a text; `base_dir` absolute.
Result<ReadJob> ReadJobText(std::string_view text, const std::string& file,
                            const std::string& base_dir,
                            const std::vector<JobOverride>& overrides = {},
                            const std::string& cwd = "/");
// `launch submit -- torchrun train.py`: the words become `run`, `cwd` the workdir.
Result<ReadJob> ReadJobLine(const std::vector<std::string>& words,
                            const std::vector<JobOverride>& overrides, const std::string& cwd);

}  // namespace launch
