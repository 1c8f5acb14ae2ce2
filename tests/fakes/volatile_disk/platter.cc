#include "tests/fakes/volatile_disk/platter.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace launch::testing {

Inode InodeOf(int fd, const std::string& name) {
  struct statx info {};
  const int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
  if (::statx(fd, name.c_str(), flags, STATX_TYPE | STATX_INO | STATX_BTIME, &info) != 0) return {};
  Inode inode{.id = std::to_string(info.stx_ino) + "." + std::to_string(info.stx_btime.tv_sec) +
                    "." + std::to_string(info.stx_btime.tv_nsec)};
  if (S_ISREG(info.stx_mode)) inode.kind = kFile;
  if (S_ISDIR(info.stx_mode)) inode.kind = kDirectory;
  return inode;
}

std::string NamesIn(int dir_fd) {
  std::string names;
  // By a descriptor of its own: the place in the list belongs to the caller's.
  const int own = ::openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const dir = own < 0 ? nullptr : ::fdopendir(own);
  if (dir == nullptr) return names;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const Inode inode = InodeOf(dir_fd, name);
    if (inode.kind != 0) names += std::string(1, inode.kind) + " " + inode.id + " " + name + "\n";
  }
  ::closedir(dir);
  return names;
}

std::string ReadWhole(int fd) {
  std::string bytes;
  char buffer[16384];
  for (;;) {
    const ssize_t size = ::pread(fd, buffer, sizeof buffer, static_cast<off_t>(bytes.size()));
    if (size <= 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(size));
  }
}

void WriteWhole(const std::string& path, const std::string& bytes) {
  const std::string draft = path + ".new";
  const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t size = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (size <= 0) break;
    done += static_cast<std::size_t>(size);
  }
  if (fd < 0 || ::close(fd) != 0 || ::rename(draft.c_str(), path.c_str()) != 0) {
    std::perror(path.c_str());
    std::abort();  // the disk itself is broken: nothing that a test finds on it means anything
  }
}

}  // namespace launch::testing
