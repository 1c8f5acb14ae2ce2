#include "common/pki.h"

#include <gtest/gtest.h>

#include <set>

namespace launch {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;
const WallTime kNow = WallMs(1'790'000'000'000);

template <class T>
T Must(Result<T> result) {
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
  return result ? std::move(*result) : T{};
}

// A cluster's CA and what it signs.
struct Authority {
  std::string cluster = "lab";
  KeyPair key = Must(MakeKey());
  Certificate ca = Must(MakeCa(key, cluster, kNow));

  Certificate Sign(const KeyPair& of, const std::string& role, const std::string& name,
                   Millis life = Millis{30 * kDayMs}) const {
    return Must(SignCsr(Must(MakeCsr(of)), key, ca,
                        {.identity = {cluster, role, name}, .life = life, .serial = NewSerial()},
                        kNow));
  }
};

TEST(Digests, AreThePublishedOnes) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(Crc32c(""), 0U);
}

TEST(Random, DoesNotRepeat) {
  EXPECT_EQ(RandomHex(16).size(), 32U);
  std::set<std::string> serials;
  for (int i = 0; i < 200; ++i) serials.insert(NewSerial());
  EXPECT_EQ(serials.size(), 200U);
  for (const std::string& serial : serials) EXPECT_EQ(serial.size(), 32U) << serial;
}

TEST(IdentityUri, ReadsBackWhatItWrites) {
  for (const Identity& identity :
       {Identity{"lab", "controller", ""}, Identity{"lab", "node", "gpu-01"},
        Identity{"lab", "user", "ana"}, Identity{"lab", "join", "node:gpu-01"},
        Identity{"lab", "join", "user:ana"}}) {
    EXPECT_EQ(Must(ParseIdentityUri(ToUri(identity))), identity) << ToUri(identity);
  }
}

TEST(IdentityUri, RefusesEveryOtherSpelling) {
  using namespace std::string_literals;
  for (const std::string& uri : {""s,
                                 "launch://"s,
                                 "launch://lab"s,
                                 "launch://lab/"s,
                                 "launch://lab/node"s,
                                 "launch://lab/node/"s,
                                 "launch://lab/node/a/b"s,
                                 "launch://lab/controller/"s,
                                 "launch://lab/controller/x"s,
                                 "launch://lab/root/x"s,
                                 "LAUNCH://lab/node/a"s,
                                 "launch:///node/a"s,
                                 "launch://lab/join/a"s,
                                 "launch://lab/join/root:a"s,
                                 "launch://lab/join/node:"s,
                                 "launch://lab/node/a b"s,
                                 "launch://lab/node/a\0"s,
                                 "launch://lab/node/a%2e"s,
                                 " launch://lab/node/a"s,
                                 "launch://lab/node/../user/ana"s,
                                 "spiffe://lab/node/a"s,
                                 "launch://lab/node/-a"s}) {
    EXPECT_FALSE(ParseIdentityUri(uri).has_value()) << uri;
  }
}

TEST(Certificate, CarriesTheIdentityItWasSignedFor) {
  const Authority lab;
  const KeyPair key = Must(MakeKey());
  const std::string serial = NewSerial();
  const Certificate leaf = Must(SignCsr(Must(MakeCsr(key)), lab.key, lab.ca,
                                        {.identity = {"lab", "node", "gpu01"},
                                         .life = Millis{30 * kDayMs},
                                         .dns_names = {},
                                         .serial = serial},
                                        kNow));
  const CertificateFacts facts = Must(ReadCertificate(leaf.pem));
  EXPECT_EQ(facts.identity, (Identity{"lab", "node", "gpu01"}));
  EXPECT_EQ(facts.serial, serial);
  EXPECT_EQ(facts.not_before, kNow - Millis{3'600'000});
  EXPECT_EQ(facts.not_after, kNow + Millis{30 * kDayMs});
  EXPECT_TRUE(CheckPair(key, leaf).has_value());
  EXPECT_TRUE(CheckIssued(leaf, lab.ca, kNow).has_value());
}

TEST(Certificate, OfAJoinerMayHaveTheLongestName) {
  const Authority lab;
  const std::string name = "node:" + std::string(63, 'n');
  const Certificate leaf = lab.Sign(Must(MakeKey()), "join", name);
  EXPECT_EQ(Must(ReadCertificate(leaf.pem)).identity.name, name);
}

TEST(Certificate, NeverOutlivesItsCa) {
  const Authority lab;
  const Certificate leaf = lab.Sign(Must(MakeKey()), "user", "ana", Millis{100LL * 365 * kDayMs});
  EXPECT_EQ(Must(ReadCertificate(leaf.pem)).not_after, kNow + Millis{3650 * kDayMs});
}

