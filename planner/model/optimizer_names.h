// Which names of optimizers say how much state they keep.
#pragma once

#include <string>
#include <string_view>

#include "common/error.h"

namespace launch {

// Whether a known optimizer's name is part of the word: "adamw_torch", "paged_lion_8bit",
// "schedule_free_sgd".
bool NamesOptimizer(std::string_view word);

// Refuses a word that NamesOptimizer does not know; `place` stands before it: "model.optimizer: ".
Unexpected UnknownOptimizer(const std::string& place, std::string_view word);

}  // namespace launch
