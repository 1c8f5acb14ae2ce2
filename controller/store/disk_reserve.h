// Bytes kept back on the store's disk: exits, acknowledgements and cancels can be written, and a
// controller can start, when nothing else is left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"

namespace launch::controller {

class DiskReserve {
 public:
  DiskReserve(std::string path, std::uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {}

  // Makes it where the disk has several times as much free.
  void Restore();
  // While it is spent, with a pause: a quota shows only in the try, which takes for a moment what
  // is left of it.
  void TryAgain(BootTime now);
  // Gives the bytes back to the disk. False when they were not there any more.
  bool Spend();
  // Whether the reserve was given back, and the disk has not had room for it since. A disk that was
  // too small for it from the start is not called full for that.
  bool spent() const { return spent_; }

 private:
  const std::string path_;
  const std::uint64_t bytes_;
  bool spent_ = false;
  std::optional<BootTime> next_try_;
};

}  // namespace launch::controller
