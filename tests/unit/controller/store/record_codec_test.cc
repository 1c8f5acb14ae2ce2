// Stored rows: every entity comes back whole, under its own key only, whatever happened to the
// bytes.
#include "controller/store/record_codec.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "controller/core/draft.h"
#include "controller/store/store.h"
#include "proto/record.pb.h"
#include "tests/unit/proto/fill_message.h"

namespace launch::controller {
namespace {

namespace pb = ::launch::v1;
using testing::MessageFiller;

std::string Padded(std::uint64_t value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llu", digits, static_cast<unsigned long long>(value));
  return text;
}
std::string Of(const pb::Key& key) {
  return Padded(key.job(), 20) + "/" + Padded(key.attempt(), 10);
}

// The keys as documented: other programs and older releases rely on them.
std::string RowKey(const pb::ClusterRecord&) { return "cluster"; }
std::string RowKey(const pb::JobRecord& m) { return "job/" + Padded(m.id(), 20); }
std::string RowKey(const pb::SpecRecord& m) { return "spec/" + Padded(m.id(), 20); }
std::string RowKey(const pb::PlanChunkRecord& m) {
  return "plan/" + Of(m.key()) + "/" + Padded(m.chunk(), 10);
}
std::string RowKey(const pb::AttemptRecord& m) { return "attempt/" + Of(m.key()); }
std::string RowKey(const pb::AllocRecord& m) { return "alloc/" + Of(m.key()) + "/" + m.node(); }
std::string RowKey(const pb::RankRecord& m) {
  return "rank/" + Of(m.key()) + "/" + Padded(static_cast<std::uint64_t>(m.rank()), 10);
}
std::string RowKey(const pb::NodeRecord& m) { return "node/" + m.id(); }
std::string RowKey(const pb::InventoryRecord& m) { return "inventory/" + m.inventory().node(); }
std::string RowKey(const pb::GpuRecord& m) { return "gpu/" + m.uuid(); }
std::string RowKey(const pb::UserRecord& m) { return "user/" + m.name(); }
std::string RowKey(const pb::JoinRecord& m) { return "join/" + m.serial(); }
std::string RowKey(const pb::DenyRecord& m) { return "deny/" + m.serial(); }
std::string RowKey(const pb::IdemRecord& m) { return "idem/" + m.user() + "/" + m.key(); }
std::string RowKey(const pb::SecretRecord& m) {
  return "secret/" + Padded(m.job(), 20) + "/" + m.name();
}

TEST(RecordCodec, TheLargestChunkOfAPlanFitsAValue) {
  const PlanChunkRecord chunk{Key{JobId{~0ULL}, Attempt{~0U}}, ~0U, std::string(kChunkBytes, 'x')};
  EXPECT_LE(EncodeRecord(chunk).size(), StoreLimits{}.bytes_per_value);
}

template <class M>
class EveryRecord : public ::testing::Test {};
using Records =
    ::testing::Types<pb::ClusterRecord, pb::JobRecord, pb::SpecRecord, pb::PlanChunkRecord,
                     pb::AttemptRecord, pb::AllocRecord, pb::RankRecord, pb::NodeRecord,
                     pb::InventoryRecord, pb::GpuRecord, pb::UserRecord, pb::JoinRecord,
                     pb::DenyRecord, pb::IdemRecord, pb::SecretRecord>;
static_assert(std::variant_size_v<Entity> == 15, "a new entity needs a line in this test");
TYPED_TEST_SUITE(EveryRecord, Records);

TYPED_TEST(EveryRecord, ComesBackWhole) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TypeParam message;
    MessageFiller(seed).Fill(message);
    const auto entity = DecodeRecord(RowKey(message), message.SerializeAsString());
    ASSERT_TRUE(entity.has_value()) << entity.error().message << "\n" << message.DebugString();
    EXPECT_EQ(KeyOf(*entity), RowKey(message));
    TypeParam again;
    ASSERT_TRUE(again.ParseFromString(EncodeRecord(*entity)));
    std::string report;
    google::protobuf::util::MessageDifferencer differencer;
    differencer.ReportDifferencesToString(&report);
    EXPECT_TRUE(differencer.Compare(message, again)) << report;
  }
}

