// The part of NCCL's interface that has been the same since 2.14 (src/nccl.h.in), for a library
// that is only found at run time: the one that the job's own torch brings.
#pragma once

#include <cstddef>

namespace launch::nccl {

struct Comm;
struct UniqueId {
  char bytes[128];
};

enum Outcome : int { kSuccess = 0, kInProgress = 7 };

// ncclConfig_t begins like this; NCCL copies no more than `size` and fills in the rest by itself.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;  // whose fields we know
  int blocking = 0;          // every call returns at once: a peer that is gone must not hold us
};

constexpr int kFloat32 = 7;  // ncclDataType_t
constexpr int kSum = 0;      // ncclRedOp_t

using GetVersion = int (*)(int*);
using GetUniqueId = int (*)(UniqueId*);
using CommInitRankConfig = int (*)(Comm**, int nranks, UniqueId, int rank, Config*);
using CommGetAsyncError = int (*)(Comm*, int*);
using AllReduce = int (*)(const void*, void*, std::size_t, int type, int op, Comm*, void* stream);
using GetErrorString = const char* (*)(int);
using GetLastError = const char* (*)(Comm*);
using CommAbort = int (*)(Comm*);

}  // namespace launch::nccl

#if defined(LAUNCH_HAS_NCCL_H)
#include <nccl.h>
static_assert(sizeof(ncclUniqueId) == sizeof(launch::nccl::UniqueId));
static_assert(offsetof(ncclConfig_t, magic) == offsetof(launch::nccl::Config, magic));
static_assert(offsetof(ncclConfig_t, version) == offsetof(launch::nccl::Config, version));
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(launch::nccl::Config, blocking));
static_assert(ncclSuccess == launch::nccl::kSuccess && ncclInProgress == launch::nccl::kInProgress);
static_assert(ncclFloat32 == launch::nccl::kFloat32 && ncclSum == launch::nccl::kSum);
#endif
