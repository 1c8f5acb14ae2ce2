// Stored form of a planned attempt: the plan and the allocation specs as they are sent.
#pragma once

#include <string>
#include <string_view>

#include "controller/core/decide.h"
#include "controller/store/store.h"

namespace launch::controller {

std::string EncodeStoredPlan(const Plan& plan, const std::vector<PlannedAllocation>& allocations);

// Decodes a stored plan. kDataLoss when the bytes are not those of `expected` (SHA-256, hex) or not
// whole, or when a spec does not match its own digest.
Result<StoredPlan> DecodeStoredPlan(std::string_view bytes, const std::string& expected);

// The plan of an attempt from its chunks in the store; chunks beyond its own are of a plan that was
// never committed. Loop thread.
Result<StoredPlan> ReadStoredPlan(Store& store, const effect::ReadPlans::Stored& plan);

}  // namespace launch::controller
