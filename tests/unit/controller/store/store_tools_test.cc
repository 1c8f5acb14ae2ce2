// Backups are whole or not there; a restore is never a surprise to the nodes.
#include "controller/store/store_tools.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "controller/store/record_codec.h"
#include "controller/store/sqlite_store.h"
#include "tests/unit/controller/store/temporary_dir.h"

namespace launch::controller {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class StoreTools : public ::testing::Test {
 protected:
  StoreTools() { EXPECT_TRUE(MakeSqliteStore(dir()).has_value()); }
  const std::string& dir() const { return dir_.path(); }
  std::string file() const { return dir() + "/store.db"; }
  std::string backup() const { return dir() + "/backup.db"; }

  // One user a commit, with an event.
  static void Add(Store& store, const std::string& name) {
    const Revision revision = store.Load()->revision;
    const UserRecord user{UserName{name}, false, ""};
    const auto done = store.Commit({.expected = revision,
                                    .at = WallMs(5),
                                    .puts = {{KeyOf(user), EncodeRecord(user)}},
                                    .deletes = {},
                                    .events = {{"user.joined", "user/" + name, ""}}});
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }
  void Add(const std::string& name) {
    const auto store = OpenSqliteStore(dir());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    Add(**store, name);
  }

  TemporaryDir dir_;
};

TEST_F(StoreTools, TheDirectoryOfAnEmbeddedClusterIsNotThatOfItsController) {
  const TemporaryDir embedded;
  EXPECT_TRUE(CheckStore(embedded.path() + "/store.db").error().hint.starts_with("name the"));
  ASSERT_TRUE(fs::create_directory(embedded.path() + "/controller"));
  WriteFile(embedded.path() + "/controller/store.db", "");
  const std::string hint = "the controller's own directory is " + embedded.path() + "/controller";
  EXPECT_EQ(CheckStore(embedded.path() + "/store.db").error().hint, hint);
  EXPECT_EQ(BackupStore(embedded.path(), backup()).error().hint, hint);
  ASSERT_TRUE(BackupStore(dir(), backup()));
  EXPECT_EQ(RestoreStore(backup(), embedded.path()).error().hint, hint);
  EXPECT_FALSE(fs::exists(embedded.path() + "/store.db"));
  ASSERT_TRUE(fs::create_directory(dir() + "/controller"));
  WriteFile(dir() + "/controller/store.db", "");
  EXPECT_TRUE(RestoreStore(backup(), dir())) << "it has a store of its own";
}

TEST_F(StoreTools, ABackupIsTheStoreOfOneMomentWhileItIsWritten) {
  const auto store = OpenSqliteStore(dir());
  ASSERT_TRUE(store.has_value());
  Add(**store, "ana");
  Add(**store, "ben");
  const auto facts = BackupStore(dir(), backup());
  ASSERT_TRUE(facts.has_value()) << facts.error().message;
  EXPECT_EQ(facts->rows, 2u);
  EXPECT_EQ(facts->events, 2u);
  Add(**store, "eva");
  EXPECT_EQ(CheckStore(backup())->rows, 2u);
  EXPECT_EQ(CheckStore(file())->rows, 3u) << "read beside its writer";
  EXPECT_FALSE(fs::exists(backup() + "-wal")) << "one file is all there is to keep";
  EXPECT_EQ(BackupStore(dir(), backup()).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(StoreTools, ARestoredStoreSaysThatItMayLackCommits) {
  Add("ana");
  ASSERT_TRUE(BackupStore(dir(), backup()).has_value());
  Add("ben");
  const auto restored = RestoreStore(backup(), dir());
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  EXPECT_EQ(CheckStore(restored->old_store)->rows, 2u) << "what was there is kept";
  const auto store = OpenSqliteStore(dir());
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const auto snapshot = (*store)->Load();
  ASSERT_TRUE(snapshot.has_value()) << snapshot.error().message;
  EXPECT_EQ(snapshot->rows.size(), 1u);
  EXPECT_TRUE(snapshot->unwitnessed);
}

TEST_F(StoreTools, TwoRestoresOfOneBackupGiveNoNumberTwice) {
  const auto write = [&](const ClusterRecord& cluster) {
    const auto store = OpenSqliteStore(dir());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    Batch batch{.expected = (*store)->Load()->revision};
    batch.puts.emplace_back(KeyOf(cluster), EncodeRecord(cluster));
    ASSERT_TRUE((*store)->Commit(batch).has_value());
  };
  const auto restored = [&] {
    EXPECT_TRUE(RestoreStore(backup(), dir()).has_value());
    const auto store = OpenSqliteStore(dir());
    EXPECT_TRUE((*store)->Load()->unwitnessed);
    const auto rows = (*store)->Read("cluster");
    return std::get<ClusterRecord>(*DecodeRecord(rows->at(0).key, rows->at(0).value));
  };
  write({.id = "c", .incarnation = 1, .epoch = 100, .next_job = 3});
  ASSERT_TRUE(BackupStore(dir(), backup()).has_value());
  write({.id = "c", .incarnation = 2, .epoch = 200, .next_job = 10'004});
  const ClusterRecord again = restored();
  EXPECT_EQ(again.incarnation, 2u) << "the next start makes it 3";
  EXPECT_EQ(again.epoch, 200u);
  EXPECT_EQ(again.next_job, 10'004u);
  EXPECT_FALSE(fs::exists(dir() + "/store.restored"));
  WriteFile(file(), "no store at all");
  const auto facts = RestoreStore(backup(), dir());
  ASSERT_TRUE(facts.has_value()) << facts.error().message;
  EXPECT_FALSE(facts->unreadable.empty());
}

TEST_F(StoreTools, NobodyIsLetInAgainWhomTheReplacedStoreHadShutOut) {
  const auto write = [&](const std::vector<Entity>& entities) {
    const auto store = OpenSqliteStore(dir());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    for (const Entity& entity : entities) {
      Batch batch{.expected = (*store)->Load()->revision};
      batch.puts.emplace_back(KeyOf(entity), EncodeRecord(entity));
      ASSERT_TRUE((*store)->Commit(batch).has_value());
    }
  };
  const auto token = [](const std::string& serial, bool used, bool revoked) {
    return JoinRecord{serial, "user", "x", WallMs(9'000), used, revoked, UserName{"ana"}};
  };
  NodeRecord node;
  node.id = NodeId{"n1"};
  node.certificate_serial = "a1";
  node.drained = true;
  write({ClusterRecord{.id = "c"}, UserRecord{UserName{"ana"}, true, "01", {}},
         UserRecord{UserName{"bob"}, true, "02", {}}, UserRecord{UserName{"cat"}, false, "03", {}},
         DenyRecord{"d0", "known"}, token("t1", false, false), token("t2", false, false),
         token("t3", true, false), node});
  ASSERT_TRUE(BackupStore(dir(), backup()).has_value());
  node.certificate_serial = "a3";
  node.earlier_serial = "a2";
  node.machine.install_id = "anew";
  node.drained = false;
  // More than one commit takes; and one who joined and left since.
  std::vector<Entity> since = {UserRecord{UserName{"bob"}, false, "", WallMs(7'000)},
                               UserRecord{UserName{"cat"}, true, "04", {}},
                               UserRecord{UserName{"eve"}, false, "05", WallMs(8'000)},
                               token("t1", true, false),
                               token("t2", false, true),
                               token("t4", false, false),
                               node};
  for (int i = 1; i <= 200; ++i) since.push_back(DenyRecord{"d" + std::to_string(i), "by ana"});
  write(since);
  const auto restored = RestoreStore(backup(), dir());
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  ASSERT_TRUE(restored->carried.has_value());
  EXPECT_EQ(*restored->carried, (CarriedOver{.certificates = 200,
                                             .shut_out = {UserName{"bob"}, UserName{"eve"}},
                                             .no_operator = {UserName{"bob"}},
                                             .tokens_revoked = 1,
                                             .tokens_used = 1,
                                             .nodes = {NodeId{"n1"}}}));
  const auto store = OpenSqliteStore(dir());
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const auto read = [&]<class Kind>(const Kind& like) -> std::optional<Kind> {
    const auto rows = (*store)->Read(KeyOf(like));
    if (!rows || rows->empty()) return std::nullopt;
    return std::get<Kind>(*DecodeRecord(rows->at(0).key, rows->at(0).value));
  };
  const auto user = [&](const std::string& name) { return read(UserRecord{UserName{name}}); };
  EXPECT_EQ(user("ana"), (UserRecord{UserName{"ana"}, true, "01", {}}));
  EXPECT_EQ(user("bob"), (UserRecord{UserName{"bob"}, false, "", WallMs(7'000)}));
  EXPECT_EQ(user("cat"), (UserRecord{UserName{"cat"}, false, "03", {}})) << "a grant is made anew";
  EXPECT_EQ(user("eve"), (UserRecord{UserName{"eve"}, false, "05", WallMs(8'000)}));
  EXPECT_EQ(read(token("t1", false, false)), token("t1", true, false));
  EXPECT_EQ(read(token("t2", false, false)), token("t2", false, true));
  EXPECT_EQ(read(token("t3", false, false)), token("t3", true, false));
  EXPECT_FALSE(read(token("t4", false, false)).has_value());
  EXPECT_EQ(read(DenyRecord{"d200", ""}), (DenyRecord{"d200", "by ana"}));
  const auto now = read(node);
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->certificate_serial, "a3");
  EXPECT_EQ(now->earlier_serial, "a2");
  EXPECT_EQ(now->machine.install_id, "anew");
  EXPECT_TRUE(now->drained) << "the rest is that of the backup";
}

TEST_F(StoreTools, ARestoreSaysWhatItCouldNotCarryOver) {
  Add("ana");
  ASSERT_TRUE(BackupStore(dir(), backup()).has_value());
  const auto unchanged = RestoreStore(backup(), dir());
  ASSERT_TRUE(unchanged.has_value()) << unchanged.error().message;
  EXPECT_EQ(unchanged->carried, CarriedOver{});
  WriteFile(file(), "no store at all");
  const auto damaged = RestoreStore(backup(), dir());
  ASSERT_TRUE(damaged.has_value()) << damaged.error().message;
  EXPECT_FALSE(damaged->carried.has_value());
  TemporaryDir fresh;
  const auto elsewhere = RestoreStore(backup(), fresh.path());
  ASSERT_TRUE(elsewhere.has_value()) << elsewhere.error().message;
  EXPECT_FALSE(elsewhere->carried.has_value());
}

TEST_F(StoreTools, TheBackupOfAnotherClusterIsNotRestored) {
  Add("ana");
  TemporaryDir other;
  ASSERT_TRUE(MakeSqliteStore(other.path()).has_value());
  ASSERT_TRUE(BackupStore(other.path(), backup()).has_value());
  const auto refused = RestoreStore(backup(), dir());
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("is store"), std::string::npos);
  EXPECT_EQ(CheckStore(file())->rows, 1u);
  fs::rename(file(), file() + ".aside");
  EXPECT_TRUE(RestoreStore(backup(), dir()).has_value()) << "nothing says that it is another";
}

TEST_F(StoreTools, ARestoreLeavesNoLogOfTheOldStoreBesideTheNewOne) {
  Add("ana");
  ASSERT_TRUE(BackupStore(dir(), backup()).has_value());
  fs::remove(file());
  WriteFile(file() + "-wal", "the log of a store that is gone");
  ASSERT_TRUE(RestoreStore(backup(), dir()).has_value());
  EXPECT_EQ(CheckStore(file())->rows, 1u);
  EXPECT_NE(ReadFile(file() + "-wal"), "the log of a store that is gone");
}

TEST_F(StoreTools, TheLogThatARestoreWhichWasCutShortMovedIsKept) {
  Add("ana");
  ASSERT_TRUE(BackupStore(dir(), backup()).has_value());
  WriteFile(file() + ".old-1-wal", "the last commits of the old store");
  const auto restored = RestoreStore(backup(), dir());
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  EXPECT_EQ(restored->old_store, file() + ".old-2");
  EXPECT_EQ(ReadFile(file() + ".old-1-wal"), "the last commits of the old store");
}

TEST_F(StoreTools, ARestoreThatFailsLeavesNoDraft) {
  Add("ana");
  ASSERT_TRUE(BackupStore(dir(), backup()).has_value());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 4'096, .rlim_max = before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto restored = RestoreStore(backup(), dir());
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_FALSE(restored.has_value());
  EXPECT_FALSE(fs::exists(dir() + "/store.restored"));
  EXPECT_EQ(CheckStore(file())->rows, 1u) << "the old one is where it was";
}

TEST_F(StoreTools, NothingIsRestoredUnderARunningController) {
  Add("ana");
  ASSERT_TRUE(BackupStore(dir(), backup()).has_value());
  const auto running = OpenSqliteStore(dir());
  ASSERT_TRUE(running.has_value());
  EXPECT_EQ(RestoreStore(backup(), dir()).error().code, ErrorCode::kConflict);
}

TEST_F(StoreTools, NoFlippedByteOfABackupPassesForData) {
  Add("ana");
  ASSERT_TRUE(BackupStore(dir(), backup()).has_value());
  const std::string sound = ReadFile(backup());
  std::size_t refused = 0;
  std::size_t tried = 0;
  for (std::size_t at = 0; at < sound.size(); at += 97) {
    std::string damaged = sound;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    WriteFile(backup(), damaged);
    ++tried;
    const auto facts = CheckStore(backup());
    if (!facts) {
      ++refused;
      EXPECT_NE(facts.error().message.find("backup.db"), std::string::npos)
          << facts.error().message;
    } else {  // in a place that holds no data
      EXPECT_EQ(facts->rows, 1u);
      EXPECT_EQ(facts->events, 1u);
    }
  }
  EXPECT_GT(refused, 5u) << "of " << tried;
}

TEST_F(StoreTools, ADamagedBackupIsNotRestored) {
  Add("ana");
  ASSERT_TRUE(BackupStore(dir(), backup()).has_value());
  const std::string before = ReadFile(file());
  WriteFile(backup(), ReadFile(backup()).substr(0, 5'000));
  const auto refused = RestoreStore(backup(), dir());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(refused.error().message.starts_with("this backup is damaged: "))
      << refused.error().message;
  EXPECT_NE(refused.error().message.find(backup()), std::string::npos);
  EXPECT_EQ(refused.error().hint.find("store is damaged"), std::string::npos)
      << refused.error().hint;
  EXPECT_EQ(ReadFile(file()), before);
}

TEST_F(StoreTools, AFileThatIsNoBackupIsToBlameItself) {
  Add("ana");
  const std::string before = ReadFile(file());
  for (const std::string& bytes :
       {std::string("name: x\n"), std::string(200, 'x'), std::string()}) {
    WriteFile(backup(), bytes);
    for (const auto& error :
         {RestoreStore(backup(), dir()).error(), CheckBackup(backup()).error()}) {
      EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.message, backup() + " is not a backup of launch");
    }
  }
  EXPECT_EQ(ReadFile(file()), before);
  WriteFile(file(), std::string(200, 'x'));
  EXPECT_EQ(CheckStore(file()).error().code, ErrorCode::kDataLoss) << "the store itself is damaged";
}

TEST_F(StoreTools, ARowThatThisVersionCannotReadIsNamed) {
  {
    const auto store = OpenSqliteStore(dir());
    const Revision revision = (*store)->Load()->revision;
    ASSERT_TRUE((*store)->Commit({.expected = revision,
                                  .at = WallMs(5),
                                  .puts = {{"moon/1", "?"}},
                                  .deletes = {},
                                  .events = {}}));
  }
  const auto facts = CheckStore(file());
  ASSERT_FALSE(facts.has_value());
  EXPECT_NE(facts.error().message.find("moon/1"), std::string::npos) << facts.error().message;
}

}  // namespace
}  // namespace launch::controller
