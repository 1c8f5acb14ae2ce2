// Between entities of the core and the bytes of a stored row; proto/record.proto is the format.
#pragma once

#include <string>

#include "common/error.h"
#include "controller/core/record.h"

namespace launch::controller {

// Never fails. What DecodeRecord would refuse must not become durable, because the controller could
// not start again: such an entity ends the process here, before its commit.
std::string EncodeRecord(const Entity& entity);

// The kind follows from the key; the entity's own key must be that of the row. Anything else, like
// bytes that are no message or values that cannot be, is kDataLoss and says what is wrong.
Result<Entity> DecodeRecord(const std::string& key, const std::string& bytes);

}  // namespace launch::controller
