// Foresees that a GPU's memory runs out: growth that goes on, from samples while a job runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/clock.h"

namespace launch {

// Needs kFewest samples. Growth must show in each third of what was seen, evenly, and nothing of it
// may be given back: the filling of caches at the start, sawteeth of epochs and a level once
// reached are no trend. Memory: about 4 KiB, whatever the length of the run.
class MemoryTrend {
 public:
  struct Forecast {
    double bytes_per_second = 0;
    Millis left{0};  // until `total` is reached
  };

  void Add(BootTime at, std::uint64_t bytes);
  // When `total` bytes will be reached. Absent: there is no trend, or that is further away than
  // twice the time that was seen (at least an hour).
  std::optional<Forecast> Foresee(std::uint64_t total) const;

 private:
  static constexpr int kFewest = 40;
  static constexpr std::size_t kMostBuckets = 128;
  struct Bucket {  // of `per_bucket_` samples
    BootTime first{};
    BootTime last{};
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    int samples = 0;
  };
  void Halve();

  std::vector<Bucket> buckets_;
  int per_bucket_ = 1;
  int samples_ = 0;
};

}  // namespace launch
