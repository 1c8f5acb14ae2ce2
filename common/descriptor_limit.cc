#include "common/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace launch {

void RaiseDescriptorLimit() {
  constexpr rlim_t kEnough = rlim_t{1} << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace launch
