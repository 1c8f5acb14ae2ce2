// A directory on a disk whose cache is lost with the power: what a file holds there after the loss
// is what it held at its last fsync or fdatasync, and nothing is in a directory that was not there
// at the last fsync of the directory. The weakest that POSIX allows, but for torn sectors.
//
// Holds for programs that are linked with volatile_disk_calls, as this one must be.
#pragma once

#include <string>

namespace launch::testing {

class VolatileDisk {
 public:
  VolatileDisk();
  ~VolatileDisk();
  VolatileDisk(const VolatileDisk&) = delete;
  VolatileDisk& operator=(const VolatileDisk&) = delete;

  const std::string& root() const { return root_; }
  // That sync is not made. Whoever asks for it or for a later one is killed by SIGKILL.
  void LosePowerAtSync(int nth) const;
  // What is said by a process that still lives when the power is lost does not count.
  bool HasPower() const;
  // The names that were synced; or all of them, as where a file system is quicker with names than
  // with what is in the files.
  enum class Names { kSynced, kAll };
  // What is there when the power is back, in a new directory that lives as long as the disk.
  std::string AfterPowerLoss(Names names) const;
  // From here on the root is a directory like any other.
  void Detach() const;

 private:
  std::string base_;
  std::string root_;
  std::string platter_;
};

}  // namespace launch::testing
