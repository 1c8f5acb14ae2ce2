// What only the store on disk has to do: notice damage, other owners, other versions, lost tails.
#include "controller/store/sqlite_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "controller/store/sqlite_handle.h"
#include "controller/store/state_lock.h"
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
void RunSql(const std::string& file, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
      << (error != nullptr ? error : "");
  sqlite3_free(error);
  sqlite3_close(db);
}

class SqliteStoreTest : public ::testing::Test {
 protected:
  SqliteStoreTest() { EXPECT_TRUE(MakeSqliteStore(dir()).has_value()); }

  const std::string& dir() const { return dir_.path(); }
  std::string file() const { return dir() + "/store.db"; }

  std::unique_ptr<Store> Open() {
    auto store = OpenSqliteStore(dir());
    EXPECT_TRUE(store.has_value()) << store.error().message;
    return store ? std::move(*store) : nullptr;
  }
  // Opens and loads, and closes again.
  Result<Snapshot> Load() {
    LAUNCH_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenSqliteStore(dir()));
    return store->Load();
  }
  // One commit per revision, of one row and one event each.
  void Fill(int revisions) {
    const std::unique_ptr<Store> store = Open();
    Revision revision = store->Load()->revision;
    for (int i = 0; i < revisions; ++i) {
      const std::string n = std::to_string(i);
      const auto done = store->Commit({.expected = revision,
                                       .at = WallMs(5),
                                       .puts = {{"job/" + n, "value " + n}},
                                       .deletes = {},
                                       .events = {{"job.submitted", "job/" + n, "text"}}});
      ASSERT_TRUE(done.has_value()) << done.error().message;
      revision = done->revision;
    }
  }

  TemporaryDir dir_;
};

