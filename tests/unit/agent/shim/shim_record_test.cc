#include "agent/shim/shim_record.h"

#include <gtest/gtest.h>

#include <string>

#include "agent/shim/crc32c.h"

namespace launch::shim {
namespace {

std::string BytesOf(ExitRecord record) {
  Seal(record);
  return std::string(reinterpret_cast<const char*>(&record), sizeof record);
}

ExitRecord Sample() {
  ExitRecord record;
  record.kind = EndKind::kExited;
  record.code = 33;
  record.out_end = 123456;
  return record;
}

TEST(ShimRecord, UsesTheCastagnoliPolynomial) { EXPECT_EQ(Crc32c("123456789", 9), 0xE3069283u); }

TEST(ShimRecord, ReadsBackWhatWasSealed) {
  const std::string bytes = BytesOf(Sample());
  ExitRecord found;
  ASSERT_EQ(Unseal(bytes.data(), bytes.size(), found), RecordState::kValid);
  EXPECT_EQ(found.code, 33);
  EXPECT_EQ(found.out_end, 123456u);
}

TEST(ShimRecord, TakesReservedZerosForNotYet) {
  const std::string bytes(4096, '\0');
  ExitRecord found;
  EXPECT_EQ(Unseal(bytes.data(), bytes.size(), found), RecordState::kAbsent);
  EXPECT_EQ(Unseal(bytes.data(), 0, found), RecordState::kAbsent);
}

TEST(ShimRecord, DetectsEveryFlippedByteAndEveryCut) {
  const std::string good = BytesOf(Sample());
  ExitRecord found;
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x20);
    EXPECT_EQ(Unseal(bad.data(), bad.size(), found), RecordState::kTorn) << "byte " << i;
    if (i > 0) {
      EXPECT_NE(Unseal(good.data(), i, found), RecordState::kValid) << "cut " << i;
    }
  }
}

TEST(ShimRecord, HasANameForEveryStage) {
  for (int stage = 0; stage <= static_cast<int>(Stage::kExec); ++stage) {
    EXPECT_STRNE(StageName(static_cast<Stage>(stage)), "unknown");
  }
}

}  // namespace
}  // namespace launch::shim
