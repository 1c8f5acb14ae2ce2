#include "agent/runner/checkpoint_pickle.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/foreign_file.h"

namespace launch::agent {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::size_t kOverlap = 128;  // longer than anything looked for
constexpr std::uint64_t kMostOfPickle = std::uint64_t{256} << 20;
constexpr std::uint64_t kMostOfTorch = std::uint64_t{64} << 20;  // data.pkl is the first in its zip

constexpr std::string_view kShardEnd = ".distcp";
constexpr std::string_view kZeroKey = "param_shapes";

// Opcodes of pickle.
constexpr char kBinUnicode = 'X';          // and four bytes of length
constexpr char kShortBinUnicode = '\x8c';  // and one
constexpr char kBinPut = 'q';              // and one byte
constexpr char kLongBinPut = 'r';          // and four
constexpr char kMemoize = '\x94';
constexpr char kNone = 'N';

// Calls `look` with windows of the first `most` bytes that overlap, until it returns false.
void ForEachWindow(const std::string& path, std::uint64_t most, ReadBudget* budget,
                   const std::function<bool(std::string_view window)>& look) {
  const auto file = OpenRegular(path);
  if (!file) return;
  std::string window;
  for (std::uint64_t at = 0; at < most;) {
    const std::string chunk = ReadRange(file->get(), at, kChunk);
    if (chunk.empty()) return;
    if (budget != nullptr) budget->bytes -= std::min<std::uint64_t>(budget->bytes, chunk.size());
    at += chunk.size();
    window.erase(0, window.size() - std::min(window.size(), kOverlap));
    window += chunk;
    if (!look(window)) return;
    if (budget != nullptr && budget->bytes == 0) return;
  }
}

// Whether the `size` bytes at `begin` are a whole string of a pickle.
bool IsString(std::string_view bytes, std::size_t begin, std::size_t size) {
  if (size < 256 && begin >= 2 && bytes[begin - 2] == kShortBinUnicode &&
      static_cast<unsigned char>(bytes[begin - 1]) == size) {
    return true;
  }
  if (begin < 5 || bytes[begin - 5] != kBinUnicode) return false;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + begin - 4, sizeof length);
  return length == size;
}

// Behind the digits before `end`; `end` itself where there are none.
std::size_t BeforeDigits(std::string_view bytes, std::size_t end) {
  while (end > 0 && bytes[end - 1] >= '0' && bytes[end - 1] <= '9') --end;
  return end;
}

// Where the `__R_I` before `end` begins; npos where there is none.
std::size_t BeginOfShard(std::string_view bytes, std::size_t end) {
  const std::size_t index = BeforeDigits(bytes, end);
  if (index == end || index == 0 || bytes[index - 1] != '_') return std::string_view::npos;
  const std::size_t rank = BeforeDigits(bytes, index - 1);
  if (rank == index - 1 || rank < 2 || bytes[rank - 1] != '_' || bytes[rank - 2] != '_') {
    return std::string_view::npos;
  }
  return rank - 2;
}

// What follows a string, behind its place in the memo; absent at the end of the window.
std::optional<char> OpcodeAfter(std::string_view bytes, std::size_t at) {
  if (at >= bytes.size()) return std::nullopt;
  if (bytes[at] == kBinPut)
    at += 2;
  else if (bytes[at] == kLongBinPut)
    at += 5;
  else if (bytes[at] == kMemoize)
    at += 1;
  return at < bytes.size() ? std::optional(bytes[at]) : std::nullopt;
}

}  // namespace

void ForEachDcpShard(const std::string& path, ReadBudget* budget,
                     const std::function<bool(std::string_view name)>& found) {
  ForEachWindow(path, kMostOfPickle, budget, [&found](std::string_view window) {
    for (std::size_t at = window.find(kShardEnd); at != std::string_view::npos;
         at = window.find(kShardEnd, at + 1)) {
      const std::size_t begin = BeginOfShard(window, at);
      if (begin == std::string_view::npos) continue;
      const std::size_t size = at + kShardEnd.size() - begin;
      if (IsString(window, begin, size) && !found(window.substr(begin, size))) return false;
    }
    return true;
  });
}

std::optional<bool> OptimizerIsBeside(const std::string& path, ReadBudget* budget) {
  // Its value is None without ZeRO, else a list: with ZeRO the shapes are needed to take the
  // optimizer's parts together again.
  std::optional<bool> beside;
  ForEachWindow(path, kMostOfTorch, budget, [&beside](std::string_view window) {
    for (std::size_t at = window.find(kZeroKey); at != std::string_view::npos;
         at = window.find(kZeroKey, at + 1)) {
      if (!IsString(window, at, kZeroKey.size())) continue;
      if (const auto next = OpcodeAfter(window, at + kZeroKey.size())) beside = *next != kNone;
    }
    return !beside;
  });
  return beside;
}

}  // namespace launch::agent