// The whole content as text: rows and events, or the first error.
std::string Content(const std::string& dir) {
  auto store = OpenSqliteStore(dir);
  if (!store) return "error: " + store.error().message;
  const auto snapshot = (*store)->Load();
  if (!snapshot) return "error: " + snapshot.error().message;
  std::string text = std::to_string(snapshot->revision) + "\n";
  for (const StoredRow& row : snapshot->rows) {
    text += row.key + "@" + std::to_string(row.revision) + "=" + row.value + "\n";
  }
  const auto events = (*store)->Events(0, 1'000);
  if (!events) return "error: " + events.error().message;
  for (const StoredEvent& event : *events) {
    text += std::to_string(event.seq) + " " + std::to_string(event.revision) + " " +
            std::to_string(ToMs(event.at)) + " " + event.kind + " " + event.subject + " " +
            event.body + "\n";
  }
  return text;
}

TEST_F(SqliteStoreTest, IsForItsOwnerOnly) {
  Fill(1);
  struct stat facts {};
  for (const char* name : {"store.db", "lock", "store.witness"}) {
    ASSERT_EQ(::stat((dir() + "/" + name).c_str(), &facts), 0) << name;
    EXPECT_EQ(facts.st_mode & 0777U, 0600U) << name;
  }
}

TEST_F(SqliteStoreTest, IsMadeOnce) {
  const auto again = MakeSqliteStore(dir());
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  EXPECT_NE(again.error().message.find(file()), std::string::npos);
}

TEST_F(SqliteStoreTest, RefusesASecondWriterAndNamesTheFirst) {
  const std::unique_ptr<Store> store = Open();
  const auto second = OpenSqliteStore(dir());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_NE(second.error().message.find("process " + std::to_string(::getpid())),
            std::string::npos);
}

TEST_F(SqliteStoreTest, SaysWhatIsMissing) {
  TemporaryDir empty;
  const auto no_store = OpenSqliteStore(empty.path());
  ASSERT_FALSE(no_store.has_value());
  EXPECT_EQ(no_store.error().code, ErrorCode::kNotFound);
  EXPECT_NE(no_store.error().hint.find("controller init"), std::string::npos);
  const auto no_directory = OpenSqliteStore(empty.path() + "/nowhere");
  ASSERT_FALSE(no_directory.has_value());
  EXPECT_EQ(no_directory.error().code, ErrorCode::kNotFound);
}

TEST_F(SqliteStoreTest, RefusesANewerSchemaByItsNumber) {
  Fill(1);
  RunSql(file(), "PRAGMA user_version=7");
  const auto opened = OpenSqliteStore(dir());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(opened.error().message.find("schema 7"), std::string::npos);
}

TEST_F(SqliteStoreTest, RefusesTheDatabaseOfAnotherProgram) {
  fs::remove(file());
  RunSql(file(), "CREATE TABLE t(x); PRAGMA application_id=5");
  const auto opened = OpenSqliteStore(dir());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(opened.error().message.find(file()), std::string::npos);
}

TEST_F(SqliteStoreTest, RefusesAFileThatIsNoDatabase) {
  WriteFile(file(), std::string(8'192, 'x'));
  const auto opened = OpenSqliteStore(dir());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(opened.error().message.find(file()), std::string::npos);
}

TEST_F(SqliteStoreTest, NamesTheDamagedRow) {
  Fill(3);
  RunSql(file(), "UPDATE kv SET value = CAST('forged' AS BLOB) WHERE key = CAST('job/1' AS BLOB)");
  const auto loaded = Load();
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(loaded.error().message.find("job/1"), std::string::npos);
  EXPECT_NE(loaded.error().message.find(file()), std::string::npos);
  EXPECT_NE(loaded.error().hint.find("backup"), std::string::npos);
}

TEST_F(SqliteStoreTest, MissesALostRowAndALostEvent) {
  Fill(3);
  const std::string whole = ReadFile(file());
  RunSql(file(), "DELETE FROM kv WHERE key = CAST('job/1' AS BLOB)");
  ASSERT_FALSE(Load().has_value());
  WriteFile(file(), whole);
  RunSql(file(), "DELETE FROM event WHERE seq = 3");
  ASSERT_FALSE(Load().has_value());
  WriteFile(file(), whole);
  RunSql(file(), "DELETE FROM event WHERE seq = 2");
  const std::unique_ptr<Store> store = Open();
  ASSERT_TRUE(store->Load().has_value());
  const auto events = store->Events(0, 10);
  ASSERT_FALSE(events.has_value());
  EXPECT_NE(events.error().message.find("event 2"), std::string::npos);
}

TEST_F(SqliteStoreTest, NoticesARowThatCameBackFromThePast) {
  Fill(1);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file().c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "CREATE TABLE old AS SELECT * FROM kv", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(db);
  {
    const std::unique_ptr<Store> store = Open();
    const Revision revision = store->Load()->revision;
    ASSERT_TRUE(
        store->Commit({.expected = revision, .at = {}, .puts = {{"job/0", "new"}}}).has_value());
  }
  ASSERT_TRUE(Load().has_value());
  RunSql(file(), "REPLACE INTO kv SELECT * FROM old; DROP TABLE old");  // every sum is right
  EXPECT_FALSE(Load().has_value());
}

TEST_F(SqliteStoreTest, NoticesThatItWentBackInTime) {
  Fill(2);
  const std::string before = ReadFile(file());
  Fill(2);
  WriteFile(file(), before);
  const auto loaded = Load();
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(loaded.error().message.find("revision 2, but was at 4"), std::string::npos)
      << loaded.error().message;
  fs::remove(dir() + "/store.witness");  // what the hint says, to go on without the lost commits
  EXPECT_TRUE(Load().has_value());
}

TEST_F(SqliteStoreTest, NoticesAnotherStoreInItsPlace) {
  Fill(2);
  TemporaryDir other;
  ASSERT_TRUE(MakeSqliteStore(other.path()).has_value());
  WriteFile(file(), ReadFile(other.path() + "/store.db"));
  EXPECT_FALSE(Load().has_value());
}

TEST_F(SqliteStoreTest, SaysWhenNothingTellsThatItIsTheNewest) {
  EXPECT_FALSE(Load()->unwitnessed) << "it is new";
  Fill(2);
  EXPECT_FALSE(Load()->unwitnessed);
  fs::remove(dir() + "/store.witness");
  EXPECT_TRUE(Load()->unwitnessed);
  EXPECT_TRUE(Load()->unwitnessed) << "whoever loaded it ended before it wrote what follows";
  Fill(1);
  EXPECT_FALSE(Load()->unwitnessed) << "from here on there is one again";
}

TEST_F(SqliteStoreTest, SurvivesATornWitness) {
  Fill(2);
  WriteFile(dir() + "/store.witness", "torn");
  EXPECT_TRUE(Load().has_value());
}

// One flip in each byte that holds anything, and in a part of the unused ones: the same content, or
// an error; never other data.
TEST(SqliteStoreDamage, NeverReadsOtherDataAfterAFlippedByte) {
  // Thousands of opens, each with its syncs: in memory where there is such a file system.
  TemporaryDir base(fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path());
  const std::string& dir = base.path();
  const std::string file = dir + "/store.db";
  ASSERT_TRUE(MakeSqliteStore(dir).has_value());
  {
    const auto store = OpenSqliteStore(dir);
    ASSERT_TRUE((*store)->Load().has_value());
    for (Revision revision = 0; revision < 6; ++revision) {
      const std::string n = std::to_string(revision);
      ASSERT_TRUE((*store)
                      ->Commit({.expected = revision,
                                .at = WallMs(5),
                                .puts = {{"job/" + n, "value " + n}},
                                .deletes = {},
                                .events = {{"job.submitted", "job/" + n, "text"}}})
                      .has_value());
    }
  }
  const std::string whole = ReadFile(file);
  const std::string truth = Content(dir);
  ASSERT_TRUE(truth.starts_with("6\n")) << truth;
  ASSERT_FALSE(fs::exists(file + "-wal"));
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (whole[at] == 0 && at >= 100 && at % 13 != 0) continue;  // the header: all of it
    std::string damaged = whole;
    damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ (1U << (at % 8)));
    WriteFile(file, damaged);
    for (const char* suffix : {"-wal", "-shm"}) fs::remove(file + suffix);
    const std::string content = Content(dir);
    if (content.starts_with("error: ")) {
      ++refused;
    } else {
      ASSERT_EQ(content, truth) << "byte " << at;
    }
  }
  EXPECT_GT(refused, 500);
}

// A child that is killed inside or after a commit loses nothing that it acknowledged.
TEST_F(SqliteStoreTest, KeepsWhatAKilledProcessAcknowledged) {
  int acknowledged[2];
  ASSERT_EQ(::pipe(acknowledged), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = OpenSqliteStore(dir());
    Revision revision = (*store)->Load()->revision;
    for (int i = 0;; ++i) {
      const auto done = (*store)->Commit(
          {.expected = revision, .at = {}, .puts = {{"job/" + std::to_string(i), "v"}}});
      if (!done) ::_exit(1);
      revision = done->revision;
      if (::write(acknowledged[1], &revision, sizeof revision) != sizeof revision) ::_exit(2);
    }
  }
  ::close(acknowledged[1]);
  Revision last = 0;
  while (last < 50) ASSERT_EQ(::read(acknowledged[0], &last, sizeof last), sizeof last);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  for (Revision more = 0; ::read(acknowledged[0], &more, sizeof more) == sizeof more;) last = more;
  ::close(acknowledged[0]);
  const auto loaded = Load();
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_GE(loaded->revision, last);
  EXPECT_EQ(loaded->rows.size(), loaded->revision);
}

#ifdef LAUNCH_FAILPOINTS

// Runs `work` in a child that dies at `failpoint`.
template <class Work>
void DieAt(const char* failpoint, Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("LAUNCH_FAILPOINT", failpoint, 1);
    work();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << failpoint;
}

TEST_F(SqliteStoreTest, HoldsACommitOrNothingOfItWhereverItDies) {
  const auto commit_five = [this] {
    auto store = OpenSqliteStore(dir());
    const Revision first = (*store)->Load()->revision;
    for (Revision revision = first; revision < first + 5; ++revision) {
      (void)(*store)->Commit({.expected = revision,
                              .at = {},
                              .puts = {{"a", std::to_string(revision)}, {"b", "x"}},
                              .deletes = {},
                              .events = {{"k", "s", "b"}}});
    }
  };
  DieAt("store.commit.before:3", commit_five);
  EXPECT_EQ(Load()->revision, 2U);
  EXPECT_EQ(Load()->last_event, 2U);
  DieAt("store.commit.after:2", commit_five);
  EXPECT_EQ(Load()->revision, 4U);
  EXPECT_EQ(Load()->rows.at(0).value, "3");
}

TEST_F(SqliteStoreTest, IsThereOrNotWhenItsMakerDies) {
  TemporaryDir fresh;
  DieAt("store.init.before", [&] { (void)MakeSqliteStore(fresh.path()); });
  EXPECT_EQ(OpenSqliteStore(fresh.path()).error().code, ErrorCode::kNotFound);
  const auto made = MakeSqliteStore(fresh.path());
  EXPECT_TRUE(made.has_value()) << made.error().message;
  const auto opened = OpenSqliteStore(fresh.path());
  EXPECT_TRUE(opened.has_value()) << opened.error().message;
}

#endif

// Cutting the log of a killed process loses commits; the witness knows how many there were.
TEST_F(SqliteStoreTest, NoticesALostTailOfTheLog) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = OpenSqliteStore(dir());
    Revision revision = (*store)->Load()->revision;
    for (int i = 0; i < 5; ++i) {
      const auto done = (*store)->Commit({.expected = revision, .at = {}, .puts = {{"a", "v"}}});
      if (!done) ::_exit(1);
      revision = done->revision;
    }
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::string log = ReadFile(file() + "-wal");
  ASSERT_FALSE(log.empty());
  WriteFile(file() + "-wal", log.substr(0, log.size() / 2));
  const auto loaded = Load();
  ASSERT_FALSE(loaded.has_value());
  EXPECT_NE(loaded.error().message.find("gone back in time"), std::string::npos);
  WriteFile(file() + "-wal", log);
  EXPECT_TRUE(Load().has_value());
}

