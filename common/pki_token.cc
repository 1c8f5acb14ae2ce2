// The join token: one line that makes a stranger a joiner.
#include <openssl/pem.h>

#include <array>
#include <chrono>
#include <utility>

#include "common/base64.h"
#include "common/ids.h"
#include "common/openssl_handles.h"
#include "common/pki.h"
#include "common/text.h"

namespace launch {
namespace {

constexpr std::string_view kPrefix = "launch-join-1.";
constexpr std::size_t kMaxLine = 32 << 10;
constexpr std::size_t kMaxAddresses = 64;
constexpr std::size_t kSumSize = 4;

std::string Number(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xFFU);
  return bytes;
}

void Append(std::string& body, std::string_view field) {
  body += Number(static_cast<std::uint32_t>(field.size()));
  body += field;
}

// Reads what Append wrote; a body that ends early or late is no token.
class TokenFields {
 public:
  explicit TokenFields(std::string_view body) : rest_(body) {}
  std::optional<std::uint32_t> Number() {
    if (rest_.size() < 4) return std::nullopt;
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = (value << 8U) | static_cast<unsigned char>(rest_[i]);
    rest_.remove_prefix(4);
    return value;
  }
  std::optional<std::string> Field() {
    const std::optional<std::uint32_t> size = Number();
    if (!size || *size > rest_.size()) return std::nullopt;
    std::string field(rest_.substr(0, *size));
    rest_.remove_prefix(*size);
    return field;
  }
  bool AtEnd() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// DER is a third shorter than PEM, and the line is meant to be pasted.
std::string DerOfCertificate(const std::string& pem) {
  const auto certificate = openssl::ParseCertificate(pem);
  LAUNCH_CHECK(certificate.has_value(), "a token is made of certificates of ours");
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate->get(), &der);
  LAUNCH_CHECK(size > 0, "a certificate has a binary form");
  std::string bytes(reinterpret_cast<char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  return bytes;
}
std::string DerOfKey(const std::string& pem) {
  const auto key = openssl::ParseKey(pem);
  LAUNCH_CHECK(key.has_value(), "a token is made of a key of ours");
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  LAUNCH_CHECK(
      i2d_PKCS8PrivateKey_bio(bio.get(), key->get(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
      "a key has a binary form");
  return openssl::TextOf(bio);
}
std::optional<std::string> PemOfCertificate(const std::string& der) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const auto* end = at + der.size();
  const openssl::Cert certificate(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
  ERR_clear_error();
  if (!certificate || at != end) return std::nullopt;
  return openssl::PemOf(*certificate);
}
std::optional<std::string> PemOfKey(const std::string& der) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const auto* end = at + der.size();
  const openssl::Key key(d2i_AutoPrivateKey(nullptr, &at, static_cast<long>(der.size())));
  ERR_clear_error();
  if (!key || at != end) return std::nullopt;
  return openssl::PemOf(*key);
}

Unexpected Damaged() {
  return Fail(ErrorCode::kInvalidArgument, "the join token is damaged or cut off",
              "copy the whole line that `launch token create` printed");
}

std::optional<JoinToken> ReadBody(std::string_view body) {
  TokenFields fields(body);
  JoinToken token;
  auto cluster = fields.Field();
  const auto addresses = fields.Number();
  if (!cluster || !addresses || *addresses > kMaxAddresses) return std::nullopt;
  token.cluster = std::move(*cluster);
  for (std::uint32_t i = 0; i < *addresses; ++i) {
    auto address = fields.Field();
    if (!address) return std::nullopt;
    token.addresses.push_back(std::move(*address));
  }
  const auto ca = fields.Field();
  const auto key = fields.Field();
  const auto certificate = fields.Field();
  if (!ca || !key || !certificate || !fields.AtEnd()) return std::nullopt;
  auto ca_pem = PemOfCertificate(*ca);
  auto key_pem = PemOfKey(*key);
  auto certificate_pem = PemOfCertificate(*certificate);
  if (!ca_pem || !key_pem || !certificate_pem) return std::nullopt;
  token.ca_pem = std::move(*ca_pem);
  token.key_pem = std::move(*key_pem);
  token.certificate_pem = std::move(*certificate_pem);
  return token;
}

}  // namespace

std::string FormatJoinToken(const JoinToken& token) {
  LAUNCH_CHECK(token.addresses.size() <= kMaxAddresses, "a token has few addresses");
  std::string body;
  Append(body, token.cluster);
  body += Number(static_cast<std::uint32_t>(token.addresses.size()));
  for (const std::string& address : token.addresses) Append(body, address);
  Append(body, DerOfCertificate(token.ca_pem));
  Append(body, DerOfKey(token.key_pem));
  Append(body, DerOfCertificate(token.certificate_pem));
  body += Number(Crc32c(body));  // a cut or mistyped line gets a clear answer
  return std::string(kPrefix) + ToBase64(body, kUrlAlphabet);
}

Result<JoinToken> ParseJoinToken(std::string_view line) {
  const std::string_view text = Trim(line);
  if (!text.starts_with(kPrefix)) {
    return Fail(ErrorCode::kInvalidArgument,
                "this is not a join token: it starts with " + std::string(kPrefix),
                "make one with `launch token create` on the controller's host");
  }
  if (text.size() > kMaxLine) return Damaged();
  const std::optional<std::string> bytes = FromBase64(text.substr(kPrefix.size()), kUrlAlphabet);
  if (!bytes || bytes->size() < kSumSize) return Damaged();
  const std::string_view body = std::string_view(*bytes).substr(0, bytes->size() - kSumSize);
  if (Number(Crc32c(body)) != bytes->substr(body.size())) return Damaged();
  std::optional<JoinToken> token = ReadBody(body);
  if (!token) return Damaged();

  const Certificate certificate{token->certificate_pem};
  LAUNCH_RETURN_IF_ERROR(CheckPair(KeyPair{token->key_pem}, certificate));
  LAUNCH_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(certificate.pem));
  if (facts.identity.role != "join" || facts.identity.cluster != token->cluster) {
    return Fail(ErrorCode::kInvalidArgument, "the join token's certificate is for something else");
  }
  LAUNCH_RETURN_IF_ERROR(CheckIssued(certificate, Certificate{token->ca_pem}, facts.not_before));
  return std::move(*token);
}

Error ExplainFailedJoin(Error error, const JoinToken& token, WallTime now) {
  if (error.code != ErrorCode::kUnavailable) return error;
  const auto facts = ReadCertificate(token.certificate_pem);
  if (!facts || now <= facts->not_after) return error;
  const auto ago = std::chrono::duration_cast<std::chrono::seconds>(now - facts->not_after);
  return Error{ErrorCode::kPermissionDenied,
               "the join token expired " + std::to_string(ago.count()) + " s ago",
               "create a new one with `launch token create`; is this host's clock right?",
               std::nullopt};
}

}  // namespace launch
