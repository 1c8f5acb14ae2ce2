#include "agent/shim/shim_spec.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "common/unique_fd.h"

namespace launch::shim {
namespace {

ShimSpec Sample() {
  ShimSpec spec;
  spec.block.rank = 3;
  spec.cwd = "/proj dir";
  spec.shim_cgroups = {"/cg/shims/cgroup.procs"};
  spec.argv = {"/bin/bash", "-c", "", "exec python 'x y'"};
  spec.env = {"A=1", "EMPTY=", "LINES=a\nb"};
  return spec;
}

UniqueFd Memory(const std::string& bytes) {
  UniqueFd fd(::memfd_create("spec", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

TEST(ShimSpec, ArrivesAsItWasSent) {
  const ShimSpec sent = Sample();
  const UniqueFd fd = Memory(EncodeSpec(sent));
  SpecView view;
  ASSERT_EQ(OpenSpec(fd.get(), view), 0);
  EXPECT_EQ(view.block->rank, 3);
  EXPECT_EQ(view.cwd, sent.cwd);
  EXPECT_EQ(view.shim_cgroups[0], sent.shim_cgroups[0]);
  EXPECT_EQ(view.shim_cgroups[1], nullptr);
  EXPECT_EQ(view.rank_cgroups[0], nullptr);
  for (std::size_t i = 0; i < sent.argv.size(); ++i) EXPECT_EQ(view.argv[i], sent.argv[i]);
  EXPECT_EQ(view.argv[sent.argv.size()], nullptr);
  for (std::size_t i = 0; i < sent.env.size(); ++i) EXPECT_EQ(view.env[i], sent.env[i]);
  EXPECT_EQ(view.env[sent.env.size()], nullptr);
  CloseSpec(view);
  EXPECT_EQ(view.argv, nullptr);
}

TEST(ShimSpec, RefusesWhatIsCutOrChanged) {
  const std::string good = EncodeSpec(Sample());
  SpecView view;
  for (const std::size_t size : {std::size_t{0}, sizeof(Header), good.size() - 1}) {
    EXPECT_EQ(OpenSpec(Memory(good.substr(0, size)).get(), view), EBADMSG) << size;
    CloseSpec(view);
  }
  std::string bad = good;
  bad[good.size() - 3] = 'z';
  EXPECT_EQ(OpenSpec(Memory(bad).get(), view), EBADMSG);
  CloseSpec(view);
}

TEST(ShimSpec, RefusesAnEmptyCommand) {
  ShimSpec spec = Sample();
  spec.argv.clear();
  SpecView view;
  EXPECT_EQ(OpenSpec(Memory(EncodeSpec(spec)).get(), view), EBADMSG);
  CloseSpec(view);
}

}  // namespace
}  // namespace launch::shim
