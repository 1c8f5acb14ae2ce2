#include "common/open_beneath.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace launch {
namespace {

namespace fs = std::filesystem;

class OpenBeneathTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "open-beneath-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
    fs::create_directories(top_ / "in/a/b");
    fs::create_directories(top_ / "out");
    fs::create_directory_symlink("a", top_ / "in/inner");
    fs::create_directory_symlink("../out", top_ / "in/outer");
    fs::create_directory_symlink(top_ / "out", top_ / "in/absolute");
    dir_ = UniqueFd(::open((top_ / "in").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  void TearDown() override { fs::remove_all(top_); }

  ErrorCode Refused(const std::string& path) const {
    const auto opened = OpenBeneath(dir_.get(), path);
    return opened ? ErrorCode::kInternal : opened.error().code;
  }
  fs::path top_;
  UniqueFd dir_;
};

TEST_F(OpenBeneathTest, FollowsWhatStaysInside) {
  const auto same = [&](const std::string& path, const char* expected) {
    struct stat got {};
    struct stat want {};
    const auto opened = OpenBeneath(dir_.get(), path);
    return opened && ::fstat(opened->get(), &got) == 0 &&
           ::stat((top_ / "in" / expected).c_str(), &want) == 0 && got.st_ino == want.st_ino;
  };
  EXPECT_TRUE(same(".", "."));
  EXPECT_TRUE(same("a/b", "a/b"));
  EXPECT_TRUE(same("a/./b/", "a/b"));
}

TEST_F(OpenBeneathTest, NothingLeadsOut) {
  for (const char* path : {"..", "a/../../out", "outer", "outer/x", "absolute", "/", "/tmp"})
    EXPECT_EQ(Refused(path), ErrorCode::kPermissionDenied) << path;
}

TEST_F(OpenBeneathTest, WhatIsNotThereIsSaidSo) { EXPECT_EQ(Refused("a/c"), ErrorCode::kNotFound); }

}  // namespace
}  // namespace launch
