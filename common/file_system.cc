#include "common/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace launch {
namespace {

std::string Parent(const std::string& path) {
  const auto slash = path.find_last_of('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

Result<void> WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailErrno("write " + path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using UniqueDir = std::unique_ptr<DIR, CloseDir>;

Result<std::vector<std::string>> NamesIn(int dir_fd, const std::string& path) {
  UniqueDir dir(::fdopendir(::dup(dir_fd)));
  if (!dir) return FailErrno("opendir " + path, errno);
  ::rewinddir(dir.get());
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return FailErrno("readdir " + path, errno);
  std::sort(names.begin(), names.end());
  return names;
}

// Removes what is in the directory `dir_fd`, never through a link.
Result<void> RemoveContents(int dir_fd, const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(dir_fd, path));
  for (const std::string& name : names) {
    const std::string child = path + "/" + name;
    if (::unlinkat(dir_fd, name.c_str(), 0) == 0 || errno == ENOENT) continue;
    if (errno != EISDIR && errno != EPERM) return FailErrno("unlink " + child, errno);
    const UniqueFd sub(
        ::openat(dir_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!sub) return FailErrno("open " + child, errno);
    LAUNCH_RETURN_IF_ERROR(RemoveContents(sub.get(), child));
    if (::unlinkat(dir_fd, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return FailErrno("rmdir " + child, errno);
    }
  }
  return {};
}

Result<void> Replace(const std::string& path, std::string_view bytes, bool sync) {
  const std::string temporary = path + ".tmp";
  {
    const UniqueFd fd(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return FailErrno("create " + temporary, errno);
    if (auto written = WriteAll(fd.get(), bytes, temporary); !written) {
      ::unlink(temporary.c_str());
      return written;
    }
    if (sync && ::fdatasync(fd.get()) != 0) {
      const int error = errno;
      ::unlink(temporary.c_str());
      return FailErrno("fdatasync " + temporary, error);
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return FailErrno("rename to " + path, errno);
  return {};
}

}  // namespace

Result<std::string> PosixFileSystem::Read(const std::string& path, std::size_t max_bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return FailErrno("open " + path, errno);
  std::string bytes;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailErrno("read " + path, errno);
    if (n == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(n));
    if (bytes.size() > max_bytes) {
      return Fail(ErrorCode::kInvalidArgument,
                  path + " is larger than " + std::to_string(max_bytes) + " bytes");
    }
  }
}

Result<void> PosixFileSystem::Write(const std::string& path, std::string_view bytes) {
  return Replace(path, bytes, false);
}

Result<void> PosixFileSystem::WriteDurable(const std::string& path, std::string_view bytes) {
  LAUNCH_RETURN_IF_ERROR(Replace(path, bytes, true));
  return SyncDir(Parent(path));
}

Result<void> PosixFileSystem::MakeDirs(const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST)
      return FailErrno("mkdir " + part, errno);
    if (slash == std::string::npos) break;
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return FailErrno("stat " + path, errno);
  if (!S_ISDIR(info.st_mode)) return FailErrno("mkdir " + path, ENOTDIR);
  return {};
}

Result<std::vector<std::string>> PosixFileSystem::List(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return FailErrno("open " + path, errno);
  return NamesIn(fd.get(), path);
}

Result<void> PosixFileSystem::RemoveTree(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return {};
    if ((errno == ENOTDIR || errno == ELOOP) && ::unlink(path.c_str()) == 0) return {};
    return FailErrno("open " + path, errno);
  }
  LAUNCH_RETURN_IF_ERROR(RemoveContents(fd.get(), path));
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return FailErrno("rmdir " + path, errno);
  return {};
}

Result<void> PosixFileSystem::SyncDir(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return FailErrno("open " + path, errno);
  if (::fsync(fd.get()) != 0) return FailErrno("sync directory " + path, errno);
  return {};
}

}  // namespace launch
