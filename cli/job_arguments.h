// The job a verb works on: a file or a training line, and how the user changed it by flags.
#pragma once

#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/job_reader.h"
#include "cli/submit_context.h"

namespace launch {

struct JobArguments {
  std::string file;
  std::vector<std::string> env;
  std::vector<std::string> values;  // of the flags that stand for one field each

  // Adds the flags of the job's fields, without the file.
  void AddFlags(CLI::App& verb);
  // Adds the file and the flags.
  void AddTo(CLI::App& verb);
  Result<ReadJob> Read(const App& app, const std::string& cwd) const;
};

struct PreparedJob {
  ReadJob job;
  SubmitterFacts facts;
};

// Reads the job and what this machine adds to it; notices go to stderr.
Result<PreparedJob> PrepareJob(const App& app, const JobArguments& arguments);

// Exit code of a verb with these findings: 4 when one is an error, else 0.
int CodeOfFindings(const std::vector<Finding>& findings);

}  // namespace launch