TEST(Sqlite, TakesAQuotaThatIsUsedUpForAFullDisk) {
  EXPECT_TRUE(sqlite::IsOutOfRoom(SQLITE_IOERR_WRITE, EDQUOT));
  EXPECT_TRUE(sqlite::IsOutOfRoom(SQLITE_IOERR_WRITE, EFBIG));
  EXPECT_TRUE(sqlite::IsOutOfRoom(SQLITE_IOERR_SHMSIZE, ENOSPC));
  EXPECT_TRUE(sqlite::IsOutOfRoom(SQLITE_IOERR_SHMSIZE, 0)) << "of a COMMIT";
  EXPECT_FALSE(sqlite::IsOutOfRoom(SQLITE_IOERR_SHMSIZE, EIO));
  EXPECT_FALSE(sqlite::IsOutOfRoom(SQLITE_IOERR_WRITE, EIO));
  EXPECT_FALSE(sqlite::IsOutOfRoom(SQLITE_IOERR_FSYNC, EDQUOT)) << "what was lost is not known";
}

// No file of this process grows beyond it: SQLite learns of it as of a used up quota, by an error
// of the write that it does not know.
class SizeLimit {
 public:
  explicit SizeLimit(std::uintmax_t bytes) : old_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &whole_);
    const rlimit small{bytes, whole_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~SizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &whole_);
    std::signal(SIGXFSZ, old_);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;

 private:
  rlimit whole_{};
  void (*old_)(int);
};

