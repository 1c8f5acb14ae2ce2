// Identity is typed: a job id cannot be passed where an attempt or a node is meant.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace launch {

template <class Tag, class Rep>
struct StrongId {
  Rep value{};
  friend auto operator<=>(const StrongId&, const StrongId&) = default;
  friend bool operator==(const StrongId&, const StrongId&) = default;
};

using JobId = StrongId<struct JobIdTag, std::uint64_t>;      // counts from 1
using Attempt = StrongId<struct AttemptTag, std::uint32_t>;  // counts from 1 within a job
using NodeId = StrongId<struct NodeIdTag, std::string>;      // the name a node joined with
using GpuUuid = StrongId<struct GpuUuidTag, std::string>;    // as the driver prints it
using UserName = StrongId<struct UserNameTag, std::string>;
using Rank = int;  // global rank, from 0

// Fences everything about an attempt; on a node it names the node's allocation.
struct Key {
  JobId job;
  Attempt attempt;
  friend auto operator<=>(const Key&, const Key&) = default;
  friend bool operator==(const Key&, const Key&) = default;
};

// "12.3" = job 12, attempt 3.
std::string ToString(const Key& key);

// NodeId, UserName: 1-63 characters of [a-z0-9A-Z._-], not starting with '-' or '.'.
bool IsValidName(std::string_view name);

}  // namespace launch
