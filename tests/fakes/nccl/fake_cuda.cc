// The part of libcuda.so.1 that launch-nccl-test calls, over host memory.
//   FAKE_CUDA_DEVICES: how many GPUs it has, 1 where unset
#include <cstdlib>
#include <cstring>

namespace {

enum Result : int { kSuccess = 0, kOutOfMemory = 2, kInvalidDevice = 101 };

}  // namespace

extern "C" {

int cuInit(unsigned) { return kSuccess; }

int cuDeviceGetCount(int* count) {
  const char* const said = std::getenv("FAKE_CUDA_DEVICES");
  *count = said != nullptr ? std::atoi(said) : 1;
  return kSuccess;
}

int cuDeviceGet(int* device, int index) {
  *device = index;
  return index == 0 ? kSuccess : kInvalidDevice;
}

int cuDevicePrimaryCtxRetain(void** context, int) {
  static int one;
  *context = &one;
  return kSuccess;
}

int cuCtxSetCurrent(void*) { return kSuccess; }

int cuStreamCreate(void** stream, unsigned) {
  static int one;
  *stream = &one;
  return kSuccess;
}

int cuStreamQuery(void*) { return kSuccess; }

int cuMemAlloc_v2(unsigned long long* data, std::size_t bytes) {
  void* const at = std::malloc(bytes);
  *data = reinterpret_cast<unsigned long long>(at);
  return at != nullptr ? kSuccess : kOutOfMemory;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return kSuccess;
}

int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}

int cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR_FAKE";
  return kSuccess;
}

}  // extern "C"
