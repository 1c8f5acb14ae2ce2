#include "controller/store/schema_steps.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>

#include "controller/store/sqlite_store.h"
#include "controller/store/store_reader.h"
#include "controller/store/store_tools.h"
#include "tests/unit/controller/store/temporary_dir.h"

namespace launch::controller {
namespace {

// A store of this release, and a release to come whose tables have a column and an index more.
class StoreSchema : public ::testing::Test {
 protected:
  StoreSchema() {
    EXPECT_TRUE(MakeSqliteStore(dir_.path()));
    auto store = OpenSqliteStore(dir_.path());
    Batch batch;
    batch.expected = (*store)->Load()->revision;
    batch.puts.emplace_back("job/1", "a job");
    batch.events.push_back({"job.submitted", "job/1", "by ana"});
    EXPECT_TRUE((*store)->Commit(batch));
  }
  std::string file() const { return dir_.path() + "/store.db"; }
  std::string copy() const { return file() + ".schema1"; }
  Result<void> Upgrade(std::span<const SchemaStep> steps) {
    LAUNCH_ASSIGN_OR_RETURN(const sqlite::Database db,
                            sqlite::OpenDatabase(file(), sqlite::Access::kWrite));
    return UpgradeSchema(db.get(), file(), steps);
  }
  std::int64_t Ask(const std::string& path, const std::string& sql) {
    const auto db = sqlite::OpenDatabase(path, sqlite::Access::kRead);
    EXPECT_TRUE(db) << path;
    return db ? sqlite::QueryInt(db->get(), sql).value_or(-1) : -1;
  }

  const std::array<SchemaStep, 2> steps_ = {{{2, "ALTER TABLE kv ADD COLUMN note TEXT"},
                                             {3, "CREATE INDEX of_revision ON kv(revision)"}}};
  TemporaryDir dir_;
};

TEST_F(StoreSchema, AreThoseThatLeadToTheTablesOfThisRelease) {
  std::int64_t reached = 1;
  for (const SchemaStep& step : SchemaSteps()) EXPECT_EQ(step.to, ++reached);
  EXPECT_EQ(reached, kSchema);
}

TEST_F(StoreSchema, BringAnOlderStoreToTheNewTablesAndKeepACopyOfIt) {
  const auto done = Upgrade(steps_);
  ASSERT_TRUE(done) << FormatError(done.error());
  EXPECT_EQ(Ask(file(), "PRAGMA user_version"), 3);
  EXPECT_EQ(Ask(file(), "SELECT COUNT(*) FROM kv WHERE note IS NULL"), 1);
  EXPECT_EQ(Ask(copy(), "PRAGMA user_version"), 1);
  struct stat facts {};
  ASSERT_EQ(::stat(copy().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  const auto whole =
      ReadRows(sqlite::OpenDatabase(copy(), sqlite::Access::kRead)->get(), copy(),
               *ReadMeta(sqlite::OpenDatabase(copy(), sqlite::Access::kRead)->get(), copy()));
  ASSERT_TRUE(whole) << FormatError(whole.error());
  EXPECT_EQ(whole->size(), 1u);
}

TEST_F(StoreSchema, ThatWereDoneAreNotDoneAgain) {
  ASSERT_TRUE(Upgrade(std::span(steps_).first(1)));
  std::filesystem::remove(copy());
  ASSERT_TRUE(Upgrade(std::span(steps_).first(1)));
  EXPECT_FALSE(std::filesystem::exists(copy())) << "nothing was left to do";
  ASSERT_TRUE(Upgrade(steps_));
  EXPECT_EQ(Ask(file(), "PRAGMA user_version"), 3);
}

TEST_F(StoreSchema, OfWhichOneFailsChangeNothing) {
  const std::array<SchemaStep, 2> bad = {{steps_[0], {3, "CREATE INDEX x ON nowhere(x)"}}};
  const auto failed = Upgrade(bad);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("from schema 1 to 3"), std::string::npos);
  EXPECT_EQ(Ask(file(), "PRAGMA user_version"), 1);
  const auto store = OpenSqliteStore(dir_.path());
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->Load()->rows.size(), 1u);
}

TEST_F(StoreSchema, OfWhichOneIsMissingAreRefused) {
  const auto refused = Upgrade(std::span(steps_).last(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(Ask(file(), "PRAGMA user_version"), 1);
}

TEST_F(StoreSchema, ThatAnOlderReleaseDoesNotKnowMakeItRefuseWithAWayOut) {
  ASSERT_TRUE(Upgrade(steps_));
  for (const auto& error : {OpenSqliteStore(dir_.path()).error(), CheckStore(file()).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kFailedPrecondition);
    EXPECT_NE(error.message.find("schema 3"), std::string::npos);
    EXPECT_NE(error.hint.find("newer"), std::string::npos);
  }
}

}  // namespace
}  // namespace launch::controller