TEST(Certificate, OfAnotherCaIsRefused) {
  const Authority lab;
  const Authority impostor;  // the same cluster name, another key
  const Certificate leaf = impostor.Sign(Must(MakeKey()), "node", "gpu01");
  const auto checked = CheckIssued(leaf, lab.ca, kNow);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code, ErrorCode::kPermissionDenied);
}

TEST(Certificate, OfALeafIsRefused) {
  const Authority lab;
  const KeyPair node_key = Must(MakeKey());
  const Certificate node = lab.Sign(node_key, "node", "gpu01");
  // A node signs a certificate for itself to sign: its own is no CA.
  const Certificate forged = Must(SignCsr(Must(MakeCsr(Must(MakeKey()))), node_key, node,
                                          {.identity = {"lab", "user", "root"},
                                           .life = Millis{kDayMs},
                                           .dns_names = {},
                                           .serial = NewSerial()},
                                          kNow));
  EXPECT_FALSE(CheckIssued(forged, node, kNow).has_value());
  EXPECT_FALSE(CheckIssued(forged, lab.ca, kNow).has_value());
}

TEST(Certificate, OutsideItsTimeNamesTheClock) {
  const Authority lab;
  const Certificate leaf = lab.Sign(Must(MakeKey()), "node", "gpu01");
  const auto expired = CheckIssued(leaf, lab.ca, kNow + Millis{31 * kDayMs});
  ASSERT_FALSE(expired.has_value());
  EXPECT_NE(expired.error().message.find("ended on"), std::string::npos);
  EXPECT_NE(expired.error().hint.find("clock"), std::string::npos);
  const auto early = CheckIssued(leaf, lab.ca, kNow - Millis{2 * 3'600'000});
  ASSERT_FALSE(early.has_value());
  EXPECT_NE(early.error().message.find("not valid before"), std::string::npos);
}

TEST(Certificate, DoesNotPairWithAnotherKey) {
  const Authority lab;
  const Certificate leaf = lab.Sign(Must(MakeKey()), "node", "gpu01");
  EXPECT_FALSE(CheckPair(Must(MakeKey()), leaf).has_value());
}

