#include "agent/link/identity_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/pki.h"

namespace launch::agent {
namespace {

class IdentityOnDisk : public testing::Test {
 protected:
  IdentityOnDisk() {
    std::string pattern = testing::TempDir() + "/identityXXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~IdentityOnDisk() override { std::filesystem::remove_all(dir_); }

  static IdentityFiles Made(const KeyPair& key) {
    const KeyPair ca_key = *MakeKey();
    const Certificate ca = *MakeCa(ca_key, "c", WallMs(1'700'000'000'000));
    const SignRequest request{.identity = {"c", "node", "n1"},
                              .life = Millis(3'600'000),
                              .dns_names = {},
                              .serial = NewSerial()};
    const Certificate certificate =
        *SignCsr(*MakeCsr(key), ca_key, ca, request, WallMs(1'700'000'000'000));
    return {ca.pem, certificate.pem, key.private_pem};
  }

  std::string dir_;
  PosixFileSystem files_;
};

TEST_F(IdentityOnDisk, IsReadAsItWasWrittenAndForItsOwnerOnly) {
  const IdentityFiles identity = Made(*MakeKey());
  ASSERT_TRUE(WriteIdentity(files_, dir_, identity).has_value());
  const auto read = ReadIdentity(files_, dir_);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->key_pem, identity.key_pem);
  EXPECT_EQ(read->certificate_pem, identity.certificate_pem);
  struct stat info {};
  ASSERT_EQ(::stat((dir_ + "/identity/key.pem").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(IdentityOnDisk, AForeignKeyIsFoundBeforeDialling) {
  IdentityFiles identity = Made(*MakeKey());
  identity.key_pem = MakeKey()->private_pem;
  ASSERT_TRUE(WriteIdentity(files_, dir_, identity).has_value());
  const auto read = ReadIdentity(files_, dir_);
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find("do not belong together"), std::string::npos);
}

// Files that stop being written after some calls, as in a crash.
class StoppingFiles final : public FileSystem {
 public:
  explicit StoppingFiles(int left) : left_(left) {}
  Result<std::string> Read(const std::string& path, std::size_t most) override {
    return files_.Read(path, most);
  }
  Result<void> Write(const std::string& path, std::string_view bytes) override {
    return --left_ < 0 ? Stopped() : files_.Write(path, bytes);
  }
  Result<void> WriteDurable(const std::string& path, std::string_view bytes) override {
    return --left_ < 0 ? Stopped() : files_.WriteDurable(path, bytes);
  }
  Result<void> MakeDirs(const std::string& path) override { return files_.MakeDirs(path); }
  Result<std::vector<std::string>> List(const std::string& path) override {
    return files_.List(path);
  }
  Result<void> RemoveTree(const std::string& path) override {
    return --left_ < 0 ? Stopped() : files_.RemoveTree(path);
  }
  Result<void> SyncDir(const std::string& path) override { return files_.SyncDir(path); }

 private:
  static Result<void> Stopped() { return Fail(ErrorCode::kIo, "the power is gone"); }
  int left_;
  PosixFileSystem files_;
};

TEST_F(IdentityOnDisk, ACrashAnywhereInAReplacementLeavesTheOldOneOrTheNew) {
  const IdentityFiles before = Made(*MakeKey());
  const IdentityFiles after = Made(*MakeKey());
  int whole = 0;
  for (int calls = 0; calls < 6; ++calls) {
    ASSERT_TRUE(WriteIdentity(files_, dir_, before).has_value());
    StoppingFiles stopping(calls);
    const bool done = WriteIdentity(stopping, dir_, after).has_value();
    const auto read = ReadIdentity(files_, dir_);
    ASSERT_TRUE(read.has_value()) << calls << ": " << read.error().message;
    const bool is_new = read->key_pem == after.key_pem;
    EXPECT_EQ(read->certificate_pem, is_new ? after.certificate_pem : before.certificate_pem);
    EXPECT_TRUE(is_new || !done) << calls;
    whole += done ? 1 : 0;
  }
  EXPECT_EQ(whole, 1) << "the last round writes everything";
}

TEST_F(IdentityOnDisk, AMissingOneSaysHowToJoin) {
  const auto read = ReadIdentity(files_, dir_);
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().hint.find("launch-agent join"), std::string::npos);
}

TEST_F(IdentityOnDisk, WhatWasJoinedIsRemembered) {
  const JoinedCluster joined{NodeId{"n1"}, {"10.0.0.1:7443", "[::1]:7443"}, "ab12"};
  ASSERT_TRUE(WriteJoined(files_, dir_, joined).has_value());
  const auto read = ReadJoined(files_, dir_);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->node, joined.node);
  EXPECT_EQ(read->controllers, joined.controllers);
  EXPECT_EQ(read->install_id, "ab12");
}

TEST_F(IdentityOnDisk, ADamagedMemoryIsAnErrorWithItsFile) {
  for (const char* text :
       {"", "{", "[]", R"({"node": 1})", R"({"node": "../x", "controllers": [], "install_id": ""})",
        R"({"node": "n", "controllers": [1], "install_id": ""})"}) {
    ASSERT_TRUE(files_.MakeDirs(dir_ + "/identity").has_value());
    ASSERT_TRUE(files_.WriteDurable(dir_ + "/identity/joined.json", text).has_value());
    const auto read = ReadJoined(files_, dir_);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_NE(read.error().message.find("joined.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace launch::agent