TEST_F(SqliteStoreTest, GoesOnAfterACommitForWhichTheQuotaHadNoRoom) {
  const auto store = OpenSqliteStore(dir(), {.events = 1'000, .reserve_bytes = 0});
  ASSERT_TRUE(store.has_value());
  ASSERT_TRUE((*store)->Load().has_value());
  ASSERT_TRUE((*store)->Commit({.expected = 0, .at = {}, .puts = {{"a", "1"}}}).has_value());
  const Batch large{.expected = 1, .at = {}, .puts = {{"b", std::string(500 << 10, 'v')}}};
  for (int times = 0; times < 2; ++times) {
    const SizeLimit limit(fs::file_size(file() + "-wal") + 10'000);
    const auto full = (*store)->Commit(large);
    ASSERT_FALSE(full.has_value());
    EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted) << full.error().message;
    const auto rows = (*store)->Read("");
    ASSERT_TRUE(rows.has_value()) << rows.error().message;
    EXPECT_EQ(rows->size(), 1U);
  }
  const auto next = (*store)->Commit(large);
  ASSERT_TRUE(next.has_value()) << next.error().message;
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->rows.size(), 2U);
}

// While it lives, databases are opened by SQLite's own file system, whose shared memory does not
// grow beyond its first 32 KiB, the index of some 4,000 pages of the log: a disk that is full then.
class SmallSharedMemory {
 public:
  SmallSharedMemory() : vfs_(*sqlite3_vfs_find(nullptr)) {
    real_ = sqlite3_vfs_find(nullptr);
    vfs_.zName = "small-shared-memory";
    vfs_.xOpen = Open;
    EXPECT_EQ(sqlite3_vfs_register(&vfs_, 1), SQLITE_OK);
  }
  ~SmallSharedMemory() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(real_, 1);
  }
  SmallSharedMemory(const SmallSharedMemory&) = delete;
  SmallSharedMemory& operator=(const SmallSharedMemory&) = delete;
  static int refused() { return refused_; }

 private:
  static int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
    const int code = real_->xOpen(real_, name, file, flags, out);
    if (code != SQLITE_OK || (flags & SQLITE_OPEN_MAIN_DB) == 0) return code;
    real_map_ = file->pMethods->xShmMap;
    methods_ = *file->pMethods;
    methods_.xShmMap = Map;
    file->pMethods = &methods_;
    return code;
  }
  static int Map(sqlite3_file* file, int region, int size, int extend, void volatile** out) {
    if (region == 0 || extend == 0) return real_map_(file, region, size, extend, out);
    ++refused_;
    *out = nullptr;
    return SQLITE_IOERR_SHMSIZE;
  }
  sqlite3_vfs vfs_;
  static inline sqlite3_vfs* real_ = nullptr;
  static inline sqlite3_io_methods methods_{};
  static inline int (*real_map_)(sqlite3_file*, int, int, int, void volatile**) = nullptr;
  static inline int refused_ = 0;
};

