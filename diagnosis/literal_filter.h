// Finds many fixed phrases in a long text at memory speed: the filter in front of all patterns.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace launch {

// Every kStride-th position of the text is looked up by its four bytes in a bit table that holds
// the four-byte pieces at the first kStride offsets of each phrase; only then is a phrase compared.
// An occurrence covers exactly one looked-up position, so it is reported exactly once.
class LiteralFilter {
 public:
  static constexpr std::size_t kStride = 4;
  static constexpr std::size_t kShortest = 4 + kStride - 1;  // bytes a phrase must have

  // REQUIRES: each phrase has kShortest bytes or more; a shorter one is never found.
  explicit LiteralFilter(std::vector<std::string> phrases);

  // Calls found(index of the phrase, offset of its first byte); offsets of one phrase rise.
  template <class Found>
  void Find(std::string_view text, Found found) const {
    if (text.size() < kShortest) return;
    const char* const data = text.data();
    const std::size_t last = text.size() - 4;
    for (std::size_t at = 0; at <= last; at += kStride) {
      const std::uint32_t word = WordAt(data + at);
      const std::uint32_t hash = HashOf(word);
      if ((bits_[hash >> 6] >> (hash & 63) & 1) == 0) continue;
      for (std::uint32_t i = bucket_[hash]; i < bucket_[hash + 1]; ++i) {
        const Piece piece = pieces_[i];
        if (piece.word != word || piece.offset > at) continue;
        const std::string& phrase = phrases_[piece.phrase];
        const std::size_t start = at - piece.offset;
        if (start + phrase.size() > text.size()) continue;
        if (std::memcmp(data + start, phrase.data(), phrase.size()) != 0) continue;
        found(static_cast<std::size_t>(piece.phrase), start);
      }
    }
  }

 private:
  static constexpr int kHashBits = 17;
  struct Piece {
    std::uint32_t word;
    std::uint16_t phrase;
    std::uint16_t offset;
  };

  static std::uint32_t WordAt(const char* at) {
    std::uint32_t word;
    std::memcpy(&word, at, sizeof(word));
    return word;
  }
  static std::uint32_t HashOf(std::uint32_t word) { return word * 2654435761u >> (32 - kHashBits); }

  std::vector<std::string> phrases_;
  std::vector<Piece> pieces_;  // ordered by hash
  std::array<std::uint64_t, (1u << kHashBits) / 64> bits_{};
  std::vector<std::uint32_t> bucket_;  // where the pieces of a hash begin
};

}  // namespace launch
