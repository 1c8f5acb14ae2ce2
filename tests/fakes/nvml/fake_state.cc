#include "tests/fakes/nvml/fake_state.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

namespace fake_nvml {
namespace {

struct FileStamp {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  long long mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

std::optional<FileStamp> StampOf(const char* path) {
  struct stat found {};
  if (::stat(path, &found) != 0) return std::nullopt;
  return FileStamp{found.st_dev, found.st_ino, found.st_size,
                   found.st_mtim.tv_sec * 1'000'000'000LL + found.st_mtim.tv_nsec};
}

struct Library {
  std::mutex mutex;
  int references = 0;
  std::optional<FileStamp> stamp;
  State state = std::make_shared<const nlohmann::json>(nlohmann::json::object());
  bool readable = false;

  // Keeps the last good text while a writer is in the middle of the file.
  void Refresh() {
    const char* path = std::getenv("FAKE_NVML_CONFIG");
    if (path == nullptr) return;
    const std::optional<FileStamp> now = StampOf(path);
    if (!now || now == stamp) return;
    std::ifstream file(path);
    nlohmann::json read = nlohmann::json::parse(file, nullptr, false);
    if (read.is_discarded() || !read.is_object()) return;
    state = std::make_shared<const nlohmann::json>(std::move(read));
    stamp = now;
    readable = true;
  }
};

Library& TheLibrary() {
  static Library library;
  return library;
}

char slots[kMaxDevices * (kMaxSlices + 1)];

[[noreturn]] void SleepForever() {
  while (true) ::pause();
}

// Sleeps as told, then the code to answer (0: none told).
nvmlReturn_t Suffer(const nlohmann::json& state, const char* symbol, int device) {
  const auto faults = state.find("faults");
  if (faults == state.end()) return kSuccess;
  const auto fault = faults->find(symbol);
  if (fault == faults->end()) return kSuccess;
  if (const auto devices = fault->find("devices"); devices != fault->end()) {
    bool meant = false;
    for (const nlohmann::json& one : *devices) meant = meant || one == device;
    if (!meant) return kSuccess;
  }
  if (const auto delay = fault->find("delay_ms"); delay != fault->end()) {
    if (delay->is_string()) SleepForever();
    std::this_thread::sleep_for(std::chrono::milliseconds(delay->get<int>()));
  }
  return fault->value("result", kSuccess);
}

State Snapshot(int* references) {
  Library& library = TheLibrary();
  const std::lock_guard lock(library.mutex);
  library.Refresh();
  *references = library.references;
  return library.state;
}

}  // namespace

nvmlDevice_t HandleOf(Target target) {
  return reinterpret_cast<nvmlDevice_t>(
      &slots[target.device * (kMaxSlices + 1) + target.slice + 1]);
}

std::optional<Target> TargetOf(nvmlDevice_t handle) {
  const char* slot = reinterpret_cast<const char*>(handle);
  if (slot < slots || slot >= slots + sizeof slots) return std::nullopt;
  const int offset = static_cast<int>(slot - slots);
  return Target{offset / (kMaxSlices + 1), offset % (kMaxSlices + 1) - 1};
}

Entered Enter(const char* symbol, int device) {
  int references = 0;
  Entered entered{kSuccess, Snapshot(&references)};
  if (references == 0) return {kUninitialized, entered.state};
  entered.code = Suffer(*entered.state, symbol, device);
  if (entered.code != kSuccess || device < 0) return entered;
  const nlohmann::json& devices = entered.state->at("devices");
  if (device >= static_cast<int>(devices.size()) || devices[device].value("lost", false))
    entered.code = kGpuLost;
  return entered;
}

nvmlReturn_t Init(const char* symbol) {
  int references = 0;
  const State state = Snapshot(&references);
  Library& library = TheLibrary();
  if (!library.readable) return kDriverNotLoaded;
  if (const nvmlReturn_t code = Suffer(*state, symbol, -1); code != kSuccess) return code;
  const std::lock_guard lock(library.mutex);
  ++library.references;
  return kSuccess;
}

nvmlReturn_t Shutdown() {
  Library& library = TheLibrary();
  const std::lock_guard lock(library.mutex);
  if (library.references == 0) return kUninitialized;
  --library.references;
  return kSuccess;
}

}  // namespace fake_nvml
