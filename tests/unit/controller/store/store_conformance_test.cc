// One suite for every Store: what the core relies on holds for the real one and for the fake.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "controller/store/sqlite_store.h"
#include "tests/fakes/memory_store.h"
#include "tests/unit/controller/store/temporary_dir.h"

namespace launch::controller {
namespace {

class MemoryKind {
 public:
  std::unique_ptr<Store> Open() { return std::make_unique<testing::MemoryStore>(); }
  std::unique_ptr<Store> Reopen(std::unique_ptr<Store> store) {
    return dynamic_cast<testing::MemoryStore&>(*store).Crash();
  }
};

class SqliteKind {
 public:
  std::unique_ptr<Store> Open() {
    EXPECT_TRUE(MakeSqliteStore(dir_.path()).has_value());
    return OpenAgain();
  }
  std::unique_ptr<Store> Reopen(std::unique_ptr<Store> store) {
    store.reset();
    return OpenAgain();
  }

 private:
  std::unique_ptr<Store> OpenAgain() {
    auto store = OpenSqliteStore(dir_.path());
    EXPECT_TRUE(store.has_value()) << store.error().message;
    return store ? std::move(*store) : nullptr;
  }
  TemporaryDir dir_;
};

template <class Kind>
class StoreContract : public ::testing::Test {
 protected:
  StoreContract() : store_(kind_.Open()) { EXPECT_EQ(Load().revision, 0U); }

