// What a hostile LD_PRELOAD would do first: tells whose rights it has in each program that loads
// it. A line "euid PROGRAM" is added to the file FILE.ids beside the library, if that is there.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace {

__attribute__((constructor)) void TellWho() {
  static const char kHere = 0;
  Dl_info self{};
  if (::dladdr(&kHere, &self) == 0) return;
  char path[4096];
  (void)std::snprintf(path, sizeof path, "%s.ids", self.dli_fname);
  const int fd = ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return;
  char program[512] = {};
  (void)!::readlink("/proc/self/exe", program, sizeof program - 1);
  char line[600];
  const int size =
      std::snprintf(line, sizeof line, "%u %s\n", static_cast<unsigned>(::geteuid()), program);
  if (size > 0) (void)!::write(fd, line, static_cast<std::size_t>(size));
  ::close(fd);
}

}  // namespace
