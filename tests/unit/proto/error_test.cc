#include <gtest/gtest.h>

#include "proto/convert_error.h"

namespace launch {
namespace {

TEST(Status, CarriesTheWholeError) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    const Error error{
        static_cast<ErrorCode>(code), "what", "what to do",
        Where{.file = "job\xff.yaml", .line = 3, .column = 7, .field = "batch.global"}};
    const grpc::Status status = ToStatus(error);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.error_message(), "what");
    EXPECT_EQ(FromStatus(status, "the controller"), error) << code;
  }
  const Error plain{ErrorCode::kNotFound, "no job 7", "", std::nullopt};
  EXPECT_EQ(FromStatus(ToStatus(plain), "the controller"), plain);
}

TEST(Status, UsesTheCodesThatOthersUnderstand) {
  EXPECT_EQ(ToStatus({ErrorCode::kCannotFit, "", "", {}}).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ToStatus({ErrorCode::kPermissionDenied, "", "", {}}).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ToStatus({ErrorCode::kResourceExhausted, "", "", {}}).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(Status, OfTheTransportNamesThePeer) {
  const Error error = FromStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection refused"),
                                 "the controller at h:1");
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_NE(error.message.find("the controller at h:1"), std::string::npos);
  EXPECT_NE(error.message.find("connection refused"), std::string::npos);
  EXPECT_FALSE(error.hint.empty());
  EXPECT_EQ(FromStatus(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, ""), "x").code,
            ErrorCode::kDeadlineExceeded);
}

TEST(Status, WithForeignDetailsIsStillAnError) {
  const Error error = FromStatus(grpc::Status(grpc::StatusCode::INTERNAL, "m", "\xff\xfe not ours"),
                                 "the controller");
  EXPECT_EQ(error.code, ErrorCode::kInternal);
  EXPECT_FALSE(error.message.empty());
}

TEST(Status, FitsIntoTheTrailers) {
  const grpc::Status status =
      ToStatus({ErrorCode::kInternal, std::string(100'000, 'm'), std::string(100'000, 'h'),
                Where{.file = std::string(9'000, 'f')}});
  EXPECT_LT(status.error_message().size() + status.error_details().size(), 6'000U);
  EXPECT_EQ(FromStatus(status, "").code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace launch
