// Constraint expressions over a node: "cc>=8.0 && driver>=550 && (nvlink || label.zone==a)".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/inventory.h"

namespace launch {

// Parsed once, evaluated often. Variables: cc, gpu_mem, gpus, driver, cuda, torch, arch, cpus,
// memory, nvlink, kernel, label.NAME (rulings 15). Versions compare by parts, sizes with units.
// At most 4 KiB, 64 terms, depth 16. Errors name the column and the nearest variable.
class Constraint {
 public:
  static Result<Constraint> Parse(std::string_view text);

  // True when the node satisfies it. `failed` (may be null) gets the first term that does not hold
  // with the node's value: "gpu_mem>=6GB (has 4.0GiB)".
  bool Holds(const NodeInventory& node, std::string* failed) const;

  Constraint(Constraint&&) noexcept;
  Constraint& operator=(Constraint&&) noexcept;
  ~Constraint();

 private:
  struct Node;
  explicit Constraint(std::unique_ptr<Node> root);
  std::unique_ptr<Node> root_;
};

}  // namespace launch
