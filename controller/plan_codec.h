// Stored form of a planned attempt: the plan and the allocation specs as they are sent.
#pragma once

#include <string>
#include <string_view>

#include "controller/core/decide.h"
#include "controller/store/store.h"

namespace launch::controller {

std::string EncodeStoredPlan(const Plan& plan, const std::vector<PlannedAllocation>& allocations);

// kDataLoss when the bytes are not whole or a spec does not match its digest.
Result<StoredPlan> DecodeStoredPlan(std::string_view bytes);

// The plan of an attempt from its chunks in the store. Loop thread.
Result<StoredPlan> ReadStoredPlan(Store& store, const Key& key);

}  // namespace launch::controller
