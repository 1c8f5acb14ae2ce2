// A job on GPUs of several classes: what it costs to keep the weakest, and to leave it out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/plan.h"
#include "planner/place/ranks.h"

namespace launch {

// The GPUs of one class among those of a job.
struct ClassShare {
  GpuDevice gpu;
  int count = 0;
  int most_per_node = 0;
};

std::string ClassOf(const GpuDevice& gpu);  // "A100-40GB", or the driver's name
// The job's GPUs by class; one entry for a job that is not mixed.
std::map<std::string, ClassShare> SharesOf(const RankLayout& layout);

// The notice mixed_gpus: whose precision, memory and pace the plan has. By data sheet, for jobs
// whose steps no formula knows: one row for each class alone, with the work that it does in the
// time of all together. Empty for a job of one class.
std::vector<Finding> MixedGpus(const RankLayout& layout, const Plan& plan);
std::vector<Change> EachClassAlone(const RankLayout& layout, const Plan& plan,
                                   bool precision_is_open);

}  // namespace launch
