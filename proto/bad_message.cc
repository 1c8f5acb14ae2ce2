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
      break;
  }
  v.body = from_node::Notice{.kind = "node.bad_message", .text = why.message};
  return v;
}

}  // namespace launch
