// glibc has it since 2.36; the archives of libstdc++ were built against that, our users have 2.35.
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/types.h>

uint32_t arc4random(void) {
  uint32_t value = 0;
  size_t done = 0;
  while (done < sizeof value) {
    const ssize_t got = getrandom((char*)&value + done, sizeof value - done, 0);
    if (got > 0) done += (size_t)got;
  }
  return value;
}
void arc4random_buf(void* bytes, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = getrandom((char*)bytes + done, size - done, 0);
    if (got > 0) done += (size_t)got;
  }
}
