// What the release before this one says on the wire is understood, and what it reads is still sent:
// tests/golden/wire/previous.binpb is its schema (of the commit in tests/package/PREVIOUS).
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/pki.h"
#include "proto/record.pb.h"
#include "tests/unit/proto/every_message.h"
#include "tests/unit/proto/fill_message.h"

namespace launch {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

class PreviousRelease {
 public:
  PreviousRelease() {
    std::ifstream in(LAUNCH_PREVIOUS_SCHEMA, std::ios::binary);
    google::protobuf::FileDescriptorSet set;
    EXPECT_TRUE(set.ParseFromIstream(&in)) << LAUNCH_PREVIOUS_SCHEMA;
    for (const auto& file : set.file()) files_.push_back(pool_.BuildFile(file));
  }
  const std::vector<const FileDescriptor*>& files() const { return files_; }
  const Descriptor* Find(const std::string& name) const {
    return pool_.FindMessageTypeByName(name);
  }

 private:
  DescriptorPool pool_;
  std::vector<const FileDescriptor*> files_;
};

const PreviousRelease& Before() {
  static const PreviousRelease* const before = new PreviousRelease();
  return *before;
}

// Takes away whatever that release does not know, as if it had written the message. False when a
// choice was lost that it would have made otherwise.
bool Forget(Message& message, const Descriptor& known) {
  const google::protobuf::Reflection& at = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  at.ListFields(message, &fields);
  bool same_choice = true;
  for (const FieldDescriptor* field : fields) {
    const FieldDescriptor* old = known.FindFieldByNumber(field->number());
    if (old == nullptr) {
      same_choice = same_choice && field->real_containing_oneof() == nullptr;
      at.ClearField(&message, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) {
        same_choice =
            Forget(*at.MutableMessage(&message, field), *old->message_type()) && same_choice;
        continue;
      }
      for (int i = 0; i < at.FieldSize(message, field); ++i)
        same_choice =
            Forget(*at.MutableRepeatedMessage(&message, field, i), *old->message_type()) &&
            same_choice;
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      const auto is_known = [&](int value) {
        return old->enum_type()->FindValueByNumber(value) != nullptr;
      };
      if (!field->is_repeated()) {
        same_choice = same_choice && is_known(at.GetEnumValue(message, field));
        continue;
      }
      for (int i = 0; i < at.FieldSize(message, field); ++i)
        same_choice = same_choice && is_known(at.GetRepeatedEnumValue(message, field, i));
    }
  }
  if (auto* prepare = dynamic_cast<pb::Prepare*>(&message)) {
    pb::AllocationSpec spec;
    spec.ParseFromString(prepare->spec());
    same_choice = Forget(spec, *Before().Find(spec.GetTypeName())) && same_choice;
    prepare->set_spec(spec.SerializeAsString());
    prepare->set_digest(Sha256Hex(prepare->spec()));
  }
  return same_choice;
}

template <class M>
class WrittenBefore : public ::testing::Test {};
TYPED_TEST_SUITE_P(WrittenBefore);

TYPED_TEST_P(WrittenBefore, IsUnderstood) {
  TypeParam probe;
  const Descriptor* const known = Before().Find(probe.GetTypeName());
  if (known == nullptr) return;  // that release never sends one
  int tried = 0;
  for (std::uint64_t seed = 1; seed <= 60 && tried < 12; ++seed) {
    TypeParam message;
    testing::MessageFiller(seed).Fill(message);
    ASSERT_TRUE(testing::Conversion<TypeParam>::Read(message).has_value());
    if (!Forget(message, *known)) continue;
    ++tried;
    const auto read = testing::Conversion<TypeParam>::Read(message);
    ASSERT_TRUE(read.has_value()) << "seed " << seed << ": " << read.error().message << "\n"
                                  << message.ShortDebugString();
  }
  EXPECT_GT(tried, 0) << "nothing that both releases know was drawn";
}

REGISTER_TYPED_TEST_SUITE_P(WrittenBefore, IsUnderstood);
INSTANTIATE_TYPED_TEST_SUITE_P(Values, WrittenBefore, testing::Values);
INSTANTIATE_TYPED_TEST_SUITE_P(MoreValues, WrittenBefore, testing::MoreValues);
using Envelopes = ::testing::Types<pb::FromNode, pb::ToNode>;
INSTANTIATE_TYPED_TEST_SUITE_P(Envelopes, WrittenBefore, Envelopes);

// Fields, values and methods that the release before this one knows keep number and meaning.
class Kept {
 public:
  void Check(const Descriptor& old) {
    const Descriptor* now = pool_.FindMessageTypeByName(old.full_name());
    ASSERT_NE(now, nullptr) << old.full_name() << " is gone";
    for (int i = 0; i < old.field_count(); ++i) Check(*old.field(i), *now);
    for (int i = 0; i < old.nested_type_count(); ++i) Check(*old.nested_type(i));
    for (int i = 0; i < old.enum_type_count(); ++i) Check(*old.enum_type(i));
  }
  void Check(const EnumDescriptor& old) {
    const EnumDescriptor* now = pool_.FindEnumTypeByName(old.full_name());
    ASSERT_NE(now, nullptr) << old.full_name() << " is gone";
    for (int i = 0; i < old.value_count(); ++i) {
      const auto* value = now->FindValueByNumber(old.value(i)->number());
      ASSERT_NE(value, nullptr) << old.value(i)->full_name() << " is gone";
      EXPECT_EQ(value->name(), old.value(i)->name()) << "another meaning of one number";
    }
  }
  void Check(const MethodDescriptor& old) {
    const MethodDescriptor* now = pool_.FindMethodByName(old.full_name());
    ASSERT_NE(now, nullptr) << old.full_name() << " is gone";
    EXPECT_EQ(now->input_type()->full_name(), old.input_type()->full_name());
    EXPECT_EQ(now->output_type()->full_name(), old.output_type()->full_name());
    EXPECT_EQ(now->client_streaming(), old.client_streaming()) << old.full_name();
    EXPECT_EQ(now->server_streaming(), old.server_streaming()) << old.full_name();
  }

 private:
  void Check(const FieldDescriptor& old, const Descriptor& now) {
    const FieldDescriptor* field = now.FindFieldByNumber(old.number());
    if (field == nullptr) {
      EXPECT_TRUE(now.IsReservedNumber(old.number()))
          << old.full_name() << " is gone and its number is free for another";
      return;
    }
    EXPECT_EQ(field->name(), old.name()) << old.full_name();
    EXPECT_EQ(field->type(), old.type()) << old.full_name();
    EXPECT_EQ(field->is_repeated(), old.is_repeated()) << old.full_name();
    EXPECT_EQ(field->has_presence(), old.has_presence()) << old.full_name();
  }

  const DescriptorPool& pool_ = *DescriptorPool::generated_pool();
};

TEST(PreviousRelease, FieldsValuesAndMethodsKeepNumberAndMeaning) {
  ASSERT_NE(pb::NodeRecord::descriptor(), nullptr);  // links the stored records
  ASSERT_GE(Before().files().size(), 4u);
  Kept kept;
  for (const FileDescriptor* file : Before().files()) {
    ASSERT_NE(file, nullptr);
    for (int i = 0; i < file->message_type_count(); ++i) kept.Check(*file->message_type(i));
    for (int i = 0; i < file->enum_type_count(); ++i) kept.Check(*file->enum_type(i));
    for (int i = 0; i < file->service_count(); ++i)
      for (int j = 0; j < file->service(i)->method_count(); ++j)
        kept.Check(*file->service(i)->method(j));
  }
}

}  // namespace
}  // namespace launch