TYPED_TEST(EveryRecord, IsRefusedUnderAnotherKey) {
  TypeParam message;
  MessageFiller(1).Fill(message);
  const std::string bytes = message.SerializeAsString();
  EXPECT_TRUE(DecodeRecord(RowKey(message), bytes).has_value());
  const auto moved = DecodeRecord(RowKey(message) + "0", bytes);
  ASSERT_FALSE(moved.has_value());
  EXPECT_EQ(moved.error().code, ErrorCode::kDataLoss);
}

TYPED_TEST(EveryRecord, SurvivesDamage) {
  const google::protobuf::LogSilencer silence;
  TypeParam message;
  MessageFiller(2).Fill(message);
  const std::string key = RowKey(message);
  const std::string bytes = message.SerializeAsString();
  std::mt19937_64 random(7);
  for (int i = 0; i < 500; ++i) {
    std::string damaged = bytes;
    if (i % 2 == 0) {
      damaged.resize(random() % (bytes.size() + 1));
    } else {
      damaged[random() % damaged.size()] = static_cast<char>(random() & 0xFFU);
    }
    const auto entity = DecodeRecord(key, damaged);
    if (entity) {
      EXPECT_EQ(KeyOf(*entity), key);
      EXPECT_EQ(*DecodeRecord(key, EncodeRecord(*entity)), *entity);
    } else {
      EXPECT_EQ(entity.error().code, ErrorCode::kDataLoss);
    }
  }
}

TEST(Record, OfNoKnownKindIsRefused) {
  for (const char* key : {"", "measured/x", "jobs/1", "Job/1"}) {
    const auto entity = DecodeRecord(key, "");
    ASSERT_FALSE(entity.has_value()) << key;
    EXPECT_EQ(entity.error().code, ErrorCode::kDataLoss);
  }
}

TEST(Record, KeysSortAsNumbers) {
  const auto key = [](std::uint64_t job, std::uint32_t attempt) {
    return KeyOf(AttemptRecord{.key = {JobId{job}, Attempt{attempt}}});
  };
  EXPECT_LT(key(2, 1), key(10, 1));
  EXPECT_LT(key(2, 2), key(2, 10));
  EXPECT_LT(key(~0ULL - 1, 1), key(~0ULL, ~0U));
}

// As the core makes them first: few fields are set, and they can still be stored.
TEST(Record, WithDefaultsOfTheCoreCanBeStored) {
  const Key key{JobId{1}, Attempt{1}};
  const NodeId node{"gpu01"};
  const std::vector<Entity> entities{
      ClusterRecord{.id = "lab"},
      JobRecord{.id = JobId{1}, .owner = UserName{"ana"}},
      PlanChunkRecord{.key = key},
      AttemptRecord{.key = key},
      AttemptRecord{.key = key, .started_boot = BootMs(-5'000), .started_host_boot = "b"},
      AllocRecord{.key = key, .node = node},
      RankRecord{.key = key, .node = node},
      RankRecord{
          .key = key, .node = node, .exit = ExitReport{.key = key, .cause = UnknownEnd{"x"}}},
      NodeRecord{.id = node},
      InventoryRecord{.inventory = {.node = node}},
      GpuRecord{.uuid = GpuUuid{"GPU-1"}, .node = node},
      UserRecord{.name = UserName{"ana"}},
      JoinRecord{.serial = "ab", .role = "node", .name = "gpu01"},
      DenyRecord{.serial = "ab"},
      IdemRecord{.user = UserName{"ana"}, .key = "ab", .job = JobId{1}},
      SecretRecord{.job = JobId{1}, .name = "HF_TOKEN"},
  };
  for (const Entity& entity : entities) {
    EXPECT_EQ(DecodeRecord(KeyOf(entity), EncodeRecord(entity)), entity) << KeyOf(entity);
  }
}

TEST(RecordDeathTest, ThatCouldNotBeReadBackIsNeverStored) {
  EXPECT_DEATH((void)EncodeRecord(JobRecord{}), "cannot be stored");
}

}  // namespace
}  // namespace launch::controller
