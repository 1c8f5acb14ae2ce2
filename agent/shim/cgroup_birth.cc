#include "agent/shim/cgroup_birth.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace launch::shim {
namespace {

// A sanitizer follows the stack of each thread, and loses it where two processes share a memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

// The C library has no call for clone3 with a stack: the child must not come back into frames that
// its parent still uses, so it is caught in the instructions behind the system call.
long CloneOnStack(clone_args& arguments, void (*run)(void*), void* argument) {
#if defined(__x86_64__)
  long result = SYS_clone3;
  register void (*function)(void*) __asm__("r12") = run;
  register void* given __asm__("r13") = argument;
  __asm__ volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xorl %%ebp, %%ebp\n\t"
      "movq %%r13, %%rdi\n\t"
      "callq *%%r12\n\t"
      "hlt\n"
      "1:"
      : "+a"(result)
      : "D"(&arguments), "S"(sizeof arguments), "r"(function), "r"(given)
      : "rcx", "r11", "cc", "memory");
  return result;
#elif defined(__aarch64__)
  register long number __asm__("x8") = SYS_clone3;
  register long result __asm__("x0") = reinterpret_cast<long>(&arguments);
  register long size __asm__("x1") = sizeof arguments;
  register void (*function)(void*) __asm__("x19") = run;
  register void* given __asm__("x20") = argument;
  __asm__ volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x20\n\t"
      "blr x19\n\t"
      "brk #0\n"
      "1:"
      : "+r"(result)
      : "r"(number), "r"(size), "r"(function), "r"(given)
      : "cc", "memory");
  return result;
#else
  (void)arguments;
  (void)run;
  (void)argument;
  return -ENOSYS;
#endif
}

}  // namespace

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

pid_t VforkInto(int birthplace, void (*run)(void*), void* argument) {
  errno = ENOSYS;
  if (kSanitized) return -1;
  void* stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return -1;
  clone_args arguments{};
  arguments.flags = CLONE_VM | CLONE_VFORK;
  if (birthplace >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(birthplace);
  }
  arguments.exit_signal = SIGCHLD;
  arguments.stack = reinterpret_cast<std::uint64_t>(stack);
  arguments.stack_size = kStackBytes;
  const long result = CloneOnStack(arguments, run, argument);
  ::munmap(stack, kStackBytes);
  if (result >= 0) return static_cast<pid_t>(result);
  errno = static_cast<int>(-result);
  return -1;
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
