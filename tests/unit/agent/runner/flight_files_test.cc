// Files of the flight recorder in a rank's directory, which its user may have written.
#include "agent/runner/flight_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base64.h"
#include "tests/unit/common/flight_records.h"

namespace launch::agent {
namespace {

class FlightFiles : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/flight_files_XXXXXX";
    root_ = ::mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(root_ + "/" + name, std::ios::binary) << bytes;
    return root_ + "/" + name;
  }
  std::string root_;
};

TEST_F(FlightFiles, EachRankOfADirectoryHasItsLines) {
  Put("nccl_trace_rank_10", *FromBase64(kLate, kPlainAlphabet));
  Put("nccl_trace_rank_9", *FromBase64(kWaits, kPlainAlphabet));
  const auto lines = FlightLinesIn(root_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].starts_with("flight recorder: rank 9 in group 0")) << lines[0];
  EXPECT_NE(lines[0].find("waits in 4: all_reduce"), std::string::npos);
  EXPECT_TRUE(lines[1].starts_with("flight recorder: rank 10 in group 0")) << lines[1];
}

TEST_F(FlightFiles, WhatIsNoFileOfTheRecorderIsLeftOut) {
  const std::string whole = *FromBase64(kWaits, kPlainAlphabet);
  Put("nccl_trace_rank_1", whole.substr(0, whole.size() / 2));
  Put("nccl_trace_rank_x", whole);
  Put("nccl_trace_rank_2x", whole);
  Put("nccl_trace_rank_-3", whole);
  const std::string outside = Put("other", whole);
  std::filesystem::create_symlink(outside, root_ + "/nccl_trace_rank_4");
  std::filesystem::create_hard_link(outside, root_ + "/nccl_trace_rank_5");
  std::filesystem::create_directory(root_ + "/nccl_trace_rank_6");
  Put("nccl_trace_rank_7", std::string(9 << 20, 'N'));
  EXPECT_TRUE(FlightLinesIn(root_).empty());
  EXPECT_TRUE(FlightLinesIn(root_ + "/absent").empty());
}

}  // namespace
}  // namespace launch::agent
