// Functions that archives ask for and our programs never need.
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>

// hwloc reads the memory type of NUMA nodes through udev where it is there; without it that
// attribute is missing and nothing else.
void* udev_new(void) { return NULL; }
void* udev_unref(void* udev) { return udev; }
void* udev_device_new_from_subsystem_sysname(void* udev, const char* subsystem, const char* name) {
  (void)udev, (void)subsystem, (void)name;
  return NULL;
}
void* udev_device_unref(void* device) { return device; }
const char* udev_device_get_property_value(void* device, const char* key) {
  (void)device, (void)key;
  return NULL;
}

// glibc has it since 2.36; the archives were built against that, our users have 2.35.
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
