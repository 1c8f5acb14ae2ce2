// The rank of the start and exit measurements: writes "<CLOCK_MONOTONIC ns> <pid>" to the file
// named by its first argument, then exits 0, or waits to be killed when there is a second argument.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  if (argc < 2) return 2;
  char text[64];
  const int length = std::snprintf(text, sizeof text, "%lld %d\n",
                                   static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec,
                                   static_cast<int>(::getpid()));
  const std::string path = argv[1];
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ::write(fd, text, static_cast<std::size_t>(length)) != length) return 1;
  ::close(fd);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return 1;
  if (argc > 2) {
    for (;;) ::pause();
  }
  return 0;
}
