// The calls that make bytes durable, in place of the C library's: linked into a program, they keep
// what a VolatileDisk is given, and go to the kernel with everything else. sync_file_range and
// msync are left out: they promise nothing for what is on a disk after a power loss.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fakes/volatile_disk/platter.h"

namespace launch::testing {
namespace {

// The platter of the disk on which that file is, or empty. Found by the path alone, for a shim has
// no variable to be told by.
std::string PlatterOf(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), path, sizeof path);
  if (size <= 0 || path[0] != '/') return {};
  for (std::string above(path, static_cast<std::size_t>(size)); !above.empty();
       above.resize(above.rfind('/'))) {
    struct stat info {};
    const std::string platter = above + ".platter";
    if (::stat(platter.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return platter;
  }
  return {};
}

bool CountSync(const std::string& platter) {
  const std::string path = platter + "/syncs";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  const long left = std::atol(ReadWhole(fd).c_str());
  ::close(fd);
  if (left > 0) WriteWhole(path, std::to_string(left - 1));
  return left > 1;
}

void Keep(int fd, const std::string& platter) {
  const Inode inode = InodeOf(fd);
  if (inode.kind == kDirectory) return WriteWhole(platter + "/lists/" + inode.id, NamesIn(fd));
  if (inode.kind != kFile) return;
  // SQLite's descriptors are read by themselves: who closes another one of the file gives its locks
  // up.
  const bool readable = (::fcntl(fd, F_GETFL) & O_ACCMODE) != O_WRONLY;
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const int reader = readable ? fd : ::open(link.c_str(), O_RDONLY | O_CLOEXEC);
  WriteWhole(platter + "/files/" + inode.id, ReadWhole(reader));
  if (!readable) ::close(reader);
}

int Sync(int fd, long call) {
  const std::string platter = PlatterOf(fd);
  if (platter.empty()) return static_cast<int>(::syscall(call, fd));
  const int lock = ::open((platter + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  (void)::flock(lock, LOCK_EX);
  if (!CountSync(platter)) (void)::kill(::getpid(), SIGKILL);
  Keep(fd, platter);
  ::close(lock);
  return 0;
}

}  // namespace
}  // namespace launch::testing

extern "C" {

int fsync(int fd) { return launch::testing::Sync(fd, SYS_fsync); }
int fdatasync(int fd) { return launch::testing::Sync(fd, SYS_fdatasync); }

}  // extern "C"
