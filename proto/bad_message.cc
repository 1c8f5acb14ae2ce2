// What a refused message of an agent stands for: less than it said, and never more.
#include <utility>

#include "proto/convert_node.h"
#include "proto/convert_value.h"
#include "proto/edge.h"
#include "proto/node.pb.h"

namespace launch {

namespace {

from_node::Refused RefusedInstead(const Key& key, const char* stage, const Error& why) {
  return {.key = key,
          .digest = {},
          .stage = stage,
          .code = "bad_message",
          .why = "its message could not be read: " + why.message,
          .floor = std::nullopt};
}

from_node::RankExited ExitInstead(const Key& key, Rank rank, const Error& why) {
  ExitReport report;
  report.key = key;
  report.rank = rank;
  report.cause = UnknownEnd{"its report could not be read: " + why.message};
  return {std::move(report)};
}

const pb::Key* KeyIn(const pb::FromNode& m) {
  switch (m.body_case()) {
    case pb::FromNode::kAccepted:
      return &m.accepted().key();
    case pb::FromNode::kReady:
      return &m.ready().key();
    case pb::FromNode::kStarted:
      return &m.started().key();
    case pb::FromNode::kRefused:
      return &m.refused().key();
    case pb::FromNode::kRankExited:
      return &m.rank_exited().report().key();
    default:
      return nullptr;
  }
}

}  // namespace

std::optional<FromNodeEnvelope> InsteadOf(const pb::FromNode& m, const Error& why) {
  FromNodeEnvelope v;
  v.session = m.session();
  Key key;
  if (const pb::Key* named = KeyIn(m)) {
    auto read = FromProto(*named);
    if (!read) return std::nullopt;
    key = *read;
  }
  switch (m.body_case()) {
    case pb::FromNode::BODY_NOT_SET:
    case pb::FromNode::kHello:
    case pb::FromNode::kBeat:
    case pb::FromNode::kHeard:
      return std::nullopt;
    // Not "accept": of what it refuses to accept a node holds nothing, and this one holds it.
    case pb::FromNode::kAccepted:
    case pb::FromNode::kRefused:
    case pb::FromNode::kReady:
      v.body = RefusedInstead(key, "stage", why);
      return v;
    case pb::FromNode::kStarted:
      v.body = RefusedInstead(key, "go", why);
      return v;
    case pb::FromNode::kRankExited: {
      const std::int32_t rank = m.rank_exited().report().rank();
      if (rank < 0 || rank >= edge::kMaxRanks) return std::nullopt;
      v.body = ExitInstead(key, rank, why);
      return v;
    }
    // Display, facts about the node, or a proof that must not be guessed: GPUs stay held.
    case pb::FromNode::kSamples:
    case pb::FromNode::kInventoryChanged:
    case pb::FromNode::kStaging:
    case pb::FromNode::kReleased:
    case pb::FromNode::kNotice:
    case pb::FromNode::kStacks:
      break;
  }
  v.body = from_node::Notice{.kind = "node.bad_message", .text = why.message};
  return v;
}

namespace {

constexpr Millis kGraceUnread{30'000};  // of a Stop whose own could not be read

std::optional<Key> Read(const pb::Key& m) {
  auto key = FromProto(m);
  return key ? std::optional(*key) : std::nullopt;
}

// Damaged bytes may still be a message that names an attempt, which then fails in place of all.
std::optional<Key> KeyOfSpec(const std::string& bytes) {
  pb::AllocationSpec spec;
  return spec.ParseFromString(bytes) ? Read(spec.key()) : std::nullopt;
}

std::optional<ToNode> ObeyedLess(const pb::ToNode& m, const std::string& why) {
  switch (m.body_case()) {
    case pb::ToNode::kPrepare:
      if (const auto key = KeyOfSpec(m.prepare().spec())) {
        to_node::Prepare v;
        v.spec.key = *key;
        v.digest = DigestOfSpec(m.prepare().spec());
        v.refused = why;
        return v;
      }
      break;
    case pb::ToNode::kStage:
      if (const auto key = Read(m.stage().key()))
        return to_node::Stage{.key = *key, .refused = why};
      break;
    case pb::ToNode::kGo:
      if (const auto key = Read(m.go().key())) return to_node::Go{.key = *key, .refused = why};
      break;
    case pb::ToNode::kStop:
      if (const auto key = Read(m.stop().key())) {
        return to_node::Stop{.key = *key, .cause = StopCause::kNone, .grace = kGraceUnread};
      }
      break;
    case pb::ToNode::kExitAck:
    case pb::ToNode::kForget:
    case pb::ToNode::kCollectStacks:
    case pb::ToNode::kRetest:
    case pb::ToNode::kOpenExec:
      break;
    case pb::ToNode::kWelcome:
    case pb::ToNode::kPong:
    case pb::ToNode::BODY_NOT_SET:
      return std::nullopt;
  }
  return to_node::Pong{};
}

}  // namespace

std::optional<ToNodeEnvelope> InsteadOf(const pb::ToNode& m, const Error& why) {
  const auto fence = FromProto(m.fence());
  if (!fence) return std::nullopt;
  auto body = ObeyedLess(m, why.message);
  if (!body) return std::nullopt;
  return ToNodeEnvelope{.fence = *fence, .session = m.session(), .body = std::move(*body)};
}

}  // namespace launch