TEST_F(SqliteStoreTest, GoesOnAfterACommitForWhichTheSharedMemoryHadNoRoom) {
  const SmallSharedMemory small;
  const auto store = OpenSqliteStore(dir(), {.events = 1'000, .reserve_bytes = 0});
  ASSERT_TRUE(store.has_value());
  ASSERT_TRUE((*store)->Load().has_value());
  const std::string value(1'000 << 10, 'v');
  const auto commit = [&](Revision revision) {
    return (*store)->Commit({.expected = revision, .at = {}, .puts = {{"a", value}}});
  };
  Revision revision = 0;
  auto done = commit(revision);
  for (; done && revision < 30; done = commit(revision)) revision = done->revision;
  ASSERT_FALSE(done.has_value());
  ASSERT_EQ(SmallSharedMemory::refused(), 1);
  EXPECT_EQ(done.error().code, ErrorCode::kResourceExhausted) << done.error().message;
  EXPECT_EQ(fs::file_size(file() + "-wal"), 0U);
  // What a crash would leave now does not have it.
  const TemporaryDir crashed;
  fs::copy(dir(), crashed.path(), fs::copy_options::recursive);
  {
    const auto copy = OpenSqliteStore(crashed.path(), {.events = 1'000, .reserve_bytes = 0});
    ASSERT_TRUE(copy.has_value()) << copy.error().message;
    EXPECT_EQ((*copy)->Load()->revision, revision);
  }
  const auto next = commit(revision);
  ASSERT_TRUE(next.has_value()) << next.error().message;
  EXPECT_EQ((*store)->Load()->revision, revision + 1);
}

TEST_F(SqliteStoreTest, GoesOnAfterACheckpointForWhichTheQuotaHadNoRoom) {
  Revision revision = 0;
  {
    const std::unique_ptr<Store> store = Open();
    ASSERT_TRUE(store->Load().has_value());
    const std::string value(500 << 10, 'v');
    const auto commit = [&](int row) {
      const auto done = store->Commit(
          {.expected = revision, .at = {}, .puts = {{"k" + std::to_string(row), value}}});
      if (done) revision = done->revision;
      return done;
    };
    sqlite::Database db = std::move(*sqlite::OpenDatabase(file(), sqlite::Access::kWrite));
    ASSERT_TRUE(commit(0).has_value());
    // A connection that has read nothing does not know that there is a log.
    ASSERT_TRUE(sqlite::QueryInt(db.get(), "SELECT count(*) FROM kv").has_value());
    {
      const SizeLimit limit(fs::file_size(file()));
      const auto full = sqlite::Checkpoint(db.get(), SQLITE_CHECKPOINT_PASSIVE);
      ASSERT_FALSE(full.has_value());
      EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted) << full.error().message;
      EXPECT_TRUE(sqlite::TryCheckpoint(db.get()).has_value()) << "the next one tries again";
      EXPECT_EQ(store->Read("")->size(), 1U);
    }
    EXPECT_TRUE(sqlite::Checkpoint(db.get(), SQLITE_CHECKPOINT_PASSIVE).has_value());
    ASSERT_TRUE(commit(1).has_value());
  }
  EXPECT_EQ(Load()->rows.size(), 2U);
}

// A full file system, on a small one of its own: nothing is half written, and it goes on
// afterwards.
TEST_F(SqliteStoreTest, RollsBackWhenTheDiskIsFullAndGoesOn) {
  const std::string small = dir() + "/small";
  fs::create_directory(small);
  const std::string mount = "mount -t tmpfs -o size=1m none " + small + " 2>/dev/null";
  if (std::system(mount.c_str()) != 0) GTEST_SKIP() << "mounting needs root";
  struct Unmount {
    std::string path;
    ~Unmount() { (void)!std::system(("umount " + path).c_str()); }
  } const unmount{small};
  ASSERT_TRUE(MakeSqliteStore(small).has_value());
  auto store = OpenSqliteStore(small);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  ASSERT_TRUE((*store)->Load().has_value());
  const auto one = (*store)->Commit({.expected = 0, .at = {}, .puts = {{"a", "1"}}});
  ASSERT_TRUE(one.has_value()) << one.error().message;
  WriteFile(small + "/filler", std::string(700 << 10, 'x'));

  std::vector<std::pair<std::string, std::string>> puts;
  for (int i = 0; i < 4; ++i)
    puts.emplace_back("b" + std::to_string(i), std::string(200 << 10, 'v'));
  const auto full = (*store)->Commit({.expected = 1, .at = {}, .puts = puts});
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted) << full.error().message;
  EXPECT_NE(full.error().message.find(small), std::string::npos);

  fs::remove(small + "/filler");
  const auto next = (*store)->Commit({.expected = 1, .at = {}, .puts = {{"c", "3"}}});
  ASSERT_TRUE(next.has_value()) << next.error().message;
  const auto loaded = (*store)->Load();
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  ASSERT_EQ(loaded->rows.size(), 2U);
  EXPECT_EQ(loaded->rows[1].key, "c");
}

// What is kept back is given to the first commit that finds the disk full, and made again later.
TEST_F(SqliteStoreTest, CommitsOnItsReserveWhenTheDiskIsFull) {
  const std::string small = dir() + "/small";
  fs::create_directory(small);
  const std::string mount = "mount -t tmpfs -o size=8m none " + small + " 2>/dev/null";
  if (std::system(mount.c_str()) != 0) GTEST_SKIP() << "mounting needs root";
  struct Unmount {
    std::string path;
    ~Unmount() { (void)!std::system(("umount " + path).c_str()); }
  } const unmount{small};
  const StoreKeeps keeps{.events = 1'000, .reserve_bytes = 1 << 20};
  ASSERT_TRUE(MakeSqliteStore(small).has_value());
  { ASSERT_TRUE(OpenSqliteStore(small, keeps).has_value()); }
  ASSERT_TRUE(fs::exists(small + "/store.reserve"));
  WriteFile(small + "/filler", std::string(8 << 20, 'x'));  // until nothing is left

  auto store = OpenSqliteStore(small, keeps);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  ASSERT_TRUE((*store)->Load().has_value());
  const auto opening = (*store)->Commit({.expected = 0, .at = {}, .puts = {{"epoch", "2"}}});
  ASSERT_TRUE(opening.has_value())
      << "a controller starts on a full disk: " << opening.error().message;
  BootTime later = BootMs(1'000);
  EXPECT_TRUE((*store)->Low(later)) << "and takes on nothing new";
  EXPECT_EQ(fs::file_size(small + "/store.reserve"), 0U);
  store->reset();
  WriteFile(small + "/filler2", std::string(400'000, 'x'));  // of what was given back
  store = OpenSqliteStore(small, keeps);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  EXPECT_TRUE((*store)->Low(later)) << "the next process knows it, too";
  ASSERT_TRUE((*store)->Load().has_value());
  fs::remove(small + "/filler2");

  later += Millis{5'000};
  EXPECT_TRUE((*store)->Low(later)) << "less than it keeps back";
  fs::remove(small + "/filler");
  EXPECT_TRUE((*store)->Low(later)) << "it has just been tried";
  later += Millis{5'000};
  EXPECT_FALSE((*store)->Low(later)) << "without a commit: submits are what would make one";
  ASSERT_TRUE((*store)->Commit({.expected = 1, .at = {}, .puts = {{"a", "1"}}}).has_value());
  EXPECT_TRUE(fs::exists(small + "/store.reserve"));
  EXPECT_EQ((*store)->Load()->rows.size(), 2U);
}

TEST_F(SqliteStoreTest, OpensOnAFullDisk) {
  Fill(1);
  rlimit whole{};
  ::getrlimit(RLIMIT_FSIZE, &whole);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{0, whole.rlim_max};
  WriteFile(dir() + "/lock", "");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto lock = StateLock::Take(dir());
  ::setrlimit(RLIMIT_FSIZE, &whole);
  std::signal(SIGXFSZ, old);
  EXPECT_TRUE(lock.has_value()) << lock.error().message;
  EXPECT_EQ(ReadFile(dir() + "/lock"), "") << "the pid could not be written";
}

TEST_F(SqliteStoreTest, ReadsNewEventsByTheConnectionItKeeps) {
  const std::unique_ptr<Store> store = Open();
  Revision revision = store->Load()->revision;
  for (int i = 0; i < 3; ++i) {
    Batch batch{.expected = revision, .at = {}, .puts = {{"a", std::to_string(i)}}};
    batch.events.push_back({"node.seen", "node/n", std::to_string(i)});
    revision = store->Commit(batch)->revision;
    const auto events = store->Events(0, 100);
    ASSERT_TRUE(events.has_value()) << events.error().message;
    EXPECT_EQ(events->size(), static_cast<std::size_t>(i + 1));
  }
}

TEST_F(SqliteStoreTest, RefusesToGoOnAfterAnotherProcessWrote) {
  const std::unique_ptr<Store> store = Open();
  ASSERT_TRUE(store->Load().has_value());
  RunSql(file(), "UPDATE meta SET crc = crc + 1, body = zeroblob(80)");
  const auto done = store->Commit({.expected = 0, .at = {}, .puts = {{"a", "1"}}});
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kConflict);
  EXPECT_FALSE(store->Commit({.expected = 0, .at = {}, .puts = {{"a", "1"}}}).has_value());
}

TEST_F(SqliteStoreTest, KeepsItsLogShort) {
  const std::unique_ptr<Store> store = Open();
  Revision revision = store->Load()->revision;
  const std::string value(500 << 10, 'v');
  std::uintmax_t largest = 0;
  for (int i = 0; i < 200; ++i) {  // 100 MB through a log of 16 MiB
    const auto done = store->Commit(
        {.expected = revision, .at = {}, .puts = {{"k" + std::to_string(i % 4), value}}});
    ASSERT_TRUE(done.has_value()) << done.error().message;
    revision = done->revision;
    largest = std::max(largest, fs::file_size(file() + "-wal"));
  }
  EXPECT_LT(largest, 64U << 20);
}

TEST_F(SqliteStoreTest, KeepsTheNewestEventsAndStaysSound) {
  {
    auto opened = OpenSqliteStore(dir(), {.events = 10});
    ASSERT_TRUE(opened.has_value());
    Revision revision = (*opened)->Load()->revision;
    for (int i = 0; i < 25; ++i) {
      const auto done = (*opened)->Commit({.expected = revision,
                                           .at = WallMs(5),
                                           .puts = {},
                                           .deletes = {},
                                           .events = {{"kind", "subject", std::to_string(i)}}});
      ASSERT_TRUE(done.has_value()) << done.error().message;
      revision = done->revision;
    }
    const auto events = (*opened)->Events(0, 100);
    ASSERT_TRUE(events.has_value()) << events.error().message;
    ASSERT_EQ(events->size(), 10u);
    EXPECT_EQ(events->front().seq, 16u);
    EXPECT_EQ(events->back().body, "24");
  }
  EXPECT_TRUE(Load().has_value()) << "with any other number, too";
}

}  // namespace
}  // namespace launch::controller
