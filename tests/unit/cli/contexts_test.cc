#include "cli/contexts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/clock.h"
#include "common/pki.h"

namespace launch {
namespace {

namespace fs = std::filesystem;

class ContextsTest : public testing::Test {
 protected:
  ContextsTest() {
    std::string name = fs::temp_directory_path() / "launch-contexts-XXXXXX";
    dir_ = ::mkdtemp(name.data());
  }
  ~ContextsTest() override { fs::remove_all(dir_); }

  // The credentials of `user` in a cluster that calls itself `cluster`.
  void Save(Contexts& contexts, const std::string& name, const std::string& cluster,
            const std::string& user) {
    const WallTime now = SystemClock().WallNow();
    const KeyPair ca_key = MakeKey().value();
    const KeyPair key = MakeKey().value();
    const Certificate ca = MakeCa(ca_key, cluster, now).value();
    const auto certificate =
        SignCsr(MakeCsr(key).value(), ca_key, ca,
                {Identity{cluster, "user", user}, Millis(60'000), {}, NewSerial()}, now);
    ASSERT_TRUE(certificate) << FormatError(certificate.error());
    ASSERT_TRUE(contexts.Save(name, {"gpu01:7470", ca.pem, certificate->pem, key.private_pem}));
  }

  std::string dir_;
};

TEST_F(ContextsTest, ARenamedOneStaysTheCurrentOne) {
  Contexts contexts(dir_);
  Save(contexts, "launch", "launch", "ana");
  ASSERT_TRUE(contexts.Use("launch"));
  const auto renamed = contexts.Rename("launch", "lab");
  ASSERT_TRUE(renamed) << FormatError(renamed.error());
  EXPECT_EQ(contexts.Names(), std::vector<std::string>{"lab"});
  EXPECT_EQ(contexts.Current(), "lab");
}

// A loop of links: what cannot be looked at is no cluster, and no crash.
TEST_F(ContextsTest, OneThatCannotBeLookedAtIsNone) {
  Contexts contexts(dir_);
  Save(contexts, "lab", "lab", "ana");
  ASSERT_TRUE(contexts.Use("lab"));
  fs::create_directories(contexts.Dir("torn"));
  fs::create_symlink("address", contexts.Dir("torn") + "/address");
  EXPECT_EQ(contexts.Names(), std::vector<std::string>{"lab"});
  fs::remove(contexts.Dir("lab") + "/address");
  fs::create_symlink("address", contexts.Dir("lab") + "/address");
  EXPECT_FALSE(contexts.Current());
}

TEST_F(ContextsTest, NoNameIsTakenTwice) {
  Contexts contexts(dir_);
  Save(contexts, "launch", "launch", "ana");
  Save(contexts, "lab", "launch", "bob");
  const auto taken = contexts.Rename("launch", "lab");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(contexts.Rename("none", "other").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(contexts.Rename("lab", "../lab").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(contexts.Names(), (std::vector<std::string>{"lab", "launch"}));
  EXPECT_EQ(contexts.Holder("lab"), (Identity{"launch", "user", "bob"}));
  EXPECT_EQ(contexts.Holder("launch"), (Identity{"launch", "user", "ana"}));
}

TEST_F(ContextsTest, ACertificateThatCannotBeReadHasNoHolder) {
  Contexts contexts(dir_);
  ASSERT_TRUE(contexts.Save("lab", {"gpu01:7470", "x", "not a certificate", ""}));
  EXPECT_FALSE(contexts.Holder("lab"));
  EXPECT_FALSE(contexts.Holder("none"));
}

}  // namespace
}  // namespace launch
