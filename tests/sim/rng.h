// Seeded randomness with a stream for each purpose, so that one fault less does not reshuffle the
// rest.
#pragma once

#include <cstdint>
#include <string_view>

namespace launch::sim {

class Rng {
 public:
  Rng(std::uint64_t seed, std::string_view purpose) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {
    for (const char c : purpose)
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
    (void)Next();
  }
  std::uint64_t Next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::int64_t Between(std::int64_t low, std::int64_t high) {  // both included
    return low + static_cast<std::int64_t>(Next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool OneIn(int n) { return Between(1, n) == 1; }

 private:
  std::uint64_t state_;
};

}  // namespace launch::sim
