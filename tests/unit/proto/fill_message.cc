#include "tests/unit/proto/fill_message.h"

#include <array>
#include <cstdio>
#include <set>

#include "common/pki.h"
#include "proto/launch.pb.h"
#include "proto/node.pb.h"
#include "proto/value.pb.h"

namespace launch::testing {

namespace pb = ::launch::v1;
using google::protobuf::Message;

namespace {

// What the values of one message have to agree on.
void Agree(pb::NodeCount& m) { m.set_max(m.min() + 1); }
void Agree(pb::JobSpec& m) {  // one interpreter; each of the four gets its turn
  if (m.snapshot()) m.clear_in_place();
  const auto keep = m.steps() % 4;
  if (keep != 0) m.clear_venv();
  if (keep != 1) m.clear_conda();
  if (keep != 2) m.clear_python();
  if (keep != 3) m.clear_image();
  if (keep < 2) {  // many jobs, or one of them
    m.clear_array();
  } else {
    m.clear_element();
  }
}
void Agree(pb::Dependency& m) {
  if (m.kind() == pb::DEPENDENCY_KIND_SINGLETON) m.clear_job();
}
void Agree(pb::AllocationSpec& m) {
  m.mutable_ranks(0)->set_rank(0);
  m.set_world_size(60'000);
  for (pb::RankSpec& rank : *m.mutable_ranks()) *rank.mutable_gpus() = m.gpus();
}
void Agree(pb::RankStatus& m) { m.mutable_exit()->set_rank(m.rank()); }
void Agree(pb::AllocationStatus& m) {
  for (pb::RankStatus& rank : *m.mutable_ranks()) *rank.mutable_exit()->mutable_key() = m.key();
}
// The elements of a sweep are its grid: here one axis.
void Agree(pb::ArraySpec& m) {
  while (m.sweep_size() > 1) m.mutable_sweep()->RemoveLast();
  if (m.sweep_size() == 0) return;
  pb::SweepAxis& axis = *m.mutable_sweep(0);
  while (axis.values_size() < m.indices_size())
    axis.add_values("v" + std::to_string(axis.values_size()));
  while (axis.values_size() > m.indices_size()) axis.mutable_values()->RemoveLast();
}
void Agree(pb::SubmitRequest& m) {
  m.mutable_spec()->clear_element();  // of the controller
  m.mutable_secrets()->clear();
  for (const std::string& name : m.spec().secrets()) (*m.mutable_secrets())[name] = "s\xfe" + name;
}
void Agree(pb::LogsReply& m) {
  if (m.has_gap()) m.mutable_gap()->set_to(m.gap().from() + 7);
}
void Agree(pb::Welcome& m) {
  m.set_protocol(1);
  m.set_silent_ms(m.beat_ms() + 5);
}
void Agree(pb::Hello& m) {
  m.set_protocol_min(1);
  m.set_protocol_max(1);
  m.set_run_as("single_user " + m.version());
}

template <class... Ms>
void AgreeIfOneOf(Message& message) {
  const auto agree = [&message]<class M>(M*) {
    if (auto* m = dynamic_cast<M*>(&message)) Agree(*m);
  };
  (agree(static_cast<Ms*>(nullptr)), ...);
}

}  // namespace

std::int64_t MessageFiller::Draw(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
}

std::string MessageFiller::Hex(std::size_t digits) {
  std::string text;
  while (text.size() < digits) text += "0123456789abcdef"[Draw(0, 15)];
  return text;
}

std::string MessageFiller::Text(const Field& field) {
  const std::string& name = field.name();
  const std::string& of = field.containing_type()->name();
  if (name == "exec") return Hex(32);
  if (name == "digest" || name == "plan_digest" || name == "request_digest" || name == "snapshot" ||
      name == "root") {
    return Hex(64);
  }
  if (name == "idempotency_key") return Hex(32);
  if (name == "serial") return Hex(32);
  if (name == "scope") return "job";
  if (name == "stage") return "stage";
  if (name == "stream") return "err";
  if (name == "role") return "user";
  if (name == "format" && of == "CheckpointSpec") return "torch";
  if (name == "address") return "10.0." + std::to_string(Draw(0, 255)) + ".7";
  std::array<char, 16> number{};
  std::snprintf(number.data(), number.size(), "%06lld", static_cast<long long>(++counter_));
  // Bytes hold what no text may; paths are absolute.
  if (field.type() == Field::TYPE_BYTES) return "/b\xfe" + std::string(number.data());
  return "n" + std::string(number.data());
}

std::int64_t MessageFiller::Number(const Field& field) {
  const std::string& name = field.name();
  const std::string& of = field.containing_type()->name();
  if (name.ends_with("signal")) return Draw(1, 64);
  if (name == "code" || name == "setup_exit" || name.ends_with("exit_code") ||
      name.ends_with("exit_codes")) {
    return Draw(1, 255);
  }
  if (name == "page_size") return 65'536;
  if (name == "priority") return Draw(1, 100);
  if (name.ends_with("_ms") && of == "Welcome") return Draw(10, 1'000);
  if (name == "life_ms") return Draw(1, 1'000'000);
  if (name.ends_with("_ms")) return Draw(1, 2'000'000'000'000);
  if (name.ends_with("_bytes") || name.ends_with("_ns")) return Draw(1, 1LL << 50);
  return ++counter_ % 1'000 + 1;
}

void MessageFiller::FillField(Message& message, const Field& field, bool add) {
  const google::protobuf::Reflection& at = *message.GetReflection();
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32: {
      const auto value = static_cast<std::int32_t>(Number(field));
      add ? at.AddInt32(&message, &field, value) : at.SetInt32(&message, &field, value);
      break;
    }
    case Field::CPPTYPE_INT64: {
      const std::int64_t value = Number(field);
      add ? at.AddInt64(&message, &field, value) : at.SetInt64(&message, &field, value);
      break;
    }
    case Field::CPPTYPE_UINT32: {
      const auto value = static_cast<std::uint32_t>(Number(field));
      add ? at.AddUInt32(&message, &field, value) : at.SetUInt32(&message, &field, value);
      break;
    }
    case Field::CPPTYPE_UINT64: {
      const auto value = static_cast<std::uint64_t>(Number(field));
      add ? at.AddUInt64(&message, &field, value) : at.SetUInt64(&message, &field, value);
      break;
    }
    case Field::CPPTYPE_DOUBLE: {
      const double value = static_cast<double>(++counter_) / 8;
      add ? at.AddDouble(&message, &field, value) : at.SetDouble(&message, &field, value);
      break;
    }
    case Field::CPPTYPE_BOOL: {
      const bool value = Draw(0, 3) != 0;
      add ? at.AddBool(&message, &field, value) : at.SetBool(&message, &field, value);
      break;
    }
    case Field::CPPTYPE_ENUM: {
      const int value = static_cast<int>(Draw(1, field.enum_type()->value_count() - 1));
      add ? at.AddEnumValue(&message, &field, value) : at.SetEnumValue(&message, &field, value);
      break;
    }
    case Field::CPPTYPE_STRING: {
      const std::string value = Text(field);
      add ? at.AddString(&message, &field, value) : at.SetString(&message, &field, value);
      break;
    }
    case Field::CPPTYPE_MESSAGE:
      Fill(add ? *at.AddMessage(&message, &field) : *at.MutableMessage(&message, &field));
      break;
    default:
      break;
  }
}

void MessageFiller::Fill(Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const Field& field = *type.field(i);
    if (field.real_containing_oneof() != nullptr) continue;
    FillField(message, field, field.is_repeated());
    if (field.is_repeated()) FillField(message, field, true);
  }
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    const auto& cases = *type.oneof_decl(i);
    FillField(message, *cases.field(static_cast<int>(Draw(0, cases.field_count() - 1))), false);
  }
  AgreeIfOneOf<pb::ArraySpec, pb::Dependency, pb::NodeCount, pb::JobSpec, pb::AllocationSpec,
               pb::RankStatus, pb::AllocationStatus, pb::SubmitRequest, pb::LogsReply, pb::Welcome,
               pb::Hello>(message);
  if (auto* prepare = dynamic_cast<pb::Prepare*>(&message)) {
    pb::AllocationSpec spec;
    Fill(spec);
    prepare->set_spec(spec.SerializeAsString());
    prepare->set_digest(Sha256Hex(prepare->spec()));
  }
}

}  // namespace launch::testing
