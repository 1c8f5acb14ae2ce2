// One screen of `launch top`: the GPUs and jobs of a cluster.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/render_text.h"

namespace launch {

struct TopFacts {
  std::vector<NodeView> nodes;
  std::vector<JobView> jobs;           // not done
  std::map<GpuUuid, JobId> gpu_users;  // as far as known
  std::string cluster;                 // its name; may be empty
  std::string trouble;                 // why the facts are old; empty: they are not
};

// The lines of a screen, without line ends: a head, the GPUs, the jobs, running ones first.
std::vector<std::string> TopLines(const TopFacts& facts, const Screen& screen);

// What fits on `rows` lines of a terminal, `from` lines down; the head stays. `from` is kept within
// what there is.
std::vector<std::string> Window(const std::vector<std::string>& lines, std::size_t rows,
                                std::size_t& from);

}  // namespace launch
