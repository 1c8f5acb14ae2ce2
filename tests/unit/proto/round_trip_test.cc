// What a message says survives the way to a value and back, field by field; damage never crashes.
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/proto/every_message.h"
#include "tests/unit/proto/fill_message.h"

namespace launch {
namespace {

using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;
using testing::Conversion;
using testing::MessageFiller;

std::string Difference(const Message& left, const Message& right) {
  std::string report;
  MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&report);
  return differencer.Compare(left, right) ? "" : report;
}

template <class M>
void ExpectRoundTrip(const M& message) {
  const auto value = Conversion<M>::Read(message);
  ASSERT_TRUE(value.has_value()) << value.error().message << "\n" << message.DebugString();
  EXPECT_EQ(Difference(message, Conversion<M>::Write(*value)), "");
}

// Whatever bytes arrive: refused, or a value that converts to itself again.
template <class M>
void ExpectHarmless(const std::string& bytes) {
  const google::protobuf::LogSilencer silence;  // of thousands of lines about UTF-8
  M message;
  if (!message.ParseFromString(bytes)) return;
  const auto value = Conversion<M>::Read(message);
  if (!value) {
    EXPECT_FALSE(value.error().message.empty());
    return;
  }
  const auto again = Conversion<M>::Read(Conversion<M>::Write(*value));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(*again == *value);
}

template <class M>
void ExpectHarmlessAround(const M& message, int flips) {
  std::mt19937_64 random(7);
  const std::string bytes = message.SerializeAsString();
  const std::size_t step = bytes.size() / 200 + 1;
  for (std::size_t size = 0; size < bytes.size(); size += step) {
    ExpectHarmless<M>(bytes.substr(0, size));
  }
  for (int i = 0; i < flips && !bytes.empty(); ++i) {
    std::string damaged = bytes;
    for (int hits = 0; hits <= i % 3; ++hits) {
      damaged[random() % damaged.size()] = static_cast<char>(random() & 0xFFU);
    }
    ExpectHarmless<M>(damaged);
  }
}

template <class M>
class EveryValue : public ::testing::Test {};
template <class M>
class EveryOtherValue : public ::testing::Test {};
TYPED_TEST_SUITE(EveryValue, testing::Values);
TYPED_TEST_SUITE(EveryOtherValue, testing::MoreValues);

template <class M>
void RoundTripManyTimes() {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    M message;
    MessageFiller(seed).Fill(message);
    ExpectRoundTrip(message);
    if (::testing::Test::HasFailure()) return;
  }
}
template <class M>
void DamageManyTimes() {
  M message;
  MessageFiller(3).Fill(message);
  ExpectHarmlessAround(message, 300);
}

TYPED_TEST(EveryValue, SurvivesTheRoundTrip) { RoundTripManyTimes<TypeParam>(); }
TYPED_TEST(EveryValue, SurvivesDamage) { DamageManyTimes<TypeParam>(); }
TYPED_TEST(EveryOtherValue, SurvivesTheRoundTrip) { RoundTripManyTimes<TypeParam>(); }
TYPED_TEST(EveryOtherValue, SurvivesDamage) { DamageManyTimes<TypeParam>(); }

// Each body of the stream's envelopes in turn.
template <class Envelope>
Envelope EnvelopeWith(const google::protobuf::FieldDescriptor& body, std::uint64_t seed) {
  Envelope envelope;
  MessageFiller filler(seed);
  filler.Fill(envelope);
  filler.Fill(*envelope.GetReflection()->MutableMessage(&envelope, &body));
  envelope.clear_seq();  // the transport's business, not the values'
  envelope.clear_ack();
  return envelope;
}

template <class Envelope>
void EveryBody() {
  const auto& bodies = *Envelope::descriptor()->FindOneofByName("body");
  for (int i = 0; i < bodies.field_count(); ++i) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const Envelope envelope = EnvelopeWith<Envelope>(*bodies.field(i), seed);
      ExpectRoundTrip(envelope);
      if (::testing::Test::HasFailure()) return;
      if (seed == 1) ExpectHarmlessAround(envelope, 300);
    }
  }
}

TEST(FromNodeEnvelope, EveryBodySurvivesTheRoundTripAndDamage) { EveryBody<pb::FromNode>(); }
TEST(ToNodeEnvelope, EveryBodySurvivesTheRoundTripAndDamage) { EveryBody<pb::ToNode>(); }

TEST(RandomBytes, NeverCrash) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 3'000; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() & 0xFFU);
    ExpectHarmless<pb::FromNode>(bytes);
    ExpectHarmless<pb::ToNode>(bytes);
    ExpectHarmless<pb::SubmitRequest>(bytes);
    ExpectHarmless<pb::LogsReply>(bytes);
    const google::protobuf::LogSilencer silence;
    (void)ParseSpec(bytes);
    (void)ParsePlan(bytes);
  }
}

}  // namespace
}  // namespace launch
