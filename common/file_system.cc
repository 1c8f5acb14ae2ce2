#include "common/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>

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
  UniqueFd own(::fcntl(dir_fd, F_DUPFD_CLOEXEC, 0));
  if (!own) return FailErrno("dup " + path, errno);
  UniqueDir dir(::fdopendir(own.get()));
  if (!dir) return FailErrno("opendir " + path, errno);
  (void)own.Release();
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

// Whoever made the directory can put nothing more into it, and nothing in its mode keeps us out.
void TakeOver(int dir_fd) {
  if (::geteuid() == 0) (void)::fchown(dir_fd, 0, 0);
  (void)::fchmod(dir_fd, 0700);
}

// A directory in `dir_fd`. EXDEV: something is mounted there, which is not ours to empty.
UniqueFd OpenHere(int dir_fd, const char* name) {
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
  UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, dir_fd, name, &how, sizeof how)));
  if (fd || (errno != ENOSYS && errno != EPERM)) return fd;
  // Before Linux 5.6, and in sandboxes that do not know the call.
  fd.Reset(::openat(dir_fd, name, static_cast<int>(how.flags)));
  struct stat above {};
  struct stat info {};
  const bool looked = fd && ::fstat(dir_fd, &above) == 0 && ::fstat(fd.get(), &info) == 0;
  if (looked && above.st_dev == info.st_dev) return fd;
  if (looked) errno = EXDEV;
  return {};
}

// Empties a tree by descriptors, never through a link: one descriptor and a few names for each
// level, on the heap, so that neither depth nor number of files counts. Goes on behind an error, so
// that one entry does not keep all others; the first one is told.
class TreeRemover {
 public:
  TreeRemover(UniqueFd top, std::string path) : at_(std::move(top)), path_(std::move(path)) {}

  Result<void> Run() {
    LAUNCH_RETURN_IF_ERROR(Enter(""));
    for (;;) {
      Level& level = levels_.back();
      if (level.full.empty()) LAUNCH_RETURN_IF_ERROR(Clear(level));
      if (!level.full.empty()) {
        Descend();
      } else if (levels_.size() == 1) {
        return std::move(first_);
      } else {
        LAUNCH_RETURN_IF_ERROR(Ascend());
      }
    }
  }

 private:
  struct Level {
    std::string name;  // in the one above
    dev_t device = 0;
    ino_t inode = 0;
    std::vector<std::string> full;  // directories in it that are to be emptied, some at a time
    std::set<std::string> stuck;    // entries that cannot be removed
  };
  static constexpr std::size_t kFullAtOnce = 64;

  Unexpected Failed(const char* call, const std::string& name) const {
    const int error_number = errno;
    const bool near = levels_.size() < 2;  // a path of any length is no message
    return FailErrno(std::string(call) + " " + path_ + (near ? "/" : "/.../") + name, error_number);
  }
  void Stick(const char* call, const std::string& name) {
    if (first_) first_ = Failed(call, name);
    levels_.back().stuck.insert(name);
  }

  // The directory at_.
  Result<void> Enter(std::string name) {
    TakeOver(at_.get());
    struct stat info {};
    if (::fstat(at_.get(), &info) != 0) return Failed("stat", name);
    levels_.push_back({std::move(name), info.st_dev, info.st_ino, {}, {}});
    return {};
  }

  void Descend() {
    const std::string name = std::move(levels_.back().full.back());
    levels_.back().full.pop_back();
    UniqueFd sub = OpenHere(at_.get(), name.c_str());
    if (!sub && errno == ENOENT) return;
    if (!sub) return Stick("open", name);
    std::swap(at_, sub);
    if (Enter(name)) return;
    std::swap(at_, sub);
    Stick("enter", name);
  }

  Result<void> Ascend() {
    const std::string name = std::move(levels_.back().name);
    levels_.pop_back();
    UniqueFd above(::openat(at_.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat info {};
    if (!above || ::fstat(above.get(), &info) != 0) return Failed("leave", name);
    // Somebody who moves it meanwhile would have us go on in a directory of his choice.
    if (info.st_dev != levels_.back().device || info.st_ino != levels_.back().inode) {
      return Fail(ErrorCode::kConflict, path_ + " was changed while it was removed");
    }
    at_ = std::move(above);
    if (::unlinkat(at_.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
      Stick("rmdir", name);
    return {};
  }

  // Removes what can be at once, and notes some directories that are not empty.
  Result<void> Clear(Level& level) {
    const UniqueDir dir(::fdopendir(::dup(at_.get())));
    if (!dir) return Failed("opendir", level.name);
    for (bool removed = true; removed;) {  // some are passed over while others are removed
      removed = false;
      ::rewinddir(dir.get());
      errno = 0;
      while (const dirent* entry = ::readdir(dir.get())) {
        const std::string name = entry->d_name;
        if (name == "." || name == ".." || level.stuck.contains(name)) continue;
        if (IsDirectory(*entry)) {
          level.full.push_back(name);
        } else if (::unlinkat(at_.get(), name.c_str(), 0) == 0) {
          removed = true;
        } else if (errno != ENOENT) {
          Stick("unlink", name);
        }
        if (level.full.size() >= kFullAtOnce) return {};
        errno = 0;
      }
      if (errno != 0) return Failed("readdir", level.name);
      if (!level.full.empty()) return {};
    }
    return {};
  }

  bool IsDirectory(const dirent& entry) const {
    if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
    struct stat info {};
    return ::fstatat(at_.get(), entry.d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(info.st_mode);
  }

  UniqueFd at_;  // the directory of the last level
  const std::string path_;
  std::vector<Level> levels_;
  Result<void> first_;
};

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

bool PathExists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

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
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return {};
    if ((errno == ENOTDIR || errno == ELOOP) && ::unlink(path.c_str()) == 0) return {};
    return FailErrno("open " + path, errno);
  }
  LAUNCH_RETURN_IF_ERROR(TreeRemover(std::move(fd), path).Run());
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
