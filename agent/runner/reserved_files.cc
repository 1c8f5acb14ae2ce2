#include "agent/runner/reserved_files.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/unique_fd.h"

namespace launch::agent {

template <class Try>
Result<void> ReservedFiles::WithReserve(Try once) {
  const auto done = once();
  if (done || done.error().code != ErrorCode::kResourceExhausted) return done;
  if (::unlink(path_.c_str()) == 0) spent_ = true;
  return once();  // even so: another thread may just have spent it
}

Result<void> ReservedFiles::Write(const std::string& path, std::string_view bytes) {
  return WithReserve([&] { return files_.Write(path, bytes); });
}
Result<void> ReservedFiles::WriteDurable(const std::string& path, std::string_view bytes) {
  return WithReserve([&] { return files_.WriteDurable(path, bytes); });
}
Result<void> ReservedFiles::MakeDirs(const std::string& path) {
  return WithReserve([&] { return files_.MakeDirs(path); });
}
Result<void> ReservedFiles::SyncDir(const std::string& path) {
  return WithReserve([&] { return files_.SyncDir(path); });
}

void ReservedFiles::Restore(std::uint64_t free_bytes, std::uint64_t keep_bytes) {
  if (free_bytes < keep_bytes || free_bytes - keep_bytes < bytes_) return;
  const UniqueFd fd(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return;  // it is there
  if (::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes_)) != 0) ::unlink(path_.c_str());
}

}  // namespace launch::agent
