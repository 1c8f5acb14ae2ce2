// Undoing a decision: the previous value of an entity, and its removal. Used by Undo only.
#pragma once

#include <optional>

#include "controller/core/record.h"
#include "controller/core/state.h"

namespace launch::controller {

// The stored entity with the same key as `like`.
std::optional<Entity> FindEntity(const State& state, const Entity& like);

// Removes the entity with the key of `entity` and what was derived from it.
void EraseEntity(State& state, const Entity& entity);

}  // namespace launch::controller
