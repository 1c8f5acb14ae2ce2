// Answers for people: tables with Slurm's columns, a job in full, a plan, findings.
#pragma once

#include <string>
#include <vector>

#include "cli/table.h"
#include "common/view.h"
#include "preflight/preflight.h"

namespace launch {

// How the reader looks at it. A pipe has neither width nor colour.
struct Screen {
  int width = 0;  // 0 = unlimited
  bool colour = false;
  bool wide = false;    // -o wide: more columns
  bool expand = false;  // --expand: every host by its name
  WallTime now{};       // for TIME
};

Table JobsTable(const std::vector<JobView>& jobs, const Screen& screen);
Table NodesTable(const std::vector<NodeView>& nodes, const Screen& screen);
std::string JobText(const JobView& job, const Screen& screen);
std::string PlanText(const PlanAnswer& answer, const Screen& screen);
std::string FindingsText(const std::vector<Finding>& findings, const Screen& screen);
// A shell script of what to do against warnings and errors.
std::string FixScript(const PreflightReport& report);
std::string CheckText(const PreflightReport& report, const Screen& screen);
// "120/500"; "-": the job has said no step.
std::string StepText(const JobView& job);
std::string EventText(const EventView& event, const Screen& screen);

// "zero2, bf16, 4 processes = 2 nodes x 2, batch 64 = 8 x 4 x 2": what submit says was decided.
std::string PlanSummary(const Plan& plan);

}  // namespace launch
