// What comes over the wire, out of the store, out of logs and out of a join line.
#include <string>

#include "common/pki.h"
#include "controller/store/record_codec.h"
#include "diagnosis/verdict.h"
#include "proto/convert_exec.h"
#include "proto/convert_node.h"
#include "proto/convert_user.h"
#include "proto/launch.pb.h"
#include "proto/node.pb.h"
#include "tests/fuzz/targets.h"

namespace launch::fuzz {
namespace {

template <class M>
void ReadOne(std::string_view bytes) {
  M message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const auto value = FromProto(message);
  Require(value || !value.error().message.empty(), "a refusal says why");
}

template <class M>
void ReadAndSayAgain(std::string_view bytes) {
  M message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const auto value = FromProto(message);
  if (!value) return Require(!value.error().message.empty(), "a refusal says why");
  if constexpr (requires { FromProto(ToProto(*value)); })
    Require(FromProto(ToProto(*value)).has_value(), "what was read can be said again");
}

template <class M>
void PassOn(std::string_view bytes) {
  M message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  (void)CheckPassedOn(message);
}

// What was understood means the same after another trip.
template <class M>
void ReadEnvelope(std::string_view bytes) {
  M message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const auto value = FromProto(message);
  if (!value) {
    (void)InsteadOf(message, value.error());
    return;
  }
  Require(FromProto(ToProto(*value)).has_value(), "what was read can be said again");
}

}  // namespace

// The first byte says which message it is.
void FuzzProtoMessages(std::string_view all) {
  namespace pb = launch::v1;
  if (all.empty()) return;
  const std::string_view bytes = all.substr(1);
  switch (static_cast<unsigned char>(all[0]) % 9) {
    case 0:
      return ReadEnvelope<pb::FromNode>(bytes);
    case 1:
      return ReadEnvelope<pb::ToNode>(bytes);
    case 2:
      return ReadOne<pb::SubmitRequest>(bytes);
    case 3:
      return ReadOne<pb::PlanRequest>(bytes);
    case 4:
      return ReadOne<pb::CancelRequest>(bytes);
    case 5:
      return ReadOne<pb::LogsRequest>(bytes);
    case 6:
      return ReadOne<pb::JoinRequest>(bytes);
    case 7:
      return ReadOne<pb::QuarantineRequest>(bytes);
    default:
      return ReadOne<pb::CreateTokenRequest>(bytes);
  }
}

// The first byte says which one of those that FuzzProtoMessages leaves out: calls of users, what
// the controller answers to them, what both ends of an exec say.
void FuzzRpcMessages(std::string_view all) {
  namespace pb = launch::v1;
  static constexpr void (*kReaders[])(std::string_view) = {
      ReadAndSayAgain<pb::JobsRequest>,
      ReadAndSayAgain<pb::NoteProbeRequest>,
      ReadAndSayAgain<pb::ChangeRequest>,
      ReadAndSayAgain<pb::WatchRequest>,
      ReadAndSayAgain<pb::RevokeTokenRequest>,
      ReadAndSayAgain<pb::DrainRequest>,
      ReadAndSayAgain<pb::ForgetNodeRequest>,
      ReadAndSayAgain<pb::FenceNodeRequest>,
      ReadAndSayAgain<pb::SubmitReply>,
      ReadAndSayAgain<pb::PlanReply>,
      ReadAndSayAgain<pb::JobsReply>,
      ReadAndSayAgain<pb::JobReply>,
      ReadAndSayAgain<pb::NodesReply>,
      ReadAndSayAgain<pb::CancelReply>,
      ReadAndSayAgain<pb::ChangeReply>,
      ReadAndSayAgain<pb::WatchReply>,
      ReadAndSayAgain<pb::LogsReply>,
      ReadAndSayAgain<pb::QuarantineReply>,
      ReadAndSayAgain<pb::Fence>,
      ReadAndSayAgain<pb::TerminalSize>,
      ReadAndSayAgain<pb::ExecCommand>,
      ReadAndSayAgain<pb::ExecEnd>,
      ReadAndSayAgain<pb::ExecRequest_Open>,
      PassOn<pb::ExecInput>,
      PassOn<pb::ExecOutput>,
  };
  if (all.empty()) return;
  kReaders[static_cast<unsigned char>(all[0]) % std::size(kReaders)](all.substr(1));
}

// The first byte says whose row it is. What is taken is written in the same words.
void FuzzStoredRow(std::string_view all) {
  static constexpr const char* kKeys[] = {
      "cluster",
      "job/00000000000000000001",
      "spec/00000000000000000001",
      "attempt/00000000000000000001/0000000001",
      "alloc/00000000000000000001/0000000001/n1",
      "rank/00000000000000000001/0000000001/0000000000",
      "node/n1",
      "inventory/n1",
      "gpu/GPU-1",
      "user/ana",
      "join/00112233445566778899aabbccddeeff",
      "deny/00112233445566778899aabbccddeeff",
      "idem/ana/key",
      "secret/00000000000000000001/TOKEN",
      "plan/00000000000000000001/0000000001/0000000000",
  };
  if (all.empty()) return;
  const std::string key = kKeys[static_cast<unsigned char>(all[0]) % std::size(kKeys)];
  const auto entity = controller::DecodeRecord(key, std::string(all.substr(1)));
  if (!entity) {
    Require(!entity.error().message.empty(), "a refusal says why");
    return;
  }
  Require(controller::KeyOf(*entity) == key, "a row is of its key");
}

// Any bytes: a verdict with a label, whatever they say.
void FuzzLogScanner(std::string_view bytes) {
  static const CompiledSignatures signatures;
  const Verdict verdict = Diagnose(bytes, NodeEvidence{}, signatures);
  Require(!verdict.label.empty(), "there is always a label");
}

void FuzzJoinLine(std::string_view bytes) {
  if (const auto token = ParseJoinToken(bytes)) {
    Require(ParseJoinToken(FormatJoinToken(*token)).has_value(), "a token can be said again");
  }
  if (const auto identity = ParseIdentityUri(bytes)) {
    Require(ToUri(*identity) == bytes, "an identity is one text exactly");
  }
  (void)ReadCertificate(bytes);
  (void)CheckCsr(bytes);
}

}  // namespace launch::fuzz
