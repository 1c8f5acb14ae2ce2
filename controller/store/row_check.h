// Checks that SQLite does not make: a sum per row, and a digest over the set of rows, so that
// neither a flipped bit nor a lost or resurrected row passes for data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "controller/store/store.h"

namespace launch::controller {

std::uint32_t RowSum(std::string_view key, Revision revision, std::string_view value);
std::uint32_t EventSum(const StoredEvent& event);

// Sum, modulo 2^128, of a hash per row: rows come and go in any order, each for one addition.
struct SetDigest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  void Add(std::string_view key, Revision revision, std::string_view value);
  void Remove(std::string_view key, Revision revision, std::string_view value);
  friend bool operator==(const SetDigest&, const SetDigest&) = default;
};

// The one row that says what all the others must be. Written in every transaction.
struct StoreMeta {
  std::string store_id;  // 32 hex digits, drawn when the store was made
  Revision revision = 0;
  std::uint64_t rows = 0;
  SetDigest digest;
  std::uint64_t first_event = 1;  // oldest event kept
  std::uint64_t last_event = 0;
  friend bool operator==(const StoreMeta&, const StoreMeta&) = default;
};
std::string EncodeMeta(const StoreMeta& meta);
std::optional<StoreMeta> DecodeMeta(std::string_view bytes);

}  // namespace launch::controller
