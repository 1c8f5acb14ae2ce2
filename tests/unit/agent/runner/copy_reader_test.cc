// Files that a job left in its copy of workdir: which may be read, and what comes of it.
#include "agent/runner/copy_reader.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "agent/runner/workdir_copy.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

TEST(FindInCopy, TakesPathsOfTheDirectoryAndOfTheOneItIsACopyOf) {
  const auto find = [](const std::string& path) {
    return *FindInCopy(path, "/state/work/7-abc", "/home/ana/proj");
  };
  EXPECT_EQ(find("out/model.pt"), (PathInCopy{"out", "model.pt"}));
  EXPECT_EQ(find("./out//last/"), (PathInCopy{"out", "last"}));
  EXPECT_EQ(find("model.pt"), (PathInCopy{".", "model.pt"}));
  EXPECT_EQ(find("out/.."), (PathInCopy{".", "."}));
  EXPECT_EQ(find("."), (PathInCopy{".", "."}));
  EXPECT_EQ(find(""), (PathInCopy{".", "."}));
  EXPECT_EQ(find("/state/work/7-abc/out/model.pt"), (PathInCopy{"out", "model.pt"}));
  EXPECT_EQ(find("/home/ana/proj/model.pt"), (PathInCopy{".", "model.pt"}));
}

TEST(FindInCopy, RefusesWhatIsElsewhere) {
  for (const char* path : {"..", "../8-abc/out", "out/../../8-abc", "/etc/passwd", "/",
                           "/state/work/7-abcd/x", "/home/ana/proj/../secret", "/home/ana"}) {
    const auto found = FindInCopy(path, "/state/work/7-abc", "/home/ana/proj");
    ASSERT_FALSE(found) << path;
    EXPECT_EQ(found.error().code, ErrorCode::kPermissionDenied) << path;
  }
}

class ReadCopyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "copy-reader-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    place_.state_dir = name;
    place_.key = {JobId{7}, Attempt{1}};
    place_.node = "gpu01";
    place_.copy = {.user = "ana", .root = std::string(64, 'a'), .workdir = "/proj", .used = true};
    copy_ = CopyPath(name, JobId{7}, place_.copy.root);
    fs::create_directories(copy_ / "out");
    std::ofstream(copy_ / "out/model.pt") << "the model";
    std::ofstream(fs::path(name) / "secret") << "not theirs";
    fs::create_symlink("../../secret", copy_ / "out/link");
    fs::create_directory_symlink("../..", copy_ / "up");
  }
  void TearDown() override { fs::remove_all(place_.state_dir); }

  // The archive; the code with which the reader ended in `end`.
  std::string Read(const std::string& path, ExecEnd& end) const {
    auto process = ReadCopy(place_, path);
    if (!process) {
      ADD_FAILURE() << process.error().message;
      return {};
    }
    std::string bytes;
    for (char some[4096];;) {
      pollfd wait{process->out(), POLLIN, 0};
      (void)::poll(&wait, 1, 10'000);
      const ssize_t got = ::read(process->out(), some, sizeof some);
      if (got <= 0) break;
      bytes.append(some, static_cast<std::size_t>(got));
    }
    pollfd over{process->pidfd(), POLLIN, 0};
    (void)::poll(&over, 1, 10'000);
    end = process->Reap();
    return bytes;
  }
  Error Refusal(const std::string& path) const {
    auto process = ReadCopy(place_, path);
    return process ? Error{ErrorCode::kInternal, "it was read", {}, {}} : process.error();
  }

  CopyPlace place_;
  fs::path copy_;
};

TEST_F(ReadCopyTest, GivesAFileOrADirectoryByTheNameAskedFor) {
  ExecEnd end;
  const std::string file = Read("out/model.pt", end);
  EXPECT_EQ(end.code, 0);
  EXPECT_TRUE(file.starts_with("model.pt")) << "entries begin with the name alone";
  EXPECT_NE(file.find("the model"), std::string::npos);
  const std::string all = Read("out", end);
  EXPECT_EQ(end.code, 0);
  EXPECT_NE(all.find("out/model.pt"), std::string::npos);
  EXPECT_EQ(all.find("not theirs"), std::string::npos) << "links stay links";
  EXPECT_TRUE(fs::exists(copy_.string() + ".used")) << "it is kept for a week more";
}

TEST_F(ReadCopyTest, NoLinkLeadsOut) {
  EXPECT_EQ(Refusal("up/secret").code, ErrorCode::kPermissionDenied);
  ExecEnd end;
  EXPECT_EQ(Read("out/link", end).find("not theirs"), std::string::npos);
}

TEST_F(ReadCopyTest, SaysWhatIsMissing) {
  EXPECT_EQ(Refusal("out/none").message,
            "there is no out/none in the copy of workdir that job 7 ran in on gpu01");
  EXPECT_EQ(Refusal("none/model.pt").code, ErrorCode::kNotFound);
  fs::remove_all(copy_);
  EXPECT_EQ(Refusal("out").message,
            "the copy of workdir that job 7 ran in is not on gpu01 any more");
  place_.copy.used = false;
  EXPECT_EQ(Refusal("out").message, "job 7 ran in place: what it wrote is in /proj on gpu01");
}

TEST_F(ReadCopyTest, OnlyAsTheAccountThatItBelongsTo) {
  LocalAccount other{.name = "bob", .uid = 1'150'000'001, .gid = 1'150'000'001};
  place_.account_of = [&](const std::string&) -> Result<LocalAccount> { return other; };
  EXPECT_EQ(Refusal("out").code, ErrorCode::kPermissionDenied);
  if (::geteuid() != 0) return;
  fs::permissions(place_.state_dir, fs::perms(0755));
  ASSERT_EQ(::chown(copy_.c_str(), other.uid, other.gid), 0);
  ASSERT_EQ(::chmod((copy_ / "out").c_str(), 0700), 0);  // still root's
  EXPECT_EQ(Refusal("out/model.pt").code, ErrorCode::kPermissionDenied)
      << "root's rights are not lent";
  ASSERT_EQ(::chown((copy_ / "out").c_str(), other.uid, other.gid), 0);
  ExecEnd end;
  EXPECT_NE(Read("out/model.pt", end).find("the model"), std::string::npos);
  EXPECT_EQ(end.code, 0);
}

}  // namespace
}  // namespace launch::agent
