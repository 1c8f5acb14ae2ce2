// A Prepare whose spec the agent cannot take reaches its core, which answers it.
#include <gtest/gtest.h>

#include "proto/convert_node.h"
#include "proto/edge.h"
#include "proto/node.pb.h"
#include "tests/unit/proto/fill_message.h"

namespace launch {
namespace {

pb::ToNode PrepareOf(const pb::AllocationSpec& spec) {
  pb::ToNode envelope;
  envelope.mutable_fence()->set_incarnation(1);
  envelope.mutable_prepare()->set_spec(edge::SerializeDeterministic(spec));
  envelope.mutable_prepare()->set_digest(DigestOfSpec(envelope.prepare().spec()));
  return envelope;
}

TEST(PrepareWithABadSpec, ArrivesWithItsKeyAndTheReason) {
  pb::AllocationSpec spec;
  testing::MessageFiller(5).Fill(spec);
  *spec.mutable_ranks(0)->mutable_argv(0) = "/" + std::string(edge::kMaxValue, 'x');
  const auto envelope = FromProto(PrepareOf(spec));
  ASSERT_TRUE(envelope.has_value()) << envelope.error().message;
  const auto& prepare = std::get<to_node::Prepare>(envelope->body);
  EXPECT_EQ(prepare.spec.key.job.value, spec.key().job());
  EXPECT_EQ(prepare.refused, "spec.ranks[0].argv[0]: is longer than 131072 bytes");
  EXPECT_TRUE(prepare.spec.ranks.empty()) << "nothing of it can be obeyed";
}

TEST(PrepareWithABadSpec, WithoutAKeyThereIsNothingToAnswer) {
  pb::AllocationSpec spec;
  testing::MessageFiller(5).Fill(spec);
  spec.mutable_key()->set_attempt(0);
  const auto envelope = FromProto(PrepareOf(spec));
  ASSERT_FALSE(envelope.has_value());
  EXPECT_TRUE(envelope.error().message.starts_with("prepare.spec.key.attempt"))
      << envelope.error().message;
}

}  // namespace
}  // namespace launch
