#include "diagnosis/literal_filter.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace launch {

LiteralFilter::LiteralFilter(std::vector<std::string> phrases)
    : phrases_(std::move(phrases)), bucket_((1u << kHashBits) + 1) {
  std::vector<std::pair<std::uint32_t, Piece>> all;
  for (std::size_t i = 0; i < phrases_.size(); ++i) {
    if (phrases_[i].size() < kShortest) continue;
    for (std::size_t offset = 0; offset < kStride; ++offset) {
      const std::uint32_t word = WordAt(phrases_[i].data() + offset);
      all.push_back({HashOf(word),
                     {word, static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(offset)}});
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.phrase, a.second.offset) <
           std::tie(b.first, b.second.phrase, b.second.offset);
  });
  for (const auto& [hash, piece] : all) {
    bits_[hash >> 6] |= std::uint64_t{1} << (hash & 63);
    ++bucket_[hash + 1];
    pieces_.push_back(piece);
  }
  for (std::size_t i = 1; i < bucket_.size(); ++i) bucket_[i] += bucket_[i - 1];
}

}  // namespace launch
