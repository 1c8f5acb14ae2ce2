#include "agent/shim/cgroup_birth.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace launch::shim {

int OpenBirthplace(const char* procs_file) {
  constexpr char kName[] = "/cgroup.procs";
  const std::size_t size = std::strlen(procs_file);
  const std::size_t tail = sizeof kName - 1;
  char directory[4096];
  if (size <= tail || size - tail >= sizeof directory) return -1;
  if (std::strcmp(procs_file + size - tail, kName) != 0) return -1;
  std::memcpy(directory, procs_file, size - tail);
  directory[size - tail] = '\0';
  return ::open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

pid_t ForkInto(int birthplace) {
  clone_args arguments{};
  arguments.flags = CLONE_INTO_CGROUP;
  arguments.exit_signal = SIGCHLD;
  arguments.cgroup = static_cast<std::uint64_t>(birthplace);
  return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

int JoinCgroups(char* const* procs_files) {
  for (; *procs_files != nullptr; ++procs_files) {
    const int fd = ::open(*procs_files, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    const ssize_t wrote = ::write(fd, "0", 1);
    const int error_number = errno;
    ::close(fd);
    if (wrote != 1) return error_number;
  }
  return 0;
}

}  // namespace launch::shim
