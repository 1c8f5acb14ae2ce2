#include "planner/model/batch.h"

#include <algorithm>
#include <optional>

namespace launch {
namespace {

constexpr std::int64_t kMaxBatch = std::int64_t{1} << 40;  // far above any real one: no overflow

Unexpected Conflict(std::string message, std::string hint) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

std::string N(std::int64_t number) { return std::to_string(number); }

// "batch.global: 64 or 96": the multiples of `unit` around `wanted`.
std::string NearestMultiples(std::int64_t wanted, std::int64_t unit) {
  const std::int64_t below = wanted / unit * unit;
  if (below == 0) return N(unit);
  return N(below) + " or " + N(below + unit);
}

// Divisors of `whole` nearest to `wanted`, below and above.
std::string NearestDivisors(std::int64_t whole, std::int64_t wanted) {
  std::int64_t below = 1;
  std::optional<std::int64_t> above;
  for (std::int64_t d = 1; d * d <= whole; ++d) {
    if (whole % d != 0) continue;
    for (std::int64_t divisor : {d, whole / d}) {
      if (divisor <= wanted) below = std::max(below, divisor);
      if (divisor > wanted) above = std::min(above.value_or(divisor), divisor);
    }
  }
  return above ? N(below) + " or " + N(*above) : N(below);
}

// Samples of one step; all three are at least 1.
Result<std::int64_t> Product(std::int64_t micro, std::int64_t accumulate, std::int64_t world) {
  if (micro > kMaxBatch / accumulate / world) {
    return Conflict("batch.micro x batch.accumulate x processes is too large to be meant",
                    "write smaller numbers");
  }
  return micro * accumulate * world;
}

// global / world is to be cut in parts of `part`; the other factor is returned.
Result<std::int64_t> OtherFactor(std::int64_t global, std::int64_t part, std::int64_t world,
                                 const std::string& name, const std::string& part_name) {
  LAUNCH_ASSIGN_OR_RETURN(const std::int64_t unit, Product(part, 1, world));
  if (global % unit == 0) return global / unit;
  std::string hint = "write " + name + ": " + NearestMultiples(global, unit);
  if (global % world == 0) {
    hint += ", or " + part_name + ": " + NearestDivisors(global / world, part);
  }
  return Conflict(name + " " + N(global) + " is not " + part_name + " " + N(part) + " x " +
                      N(world) + (world == 1 ? " process" : " processes") + " x a whole number",
                  std::move(hint));
}

// What no number of processes can mend.
Result<void> CheckNumbers(const BatchSpec& batch) {
  const std::pair<const char*, std::optional<std::int64_t>> fields[] = {
      {"global", batch.global}, {"micro", batch.micro}, {"accumulate", batch.accumulate}};
  for (const auto& [name, value] : fields) {
    if (value && (*value < 1 || *value > kMaxBatch)) {
      return Conflict("batch." + std::string(name) + " is " + N(*value),
                      "write a whole number from 1");
    }
  }
  if (batch.global && batch.micro && *batch.micro > *batch.global) {
    return Conflict(
        "batch.micro " + N(*batch.micro) + " is more than batch.global " + N(*batch.global),
        "global counts the samples of one optimizer step over all processes");
  }
  return {};
}

}  // namespace

Result<void> CheckBatch(const BatchSpec& batch) {
  LAUNCH_RETURN_IF_ERROR(CheckNumbers(batch));
  if (batch.global && batch.micro && batch.accumulate) {
    const bool fits = *batch.micro <= *batch.global / *batch.accumulate &&
                      *batch.global % (*batch.micro * *batch.accumulate) == 0;
    if (!fits) {
      return Conflict("batch.global " + N(*batch.global) + " is not batch.micro " +
                          N(*batch.micro) + " x batch.accumulate " + N(*batch.accumulate) +
                          " x a number of processes",
                      "leave one of the three out: it follows from the others");
    }
  }
  return {};
}

Result<BatchChoice> SplitBatch(const BatchSpec& batch, int world_size, const BatchNames& names) {
  LAUNCH_RETURN_IF_ERROR(CheckNumbers(batch));
  const std::int64_t world = std::max(1, world_size);
  BatchChoice choice;
  BatchSplit& split = choice.split;
  split = {batch.global, batch.micro, batch.accumulate};
  if (!batch.global) {
    if (split.micro && !split.accumulate) split.accumulate = 1;  // micro alone
    if (split.micro) {
      LAUNCH_ASSIGN_OR_RETURN(split.global, Product(*split.micro, *split.accumulate, world));
    }
    return choice;
  }
  if (split.micro && split.accumulate) {
    LAUNCH_ASSIGN_OR_RETURN(const std::int64_t product,
                            Product(*split.micro, *split.accumulate, world));
    if (*split.global != product) {
      return Conflict(names.global + " " + N(*split.global) + " is not " + names.micro + " " +
                          N(*split.micro) + " x " + names.accumulate + " " + N(*split.accumulate) +
                          " x " + N(world) + (world == 1 ? " process" : " processes") + " = " +
                          N(product),
                      "write " + names.global + ": " + N(product) +
                          ", or leave one of micro and accumulate out");
    }
    return choice;
  }
  if (split.micro) {
    LAUNCH_ASSIGN_OR_RETURN(split.accumulate, OtherFactor(*split.global, *split.micro, world,
                                                          names.global, names.micro));
  } else if (split.accumulate) {
    LAUNCH_ASSIGN_OR_RETURN(split.micro, OtherFactor(*split.global, *split.accumulate, world,
                                                     names.global, names.accumulate));
  } else {
    if (*split.global % world != 0) {
      return Conflict(
          names.global + " " + N(*split.global) + " cannot be shared by " + N(world) + " processes",
          "write " + names.global + ": " + NearestMultiples(*split.global, world));
    }
    split.micro = *split.global / world;
    split.accumulate = 1;
    choice.warnings.push_back(
        MakeFinding("batch_conflict", Severity::kWarning,
                    "batch.micro is not given: each process takes its " + N(*split.micro) +
                        " samples at once, whether or not they fit",
                    "write batch.micro; accumulation then follows and the global batch stays " +
                        N(*split.global)));
  }
  return choice;
}

}  // namespace launch
