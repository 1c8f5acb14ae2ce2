#include "cli/unreachable.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/error.h"

namespace launch {
namespace {

Error Unavailable(const std::string& text) {
  return {
      ErrorCode::kUnavailable, "the controller at h:1 cannot be reached (" + text + ")", {}, {}};
}

TEST(Unreachable, OnlyWhatSpeaksOfACertificateIsAWrongCertificate) {
  for (const char* text :
       {"failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Ssl handshake "
        "failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:"
        "OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: self signed certificate in certificate chain",
        "Ssl handshake failed: SSL_ERROR_SSL: error:0A000086:SSL routines::certificate verify "
        "failed",
        "SSL_ERROR_SSL: error:10000418:SSL routines:OPENSSL_internal:TLSV1_ALERT_UNKNOWN_CA",
        "SSL_ERROR_SSL: error:0A000415:SSL routines::sslv3 alert certificate expired"}) {
    const Error told = ExplainUnreachable(Unavailable(text));
    EXPECT_TRUE(told.message.starts_with("certificates do not match")) << told.message;
  }
  for (const char* text :
       {"failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Handshake "
        "timed out",
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Handshake read "
        "failed (Socket closed)",
        "connection attempt timed out before receiving SETTINGS frame",
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Did not "
        "receive HTTP/2 settings before handshake timeout"}) {
    const Error told = ExplainUnreachable(Unavailable(text));
    EXPECT_TRUE(told.message.starts_with("the controller does not answer")) << told.message;
    EXPECT_EQ(told.hint.find("login"), std::string::npos) << told.hint;
  }
  EXPECT_TRUE(ExplainUnreachable(Unavailable("Socket closed"))
                  .message.starts_with("connection closed by the other side"));
  EXPECT_TRUE(ExplainUnreachable(Unavailable("failed to connect to all addresses; last error: "
                                             "UNKNOWN: ipv4:127.0.0.1:1: Connection refused"))
                  .message.starts_with("controller unreachable"));
}

TEST(Unreachable, ACallThatMayHaveArrivedNamesTheKeyOfItsRepetition) {
  EXPECT_FALSE(MayHaveArrived(Unavailable("failed to connect to all addresses; last error: x")));
  EXPECT_TRUE(MayHaveArrived(Unavailable("Socket closed")));
  EXPECT_TRUE(MayHaveArrived({ErrorCode::kDeadlineExceeded, "did not answer in time", {}, {}}));
  EXPECT_FALSE(MayHaveArrived({ErrorCode::kCannotFit, "too large", {}, {}}));
  const Error told = WithKey(OutcomeUnknown(Unavailable("Socket closed")), "0123abcd");
  EXPECT_NE(told.message.find("unknown"), std::string::npos);
  EXPECT_NE(told.hint.find("--idempotency-key 0123abcd"), std::string::npos) << told.hint;
  EXPECT_EQ(WithKey({ErrorCode::kCannotFit, "too large", "fewer", {}}, "0123abcd").hint, "fewer");
}

TEST(Unreachable, IsTriedAgainUntilItIsAnswered) {
  std::vector<int> pauses;
  const auto pause = [&](int attempt) { pauses.push_back(attempt); };
  int calls = 0;
  const auto third = [&]() -> Result<int> {
    if (++calls < 3) return Unexpected(Unavailable("Socket closed"));
    return calls;
  };
  EXPECT_EQ(*Again(5, pause, third), 3);
  EXPECT_EQ(pauses, (std::vector<int>{0, 1}));
  calls = 0;
  EXPECT_FALSE(Again(2, pause, third));
  EXPECT_EQ(calls, 2);
  calls = 0;
  const auto refused = [&]() -> Result<int> {
    ++calls;
    return Fail(ErrorCode::kNotFound, "no such job");
  };
  EXPECT_FALSE(Again(5, pause, refused));
  EXPECT_EQ(calls, 1);
}

TEST(Unreachable, WhatMayNotHappenTwiceIsTriedAgainOnlyWhereItWasNotSent) {
  int calls = 0;
  const auto pause = [](int) {};
  const auto third = [&](const std::string& text) {
    calls = 0;
    return Again(
        5, pause,
        [&]() -> Result<int> {
          if (++calls < 3) return Unexpected(Unavailable(text));
          return calls;
        },
        Repeat::kUnsent);
  };
  EXPECT_TRUE(third("failed to connect to all addresses; last error: Connection refused"));
  EXPECT_FALSE(third("Socket closed"));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace launch
