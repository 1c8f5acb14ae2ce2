#include "common/foreign_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace launch {

Result<UniqueFd> OpenRegular(const std::string& path, Links links) {
  // O_NONBLOCK: neither a pipe without a writer nor a lease that somebody holds keeps us here.
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), flags | (links == Links::kRefuse ? O_NOFOLLOW : 0)));
  if (!fd) return FailErrno("open " + path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return FailErrno("stat " + path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument, path + " is not a regular file");
  }
  if (links == Links::kRefuse && info.st_nlink > 1) {
    return Fail(ErrorCode::kInvalidArgument, path + " has another name besides");
  }
  return fd;
}

std::string ReadRange(int fd, std::uint64_t from, std::size_t most) {
  constexpr std::size_t kBlock = 64 * 1024;
  std::string bytes;
  while (bytes.size() < most) {
    const std::size_t had = bytes.size();
    bytes.resize(had + std::min(kBlock, most - had));
    ssize_t got = 0;
    do {
      got = ::pread(fd, bytes.data() + had, bytes.size() - had, static_cast<off_t>(from + had));
    } while (got < 0 && errno == EINTR);
    bytes.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) break;
  }
  return bytes;
}

std::string ReadHead(const std::string& path, std::size_t most, Links links) {
  const auto fd = OpenRegular(path, links);
  return fd ? ReadRange(fd->get(), 0, most) : std::string();
}

Result<std::string> ReadAll(const std::string& path, std::size_t most, Links links) {
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegular(path, links));
  std::string bytes = ReadRange(fd.get(), 0, most + 1);
  if (bytes.size() <= most) return bytes;
  return Fail(ErrorCode::kInvalidArgument,
              path + " is larger than " + std::to_string(most) + " bytes");
}

}  // namespace launch
