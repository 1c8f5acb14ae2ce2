// Between node.proto and common/node_messages.h: the envelopes of the agent's stream, validated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/node_messages.h"
#include "common/plan.h"

namespace launch::v1 {
class Fence;
class FromNode;
class ToNode;
}  // namespace launch::v1

namespace launch {

namespace pb = ::launch::v1;

// Versions of the agent's protocol that a program speaks. Hello offers them, Welcome names the one.
struct ProtocolRange {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
};
inline constexpr ProtocolRange kNodeProtocols{1, 1};
// The newest that both speak; kUnimplemented names both ranges.
Result<std::uint32_t> CommonProtocol(const ProtocolRange& agent, const ProtocolRange& controller);

// A message of a kind that came after this version. It is passed over: what must be understood
// raises the version of the protocol.
bool IsOfNewerKind(const pb::FromNode& m);
bool IsOfNewerKind(const pb::ToNode& m);

struct FromNodeEnvelope {
  std::uint64_t session = 0;  // 0 in Hello: Welcome gives one
  FromNode body;
  friend bool operator==(const FromNodeEnvelope&, const FromNodeEnvelope&) = default;
};

pb::FromNode ToProto(const FromNodeEnvelope& v);
pb::ToNode ToProto(
    const ToNodeEnvelope& v);  // of Prepare: `spec_bytes` as they are, if there are any
pb::Fence ToProto(const Fence& v);

// Errors as in convert_value.h; the path starts with the body: "hello.inventory.gpus[0].uuid".
// A Hello whose protocol range leaves us out is kUnimplemented and names both ranges.
// A Prepare whose digest is not that of its bytes is kDataLoss.
Result<FromNodeEnvelope> FromProto(const pb::FromNode& m);
Result<ToNodeEnvelope> FromProto(const pb::ToNode& m);
Result<Fence> FromProto(const pb::Fence& m);

// What a message that FromProto refused stands for: the failed start of its attempt, an unknown end
// of its rank, or a notice; nothing where the refusal is about the stream itself (Hello, Beat, no
// body, or a key that names nothing).
std::optional<FromNodeEnvelope> InsteadOf(const pb::FromNode& m, const Error& why);

// The same of a message of the controller: Prepare, Stage and Go that the agent refuses to obey, a
// Stop with a grace of our own. Where not even the attempt can be read, and for what only tells the
// agent something, it stands for a sign of life. Nothing where the refusal is about the stream
// itself (the fence, Welcome, Pong, no body): such a stream must close.
std::optional<ToNodeEnvelope> InsteadOf(const pb::ToNode& m, const Error& why);

// Serialised once, where the plan is made: digest, store and wire all use these bytes.

std::string SerializeSpec(const AllocationSpec& spec);
std::string DigestOfSpec(std::string_view bytes);  // SHA-256, hex
Result<AllocationSpec> ParseSpec(std::string_view bytes);

// Stored form of a plan.
std::string SerializePlan(const Plan& plan);
Result<Plan> ParsePlan(std::string_view bytes);

}  // namespace launch
