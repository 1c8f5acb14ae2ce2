// The power is lost at each sync of a controller's store: what was acknowledged by then is there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "controller/store/record_codec.h"
#include "controller/store/sqlite_store.h"
#include "controller/store/store_tools.h"
#include "tests/fakes/volatile_disk/volatile_disk.h"

namespace launch::controller {
namespace {

using launch::testing::VolatileDisk;

constexpr StoreKeeps kKeeps{.events = 5, .reserve_bytes = 0};

constexpr Revision kLast = 8;
constexpr Revision kBackedUp = kLast + 1;  // what is told of the backup

// One user a commit, with an event.
Result<Committed> CommitOne(Store& store, Revision revision) {
  const UserRecord user{UserName{"user" + std::to_string(revision)}, false,
                        std::string(3'000, 'v')};
  return store.Commit({.expected = revision,
                       .at = WallMs(5),
                       .puts = {{KeyOf(user), EncodeRecord(user)}},
                       .deletes = {},
                       .events = {{"user.joined", "user/" + user.name.value, ""}}});
}

// A store is made, has two owners one after the other, as with a restart of the controller, and is
// backed up. Each revision is told once its commit has returned.
bool Live(const VolatileDisk& disk, int out) {
  const auto tell = [&](Revision revision) {
    return disk.HasPower() && ::write(out, &revision, sizeof revision) == sizeof revision;
  };
  if (!MakeSqliteStore(disk.root()) || !tell(0)) return false;
  for (Revision owner = 0; owner < 2; ++owner) {
    auto store = OpenSqliteStore(disk.root(), kKeeps);
    if (!store || !(*store)->Load()) return false;
    for (Revision i = 0; i < kLast / 2; ++i) {
      const auto done = CommitOne(**store, owner * kLast / 2 + i);
      if (!done || !tell(done->revision)) return false;
    }
  }
  return BackupStore(disk.root(), disk.root() + "/backup.db") && tell(kBackedUp);
}

// The last revision that a process told before the power was lost.
std::optional<Revision> LiveUntilPowerLoss(const VolatileDisk& disk) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(Live(disk, ends[1]) ? 0 : 1);
  ::close(ends[1]);
  std::optional<Revision> last;
  for (Revision told = 0; ::read(ends[0], &told, sizeof told) == sizeof told;) last = told;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(!disk.HasPower() || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << status;
  return last;
}

void ExpectAtLeast(const std::string& dir, std::optional<Revision> told) {
  auto store = OpenSqliteStore(dir, kKeeps);
  if (!store && !told) {
    EXPECT_EQ(store.error().code, ErrorCode::kNotFound) << store.error().message;
    return;
  }
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_GE(loaded->revision, std::min(told.value_or(0), kLast));
  EXPECT_EQ(loaded->rows.size(), loaded->revision) << "all of a commit or nothing";
  EXPECT_EQ(loaded->last_event, loaded->revision);
  if (told.value_or(0) > 0) EXPECT_FALSE(loaded->unwitnessed) << "every open job would be held";
  const auto facts = CheckStore(dir + "/store.db");
  EXPECT_TRUE(facts.has_value()) << facts.error().message;
  if (told != kBackedUp) return;
  const auto backup = CheckStore(dir + "/backup.db");
  ASSERT_TRUE(backup.has_value()) << backup.error().message;
  EXPECT_EQ(backup->revision, kLast);
}

TEST(StorePowerLoss, LeavesAtLeastWhatWasAcknowledged) {
  Revision nth = 0;
  for (bool lost = true; lost && !HasFailure();) {
    ASSERT_LT(++nth, 200U);
    SCOPED_TRACE("the power is lost at sync " + std::to_string(nth));
    const VolatileDisk disk;
    disk.LosePowerAtSync(static_cast<int>(nth));
    const auto told = LiveUntilPowerLoss(disk);
    lost = !disk.HasPower();
    EXPECT_TRUE(lost || told == kBackedUp);
    for (const auto names : {VolatileDisk::Names::kSynced, VolatileDisk::Names::kAll}) {
      SCOPED_TRACE(names == VolatileDisk::Names::kAll ? "names are quicker than bytes" : "");
      ExpectAtLeast(disk.AfterPowerLoss(names), told);
    }
  }
  EXPECT_GT(nth, kLast) << "one for each commit at least";
}

}  // namespace
}  // namespace launch::controller
