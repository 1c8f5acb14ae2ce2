// The numbers of both sides are tied by position; their names prove that the positions agree.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_enum_reflection.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "tests/unit/proto/every_message.h"

namespace launch {
namespace {

// "fsdp-grad-op" and STRATEGY_FSDP_GRAD_OP are one word to a reader.
std::string Plain(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
  }
  return plain;
}

template <class Wire>
void ExpectSameNames() {
  const google::protobuf::EnumDescriptor& type = *google::protobuf::GetEnumDescriptor<Wire>();
  const std::string prefix = Plain(type.name());
  for (int i = 1; i < type.value_count(); ++i) {
    const auto value = FromProto(static_cast<Wire>(type.value(i)->number()));
    ASSERT_TRUE(value.has_value()) << type.value(i)->name();
    EXPECT_EQ(Plain(type.value(i)->name()), prefix + Plain(ToString(*value)));
    EXPECT_EQ(ToProto(*value), static_cast<Wire>(type.value(i)->number()));
  }
}

TEST(Enums, HaveTheSameNamesOnBothSides) {
  ExpectSameNames<pb::Arch>();
  ExpectSameNames<pb::DeviceClass>();
  ExpectSameNames<pb::Health>();
  ExpectSameNames<pb::LinkKind>();
  ExpectSameNames<pb::Containment>();
  ExpectSameNames<pb::CoherentMode>();
  ExpectSameNames<pb::LauncherKind>();
  ExpectSameNames<pb::Strategy>();
  ExpectSameNames<pb::Offload>();
  ExpectSameNames<pb::Precision>();
  ExpectSameNames<pb::DeviceChoice>();
  ExpectSameNames<pb::Trainer>();
  ExpectSameNames<pb::GpuBinding>();
  ExpectSameNames<pb::PreflightLevel>();
  ExpectSameNames<pb::NetworkCheck>();
  ExpectSameNames<pb::OnOom>();
  ExpectSameNames<pb::HangAction>();
  ExpectSameNames<pb::StartKind>();
  ExpectSameNames<pb::StopCause>();
  ExpectSameNames<pb::AllocationPhase>();
  ExpectSameNames<pb::Severity>();
  ExpectSameNames<pb::CheckResult>();
  ExpectSameNames<pb::Confidence>();
  ExpectSameNames<pb::Basis>();
  ExpectSameNames<pb::JobState>();
}

}  // namespace
}  // namespace launch
