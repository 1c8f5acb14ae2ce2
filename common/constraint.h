// Constraint expressions over a node: "cc>=8.0 && driver>=550 && (nvlink || label.zone==a)".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/inventory.h"

namespace launch {

// The expression of `constraints:` in a job file. Parsed once, evaluated often. Variables: cc,
// gpu_mem, gpus, driver, cuda, torch, arch, cpus, memory, nvlink, kernel, label.NAME. Versions
// compare by parts, sizes with units. At most 4 KiB, 64 terms, depth 16. Errors name the column and
// the nearest variable. Versions are compared by the parts that are written: "driver==570" holds
// for 570.124.06. cc, gpu_mem and nvlink are those of one GPU: a node holds when one of its GPUs
// makes all of it true.
class Constraint {
 public:
  static Result<Constraint> Parse(std::string_view text);

  // True when the node satisfies the expression. `failed` (may be null) gets the first term that
  // does not hold with the node's value: "gpu_mem>=6GB (has 4.0GiB)".
  bool Holds(const NodeInventory& node, std::string* failed) const;

  // The same for one GPU of the node: which of them a job may get.
  bool HoldsFor(const NodeInventory& node, const GpuDevice& gpu, std::string* failed) const;

  Constraint(Constraint&&) noexcept;
  Constraint& operator=(Constraint&&) noexcept;
  ~Constraint();

 private:
  friend class ConstraintParser;
  struct Node;
  explicit Constraint(std::unique_ptr<Node> root);
  std::unique_ptr<Node> root_;
};

}  // namespace launch
