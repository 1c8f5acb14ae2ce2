#include "controller/enrolment.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/controller_config.h"
#include "common/credential_files.h"
#include "controller/serving_files.h"

namespace launch::controller {
namespace {

constexpr Millis kDay{24LL * 3600 * 1000};

class EnrolmentTest : public ::testing::Test {
 protected:
  EnrolmentTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "launch-XXXXXX").string();
    dir = ::mkdtemp(pattern.data());
  }
  ~EnrolmentTest() override { std::filesystem::remove_all(dir); }

  Result<InitDone> Init() { return InitCredentials(files, Paths(), {"lab", "ana", now}); }
  StatePaths Paths() const { return StatePaths(dir + "/state"); }

  std::string dir;
  PosixFileSystem files;
  WallTime now = WallMs(1'800'000'000'000);
};

TEST_F(EnrolmentTest, InitMakesPrivateKeysAndAnIdentityForTheFirstOperator) {
  const auto done = Init();
  ASSERT_TRUE(done) << FormatError(done.error());
  for (const std::string& path : {Paths().ca_key, Paths().controller_key, Paths().secrets_key,
                                  Paths().operator_dir + "/key.pem"}) {
    struct stat found = {};
    ASSERT_EQ(::stat(path.c_str(), &found), 0) << path;
    EXPECT_EQ(found.st_mode & 0777, 0600u) << path;
  }
  const auto pem = files.Read(Paths().operator_dir + "/cert.pem", 65536);
  ASSERT_TRUE(pem);
  const auto facts = ReadCertificate(*pem);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->identity, (Identity{"lab", "user", "ana"}));
  EXPECT_EQ(facts->serial, done->operator_serial);
}

TEST_F(EnrolmentTest, InitOverwritesNothing) {
  ASSERT_TRUE(Init());
  const auto key = files.Read(Paths().ca_key, 65536);
  const auto again = Init();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(files.Read(Paths().ca_key, 65536), key);
}

TEST_F(EnrolmentTest, InitRefusesNamesThatNoCertificateCanCarry) {
  for (const char* name : {"", "-x", "a b", "a/b", "ä"}) {
    EXPECT_FALSE(InitCredentials(files, Paths(), {name, "ana", now})) << name;
    EXPECT_FALSE(InitCredentials(files, Paths(), {"lab", name, now})) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(Paths().dir));
}

TEST_F(EnrolmentTest, LoadSaysWhatToRunWhereThereIsNoCluster) {
  const auto loaded = LoadCredentials(files, Paths(), now);
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().hint.find("launch-controller init --state"), std::string::npos);
}

TEST_F(EnrolmentTest, LoadRenewsTheControllersCertificateWhenTwoThirdsOfItsLifeAreOver) {
  const auto done = Init();
  ASSERT_TRUE(done);
  const auto soon = LoadCredentials(files, Paths(), now + kDay);
  ASSERT_TRUE(soon) << FormatError(soon.error());
  EXPECT_EQ(soon->cluster, "lab");
  EXPECT_EQ(soon->certificate.pem, done->credentials.certificate.pem);
  const auto late = LoadCredentials(files, Paths(), now + 61 * kDay);
  ASSERT_TRUE(late);
  EXPECT_NE(late->certificate.pem, done->credentials.certificate.pem);
  EXPECT_TRUE(CheckPair(late->key, late->certificate));
  EXPECT_EQ(LoadCredentials(files, Paths(), now + 61 * kDay)->certificate.pem,
            late->certificate.pem);
}

