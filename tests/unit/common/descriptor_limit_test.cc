#include "common/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

namespace launch {
namespace {

// The limits that a process with these ones has afterwards; in a child, for a lowered hard limit
// stays lowered. Absent: the child did not get that far.
std::optional<rlimit> RaisedFrom(const rlimit& before) {
  int ends[2];
  if (::pipe(ends) != 0) return std::nullopt;
  const pid_t pid = ::fork();
  if (pid == 0) {
    rlimit after{};
    if (::setrlimit(RLIMIT_NOFILE, &before) != 0) ::_exit(1);
    RaiseDescriptorLimit();
    if (::getrlimit(RLIMIT_NOFILE, &after) != 0) ::_exit(1);
    ::_exit(::write(ends[1], &after, sizeof after) == sizeof after ? 0 : 1);
  }
  ::close(ends[1]);
  rlimit after{};
  const bool told = pid > 0 && ::read(ends[0], &after, sizeof after) == sizeof after;
  ::close(ends[0]);
  if (pid > 0) (void)::waitpid(pid, nullptr, 0);
  return told ? std::optional(after) : std::nullopt;
}

TEST(DescriptorLimit, IsRaisedToTheHardOneWhichStays) {
  const auto after = RaisedFrom({256, 1000});
  ASSERT_TRUE(after);
  EXPECT_EQ(after->rlim_cur, 1000u);
  EXPECT_EQ(after->rlim_max, 1000u);
}

TEST(DescriptorLimit, ThatIsTheHardOneStays) {
  const auto after = RaisedFrom({500, 500});
  ASSERT_TRUE(after);
  EXPECT_EQ(after->rlim_cur, 500u);
}

}  // namespace
}  // namespace launch
