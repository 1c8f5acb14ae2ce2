// What the JSON files of a checkpoint say, taken from them word by word: no tree is made of a text
// that may be of any size and depth. Those that Python writes may have NaN and Infinity for
// numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace launch::agent {

// Bytes of tensors behind a safetensors header; absent: it is none.
// Source: the format's description in safetensors' README ("data_offsets": [BEGIN, END]).
std::optional<std::uint64_t> SafetensorsBytes(const std::string& header);

// "global_step" of a trainer_state.json; absent: none, or no JSON.
std::optional<std::int64_t> GlobalStepOf(const std::string& text);

// Files that an index ("weight_map") names; absent: no JSON, or more than a hundred thousand.
std::optional<std::set<std::string>> ShardsOf(const std::string& text);

}  // namespace launch::agent