TEST_F(EnrolmentTest, ALifeThatWasShortenedSinceCountsAtOnce) {
  ASSERT_TRUE(Init());
  const CertificateLives lives{Millis{20'000}, Millis{60'000}};
  const auto loaded = LoadCredentials(files, Paths(), now, lives);
  ASSERT_TRUE(loaded) << FormatError(loaded.error());
  EXPECT_EQ(ReadCertificate(loaded->certificate.pem)->not_after, now + Millis{60'000});
  EXPECT_EQ(LoadCredentials(files, Paths(), now, lives)->certificate.pem, loaded->certificate.pem)
      << "once";
  const auto first = ReadCredentials(files, Paths().operator_dir);
  ASSERT_TRUE(first);
  EXPECT_EQ(ReadCertificate(first->certificate_pem)->not_after, now + Millis{20'000});
}

TEST_F(EnrolmentTest, TheFirstOperatorsIdentityIsRenewedWhereItLies) {
  ASSERT_TRUE(Init());
  const auto before = ReadCredentials(files, Paths().operator_dir);
  auto loaded = LoadCredentials(files, Paths(), now);
  EXPECT_FALSE(*RenewOperator(files, Paths(), *loaded, now + 19 * kDay));
  EXPECT_TRUE(*RenewOperator(files, Paths(), *loaded, now + 21 * kDay));
  const auto after = ReadCredentials(files, Paths().operator_dir);
  ASSERT_TRUE(after) << FormatError(after.error());
  EXPECT_NE(after->key_pem, before->key_pem);
  const auto facts = ReadCertificate(after->certificate_pem);
  EXPECT_EQ(facts->identity, (Identity{"lab", "user", "ana"}));
  EXPECT_EQ(facts->not_after, now + 51 * kDay);
  std::filesystem::remove_all(Paths().operator_dir);
  EXPECT_FALSE(*RenewOperator(files, Paths(), *loaded, now + 60 * kDay)) << "moved elsewhere";
}

TEST_F(EnrolmentTest, APublishedPairIsSwappedAsOne) {
  ASSERT_TRUE(Init());
  auto loaded = LoadCredentials(files, Paths(), now);
  const auto served = PublishServing(files, Paths().dir, *loaded);
  ASSERT_TRUE(served) << FormatError(served.error());
  EXPECT_EQ(*files.Read(served->certificate, 65536), loaded->certificate.pem);
  ASSERT_TRUE(*RenewController(files, Paths(), *loaded, now + 61 * kDay));
  const auto again = PublishServing(files, Paths().dir, *loaded);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->key, served->key) << "the watched paths stay";
  EXPECT_EQ(*files.Read(served->certificate, 65536), loaded->certificate.pem);
  EXPECT_EQ(*files.Read(served->key, 65536), loaded->key.private_pem);
  EXPECT_EQ(files.List(Paths().dir + "/tls")->size(), 2u) << "the link and one pair";
}

TEST_F(EnrolmentTest, LoadRepairsAPairThatACrashLeftHalfWritten) {
  ASSERT_TRUE(Init());
  const auto other = MakeKey();
  ASSERT_TRUE(files.WriteDurable(Paths().controller_key, other->private_pem));
  const auto loaded = LoadCredentials(files, Paths(), now);
  ASSERT_TRUE(loaded) << FormatError(loaded.error());
  EXPECT_TRUE(CheckPair(loaded->key, loaded->certificate));
}

TEST_F(EnrolmentTest, ATokenCarriesACertificateThatOnlyJoins) {
  const Enrolment enrolment(Init()->credentials);
  const auto made = enrolment.MakeToken({"node", "gpu01"}, {"head:1"}, Millis{0}, now);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->expires, now + Millis{15 * 60 * 1000});
  const auto token = ParseJoinToken(made->line);
  ASSERT_TRUE(token);
  EXPECT_EQ(token->addresses, std::vector<std::string>{"head:1"});
  const auto facts = ReadCertificate(token->certificate_pem);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->serial, made->serial);
  EXPECT_EQ(facts->identity.role, "join");
  const auto joiner = ParseJoiner(facts->identity);
  ASSERT_TRUE(joiner);
  EXPECT_EQ(joiner->role, "node");
  EXPECT_EQ(joiner->name, "gpu01");
  EXPECT_FALSE(ParseJoiner({"lab", "join", "operator:x"}));
  EXPECT_FALSE(ParseJoiner({"lab", "node", "gpu01"}));
  EXPECT_FALSE(ParseJoiner({"lab", "join", "gpu01"}));
}

TEST_F(EnrolmentTest, AJoinThatFailsWithAnExpiredTokenSaysSoAndHidesNoOtherReason) {
  const Enrolment enrolment(Init()->credentials);
  const auto made = enrolment.MakeToken({"node", "gpu01"}, {"head:1"}, Millis{1000}, now);
  const auto token = ParseJoinToken(made->line);
  ASSERT_TRUE(token);
  const Error closed{ErrorCode::kUnavailable, "Socket closed", "", std::nullopt};
  const Error used{ErrorCode::kPermissionDenied, "used before", "", std::nullopt};
  EXPECT_EQ(ExplainFailedJoin(closed, *token, now), closed);
  EXPECT_EQ(ExplainFailedJoin(used, *token, now + kDay), used);
  const Error late = ExplainFailedJoin(closed, *token, now + Millis{61'000});
  EXPECT_EQ(late.code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(late.message, "the join token expired 60 s ago");
}

TEST(ConfigTest, ReadsTheShippedFileAsTheDefaults) {
  PosixFileSystem files;
  const auto text = files.Read(LAUNCH_SOURCE_DIR "/configs/controller.yaml", 65536);
  ASSERT_TRUE(text);
  const auto config = ParseControllerConfig(*text, "controller.yaml");
  ASSERT_TRUE(config) << FormatError(config.error());
  EXPECT_EQ(*config, ControllerConfig{});
}

TEST(ConfigTest, RefusesWhatItDoesNotKnowWithLineAndHint) {
  const auto typo = ParseControllerConfig("listen: 127.0.0.1:1\nadvertize: [a:1]\n", "c.yaml");
  ASSERT_FALSE(typo);
  EXPECT_EQ(typo.error().where->line, 2);
  EXPECT_NE(typo.error().hint.find("advertise"), std::string::npos);
  EXPECT_FALSE(ParseControllerConfig("listen: nowhere\n", "c.yaml"));
  EXPECT_FALSE(ParseControllerConfig("log_level: loud\n", "c.yaml"));
  EXPECT_FALSE(ParseControllerConfig("stop_within: 2h\n", "c.yaml"));
}

TEST(ConfigTest, ReadsHostAndPort) {
  EXPECT_EQ(ParseHostPort("a.b:0")->port, 0);
  EXPECT_EQ(ParseHostPort("[::1]:70")->host, "::1");
  for (const char* bad : {"a", "a:", ":1", "a:70000", "a:-1", "::1:70", "a:1x"}) {
    EXPECT_FALSE(ParseHostPort(bad)) << bad;
  }
}

}  // namespace
}  // namespace launch::controller