TEST(Certificate, WithoutAnIdentityOfOursIsRefused) {
  const Authority lab;
  EXPECT_FALSE(ReadCertificate(lab.ca.pem).has_value());
  EXPECT_FALSE(ReadCertificate("").has_value());
  EXPECT_FALSE(ReadCertificate("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
                   .has_value());
}

TEST(SignCsr, RefusesWhatItShouldNotSign) {
  const Authority lab;
  const Authority other;
  const std::string csr = Must(MakeCsr(Must(MakeKey())));
  const SignRequest good{.identity = {"lab", "node", "gpu01"},
                         .life = Millis{kDayMs},
                         .dns_names = {},
                         .serial = NewSerial()};
  EXPECT_TRUE(SignCsr(csr, lab.key, lab.ca, good, kNow).has_value());

  SignRequest request = good;
  request.identity.name = "a/b";
  EXPECT_FALSE(SignCsr(csr, lab.key, lab.ca, request, kNow).has_value());
  request = good;
  request.identity.role = "root";
  EXPECT_FALSE(SignCsr(csr, lab.key, lab.ca, request, kNow).has_value());
  request = good;
  request.serial = "1";
  EXPECT_FALSE(SignCsr(csr, lab.key, lab.ca, request, kNow).has_value());
  request = good;
  request.life = Millis{0};
  EXPECT_FALSE(SignCsr(csr, lab.key, lab.ca, request, kNow).has_value());
  EXPECT_FALSE(SignCsr(csr, other.key, lab.ca, good, kNow).has_value()) << "another CA's key";
  EXPECT_FALSE(SignCsr("", lab.key, lab.ca, good, kNow).has_value());
}

TEST(SignCsr, RefusesEveryDamagedRequest) {
  const Authority lab;
  const std::string csr = Must(MakeCsr(Must(MakeKey())));
  const SignRequest request{.identity = {"lab", "node", "gpu01"},
                            .life = Millis{kDayMs},
                            .dns_names = {},
                            .serial = NewSerial()};
  const std::size_t begin = csr.find('\n') + 1;
  const std::size_t end = csr.rfind("\n-----END");
  for (std::size_t at = begin; at < end; at += 3) {
    std::string damaged = csr;
    damaged[at] = damaged[at] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(SignCsr(damaged, lab.key, lab.ca, request, kNow).has_value()) << at;
  }
}

JoinToken TokenOf(const Authority& lab) {
  const KeyPair key = Must(MakeKey());
  return {.cluster = lab.cluster,
          .addresses = {"10.0.0.1:7443", "[fe80::1]:7443"},
          .ca_pem = lab.ca.pem,
          .key_pem = key.private_pem,
          .certificate_pem = lab.Sign(key, "join", "node:gpu01", Millis{900'000}).pem};
}

TEST(JoinToken, IsOneLineThatReadsBack) {
  const Authority lab;
  const JoinToken token = TokenOf(lab);
  const std::string line = FormatJoinToken(token);
  EXPECT_TRUE(line.starts_with("launch-join-1."));
  EXPECT_EQ(line.find_first_of(" \n+/="), std::string::npos);
  EXPECT_LT(line.size(), 2'000U);
  const JoinToken read = Must(ParseJoinToken(" " + line + "\r\n"));
  EXPECT_EQ(read.cluster, token.cluster);
  EXPECT_EQ(read.addresses, token.addresses);
  EXPECT_EQ(read.ca_pem, token.ca_pem);
  EXPECT_EQ(read.key_pem, token.key_pem);
  EXPECT_EQ(read.certificate_pem, token.certificate_pem);
}

TEST(JoinToken, RefusesEveryChangedOrMissingCharacter) {
  const Authority lab;
  const std::string line = FormatJoinToken(TokenOf(lab));
  for (std::size_t at = 0; at < line.size(); ++at) {
    std::string changed = line;
    changed[at] = changed[at] == 'x' ? 'y' : 'x';
    EXPECT_FALSE(ParseJoinToken(changed).has_value()) << at;
    EXPECT_FALSE(ParseJoinToken(line.substr(0, at)).has_value()) << at;
    EXPECT_FALSE(ParseJoinToken(line.substr(at + 1)).has_value()) << at;
  }
  EXPECT_FALSE(ParseJoinToken(line + "A").has_value());
}

TEST(JoinToken, RefusesPartsThatDoNotBelongTogether) {
  const Authority lab;
  const Authority other;
  const JoinToken good = TokenOf(lab);
  JoinToken token = good;
  token.key_pem = Must(MakeKey()).private_pem;
  EXPECT_FALSE(ParseJoinToken(FormatJoinToken(token)).has_value()) << "another key";
  token = good;
  token.ca_pem = other.ca.pem;
  EXPECT_FALSE(ParseJoinToken(FormatJoinToken(token)).has_value()) << "another CA";
  token = good;
  token.cluster = "elsewhere";
  EXPECT_FALSE(ParseJoinToken(FormatJoinToken(token)).has_value()) << "another cluster";
  token = good;
  const KeyPair key = Must(MakeKey());
  token.key_pem = key.private_pem;
  token.certificate_pem = lab.Sign(key, "node", "gpu01").pem;
  EXPECT_FALSE(ParseJoinToken(FormatJoinToken(token)).has_value()) << "no joiner";
}

TEST(Seal, OpensWithItsKeyOnly) {
  const std::string key(32, 'k');
  const std::string plain("hf_secret\0with nul", 18);
  const std::string sealed = Must(Seal(key, plain));
  EXPECT_EQ(Must(Unseal(key, sealed)), plain);
  EXPECT_EQ(sealed.find("secret"), std::string::npos);
  EXPECT_NE(Must(Seal(key, plain)), sealed) << "a nonce is used once";
  EXPECT_FALSE(Unseal(std::string(32, 'j'), sealed).has_value());
  EXPECT_EQ(Must(Unseal(key, Must(Seal(key, "")))), "");
}

TEST(Seal, RefusesKeysOfAnotherLength) {
  EXPECT_FALSE(Seal("short", "x").has_value());
  EXPECT_FALSE(Unseal(std::string(33, 'k'), std::string(64, 'x')).has_value());
}

TEST(Seal, DetectsEveryFlippedBitAndEveryCut) {
  const std::string key(32, 'k');
  const std::string sealed = Must(Seal(key, "a token that somebody pays for"));
  for (std::size_t at = 0; at < sealed.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string damaged = sealed;
      damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ (1U << bit));
      const auto opened = Unseal(key, damaged);
      ASSERT_FALSE(opened.has_value()) << at;
      EXPECT_EQ(opened.error().code, ErrorCode::kDataLoss);
    }
    EXPECT_FALSE(Unseal(key, sealed.substr(0, at)).has_value()) << at;
  }
  EXPECT_FALSE(Unseal(key, sealed + "x").has_value());
}

}  // namespace
}  // namespace launch