  Snapshot Load() {
    auto snapshot = store_->Load();
    EXPECT_TRUE(snapshot.has_value()) << snapshot.error().message;
    return snapshot ? std::move(*snapshot) : Snapshot{};
  }
  Committed Put(std::vector<std::pair<std::string, std::string>> puts,
                std::vector<std::string> deletes = {}, std::vector<Batch::NewEvent> events = {}) {
    auto done = store_->Commit({.expected = revision_,
                                .at = WallMs(1'000),
                                .puts = std::move(puts),
                                .deletes = std::move(deletes),
                                .events = std::move(events)});
    EXPECT_TRUE(done.has_value()) << done.error().message;
    if (!done) return {};
    revision_ = done->revision;
    return *done;
  }
  void Restart() {
    store_ = kind_.Reopen(std::move(store_));
    EXPECT_EQ(Load().revision, revision_);
  }
  std::map<std::string, std::string> Rows() {
    std::map<std::string, std::string> rows;
    for (const StoredRow& row : Load().rows) rows[row.key] = row.value;
    return rows;
  }

  Kind kind_;
  std::unique_ptr<Store> store_;
  Revision revision_ = 0;
};

using Kinds = ::testing::Types<MemoryKind, SqliteKind>;
TYPED_TEST_SUITE(StoreContract, Kinds);

TYPED_TEST(StoreContract, StartsEmpty) {
  const Snapshot snapshot = this->Load();
  EXPECT_TRUE(snapshot.rows.empty());
  EXPECT_EQ(snapshot.last_event, 0U);
  EXPECT_TRUE(this->store_->Events(0, 100)->empty());
}

TYPED_TEST(StoreContract, KeepsRowsInKeyOrderWithTheirRevisionOverARestart) {
  this->Put({{"job/2", "two"}, {"alloc/1", "a"}});
  this->Put({{"job/1", "one"}});
  this->Restart();
  const Snapshot snapshot = this->Load();
  ASSERT_EQ(snapshot.rows.size(), 3U);
  EXPECT_EQ(snapshot.rows[0].key, "alloc/1");
  EXPECT_EQ(snapshot.rows[1].key, "job/1");
  EXPECT_EQ(snapshot.rows[2].key, "job/2");
  EXPECT_EQ(snapshot.rows[1].revision, 2U);
  EXPECT_EQ(snapshot.rows[2].revision, 1U);
}

TYPED_TEST(StoreContract, KeepsAnyBytes) {
  const std::string odd("\0\xff\x80\n'", 5);
  this->Put({{odd, odd}, {"empty", ""}}, {}, {{odd, odd, odd}});
  this->Restart();
  EXPECT_EQ(this->Rows(), (std::map<std::string, std::string>{{odd, odd}, {"empty", ""}}));
  EXPECT_EQ(this->store_->Events(0, 1)->at(0).body, odd);
}

TYPED_TEST(StoreContract, ReplacesAndDeletes) {
  this->Put({{"a", "1"}, {"b", "1"}});
  this->Put({{"a", "2"}}, {"b", "never there"});
  this->Restart();
  EXPECT_EQ(this->Rows(), (std::map<std::string, std::string>{{"a", "2"}}));
}

TYPED_TEST(StoreContract, ReadsTheRowsOfAPrefixInKeyOrder) {
  this->Put({{"plan/1/2/0", "c"}, {"plan/1/1/1", "b"}, {"plan/1/1/0", "a"}, {"plan/1/10/0", "d"}});
  const auto rows = this->store_->Read("plan/1/1/");
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ(rows->at(0).value, "a");
  EXPECT_EQ(rows->at(1).key, "plan/1/1/1");
  EXPECT_TRUE(this->store_->Read("plan/2/")->empty());
}

TYPED_TEST(StoreContract, LetsTheLastPutWinAndADeleteBeatAPut) {
  this->Put({{"a", "1"}, {"a", "2"}, {"b", "1"}}, {"b"});
  this->Restart();
  EXPECT_EQ(this->Rows(), (std::map<std::string, std::string>{{"a", "2"}}));
}

TYPED_TEST(StoreContract, RefusesABatchThatFollowsAnotherRevision) {
  this->Put({{"a", "1"}});
  for (const Revision wrong : {Revision{0}, Revision{2}}) {
    const auto done = this->store_->Commit({.expected = wrong, .at = {}, .puts = {{"a", "2"}}});
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, ErrorCode::kConflict);
  }
  EXPECT_EQ(this->Rows().at("a"), "1");
}

TYPED_TEST(StoreContract, TakesAnEmptyBatchForNothing) {
  this->Put({{"a", "1"}});
  const Committed done = this->Put({});
  EXPECT_EQ(done.revision, 1U);
  EXPECT_EQ(done.first_event, 0U);
}

TYPED_TEST(StoreContract, RefusesAValueBeyondTheLimitAndGoesOn) {
  const std::string large(this->store_->Limits().bytes_per_value + 1, 'x');
  const auto done = this->store_->Commit({.expected = 0, .at = {}, .puts = {{"a", large}}});
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
  this->Put({{"a", large.substr(1)}});
  this->Restart();
  EXPECT_EQ(this->Rows().at("a").size(), large.size() - 1);
}

TYPED_TEST(StoreContract, RefusesACommitBeforeLoad) {
  this->store_ = this->kind_.Reopen(std::move(this->store_));
  EXPECT_FALSE(this->store_->Commit({.expected = 0, .at = {}, .puts = {{"a", "1"}}}).has_value());
}

TYPED_TEST(StoreContract, NumbersEventsWithoutGapsOverARestart) {
  EXPECT_EQ(
      this->Put({}, {}, {{"job.submitted", "job/1", "x"}, {"node.seen", "n", "y"}}).first_event,
      1U);
  EXPECT_EQ(this->Put({{"a", "1"}}).first_event, 0U);
  this->Restart();
  EXPECT_EQ(this->Put({}, {}, {{"job.done", "job/1", "z"}}).first_event, 3U);
  EXPECT_EQ(this->Load().last_event, 3U);
  const auto events = *this->store_->Events(0, 100);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].kind, "job.submitted");
  EXPECT_EQ(events[1].subject, "n");
  EXPECT_EQ(events[2].seq, 3U);
  EXPECT_EQ(events[2].revision, 3U);
  EXPECT_EQ(events[2].at, WallMs(1'000));
}

TYPED_TEST(StoreContract, PagesEvents) {
  std::vector<Batch::NewEvent> events;
  for (int i = 0; i < 10; ++i) events.push_back({"k", "s", std::to_string(i)});
  this->Put({}, {}, events);
  const auto page = *this->store_->Events(3, 4);
  ASSERT_EQ(page.size(), 4U);
  EXPECT_EQ(page.front().seq, 4U);
  EXPECT_EQ(page.back().seq, 7U);
  EXPECT_TRUE(this->store_->Events(10, 4)->empty());
  EXPECT_TRUE(this->store_->Events(1'000'000, 4)->empty());
  EXPECT_TRUE(this->store_->Events(0, 0)->empty());
}

TYPED_TEST(StoreContract, AnswersEventsFromOtherThreadsDuringCommits) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    std::size_t seen = 0;
    while (!stop) {
      const auto events = this->store_->Events(0, 1'000);
      if (!events || events->size() < seen) ++wrong;
      if (events) seen = events->size();
    }
  });
  for (int i = 0; i < 100; ++i) this->Put({{"a", std::to_string(i)}}, {}, {{"k", "s", "b"}});
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(this->store_->Events(0, 1'000)->size(), 100U);
}

}  // namespace
}  // namespace launch::controller
