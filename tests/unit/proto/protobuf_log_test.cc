#include "proto/protobuf_log.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "proto/value.pb.h"

namespace launch {
namespace {

// A message that protobuf complains about aloud: text that is no UTF-8.
void Complain() {
  v1::Finding finding;
  finding.set_code("\xff");
  (void)finding.SerializeAsString();
}

std::string* heard = nullptr;

TEST(ProtobufLog, NeverReachesStandardErrorAndGoesWhereItIsWanted) {
  ::testing::internal::CaptureStderr();
  Complain();
  ASSERT_NE(::testing::internal::GetCapturedStderr(), "") << "protobuf is silent by itself";
  ::testing::internal::CaptureStderr();
  SetProtobufLog(nullptr);
  Complain();
  std::string lines;
  heard = &lines;
  SetProtobufLog([](const std::string& line) { *heard += line; });
  Complain();
  SetProtobufLog(nullptr);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_NE(lines.find("UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace launch
