// PyTorch's flight recorder: which collectives a rank entered, and in which one it waits. Reads the
// file that it leaves when a collective times out (torch/csrc/distributed/c10d/FlightRecorder.hpp;
// TORCH_FR_DUMP_TEMP_FILE), without running anything of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/ids.h"

namespace launch {

// Where one process group stands. Collectives are counted from 1 in each group; sends and receives
// are not counted.
struct FlightGroup {
  std::string id;              // "0"
  std::string name;            // "default_pg"; may be empty
  std::int64_t completed = 0;  // the last one that this rank has behind it
  std::int64_t entered = 0;    // the last one that it came to
  std::int64_t waits_in = 0;   // the first one that is not completed; 0: it waits in none
  std::string call;            // of that one: "all_reduce", "allreduce_coalesced"
  std::string at;              // "train.py:31 (step)": the program's own line; may be empty
  friend bool operator==(const FlightGroup&, const FlightGroup&) = default;
};

struct FlightRecord {
  std::vector<FlightGroup> groups;  // by id
  friend bool operator==(const FlightRecord&, const FlightRecord&) = default;
};

inline constexpr std::size_t kLargestFlightRecord = 16 << 20;  // bytes

// `bytes` are a pickle of plain values: dictionaries, lists, tuples, texts and numbers. Names of
// Python objects in it are skipped, never looked up. kInvalidArgument: it is something else, cut
// off, or larger than it may be; time and memory are bounded by its size.
Result<FlightRecord> ReadFlightRecord(std::string_view bytes);

// "flight recorder: rank 3 in group 0 (default_pg) completed 41, entered 42, waits in 42:
// all_reduce at train.py:31 (step)". Diagnosis reads it again (diagnosis/flight.h).
inline constexpr std::string_view kFlightLine = "flight recorder: ";
std::string FlightLine(Rank rank, const FlightGroup& group);

}  // namespace launch
