#include "common/pki.h"

#include <openssl/ec.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "common/ids.h"
#include "common/openssl_handles.h"

namespace launch {

using openssl::FailSsl;

namespace openssl {

Result<Key> ParseKey(std::string_view pem) {
  const Bio bio = ReadBio(pem);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (!key) return FailSsl(ErrorCode::kInvalidArgument, "the text is no private key");
  return key;
}

Result<Cert> ParseCertificate(std::string_view pem) {
  const Bio bio = ReadBio(pem);
  Cert certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!certificate) return FailSsl(ErrorCode::kInvalidArgument, "the text is no certificate");
  return certificate;
}

std::string PemOf(EVP_PKEY& key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr);
  return TextOf(bio);
}

std::string PemOf(X509& certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), &certificate);
  return TextOf(bio);
}

}  // namespace openssl

namespace {

constexpr std::string_view kScheme = "launch://";
constexpr Millis kBackdate{3'600'000};
constexpr Millis kCaLife{10LL * 365 * 24 * 3'600'000};
constexpr std::size_t kSerialDigits = 32;

bool IsSerial(std::string_view text) {
  const bool hex = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  // Without a leading zero byte the number reads back as the same text.
  return hex && text.size() == kSerialDigits && text.substr(0, 2) != "00";
}

bool IsValidIdentity(const Identity& identity) {
  if (!IsValidName(identity.cluster)) return false;
  if (identity.role == "controller") return identity.name.empty();
  if (identity.role == "node" || identity.role == "user") return IsValidName(identity.name);
  if (identity.role != "join") return false;
  const std::string_view name = identity.name;
  const bool of_role = name.starts_with("node:") || name.starts_with("user:");
  return of_role && IsValidName(name.substr(5));
}

bool SetTime(ASN1_TIME* target, WallTime at) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at.time_since_epoch()).count();
  return ASN1_TIME_set(target, static_cast<std::time_t>(seconds)) != nullptr;
}

Result<WallTime> ReadTime(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    return FailSsl(ErrorCode::kInvalidArgument, "the certificate has no readable time");
  }
  return WallMs(static_cast<std::int64_t>(timegm(&parts)) * 1000);
}

std::string DisplayTime(WallTime at) {
  const std::time_t seconds = static_cast<std::time_t>(ToMs(at) / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return std::string(text.data(), size);
}

bool SetSerial(X509& certificate, const std::string& hex) {
  BIGNUM* number = nullptr;
  if (BN_hex2bn(&number, hex.c_str()) == 0) return false;
  const openssl::BigNumber owned(number);
  const openssl::Integer integer(BN_to_ASN1_INTEGER(number, nullptr));
  return integer != nullptr && X509_set_serialNumber(&certificate, integer.get()) == 1;
}

bool SetName(X509& certificate, const std::string& common_name) {
  X509_NAME* name = X509_get_subject_name(&certificate);
  const std::string text = common_name.substr(0, 64);  // X.520: at most 64 characters
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

// `value` is always a text of ours: OpenSSL's extension language must never see a user's.
bool AddExtension(X509& certificate, X509& issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const openssl::Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return extension != nullptr && X509_add_ext(&certificate, extension.get(), -1) == 1;
}

bool AddName(GENERAL_NAMES& names, int type, const std::string& text) {
  ASN1_IA5STRING* value = ASN1_IA5STRING_new();
  GENERAL_NAME* name = GENERAL_NAME_new();
  if (value == nullptr || name == nullptr ||
      ASN1_STRING_set(value, text.data(), static_cast<int>(text.size())) != 1) {
    ASN1_IA5STRING_free(value);
    GENERAL_NAME_free(name);
    return false;
  }
  GENERAL_NAME_set0_value(name, type, value);
  if (sk_GENERAL_NAME_push(&names, name) == 0) {
    GENERAL_NAME_free(name);
    return false;
  }
  return true;
}

bool AddSubjectNames(X509& certificate, const SignRequest& request) {
  const openssl::Names names(GENERAL_NAMES_new());
  if (names == nullptr || !AddName(*names, GEN_URI, ToUri(request.identity))) return false;
  for (const std::string& dns : request.dns_names) {
    if (!AddName(*names, GEN_DNS, dns)) return false;
  }
  return X509_add1_ext_i2d(&certificate, NID_subject_alt_name, names.get(), 0,
                           X509V3_ADD_DEFAULT) == 1;
}

// P-256 only: one curve to reason about, and no weak key gets a certificate.
bool IsP256(EVP_PKEY& key) {
  std::array<char, 64> group{};
  std::size_t size = 0;
  return EVP_PKEY_is_a(&key, "EC") == 1 &&
         EVP_PKEY_get_group_name(&key, group.data(), group.size(), &size) == 1 &&
         std::string_view(group.data(), size) == "prime256v1";
}

// The one URI name of a certificate; none or several name nobody.
Result<Identity> ReadIdentity(X509& certificate) {
  const openssl::Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<std::string> uri;
  const int count = names == nullptr ? 0 : sk_GENERAL_NAME_num(names.get());
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    if (uri) return Fail(ErrorCode::kInvalidArgument, "the certificate names two identities");
    const ASN1_IA5STRING* value = name->d.uniformResourceIdentifier;
    uri.emplace(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                static_cast<std::size_t>(ASN1_STRING_length(value)));
  }
  if (!uri) return Fail(ErrorCode::kInvalidArgument, "the certificate names no identity");
  return ParseIdentityUri(*uri);
}

std::string HexOfSerial(const X509& certificate) {
  const openssl::BigNumber number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(&certificate), nullptr));
  if (number == nullptr) return {};
  std::vector<unsigned char> bytes(static_cast<std::size_t>(BN_num_bytes(number.get())));
  BN_bn2bin(number.get(), bytes.data());
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace

std::string ToUri(const Identity& identity) {
  std::string uri = std::string(kScheme) + identity.cluster + "/" + identity.role;
  if (!identity.name.empty()) uri += "/" + identity.name;
  return uri;
}

Result<Identity> ParseIdentityUri(std::string_view uri) {
  Identity identity;
  std::string_view rest = uri;
  if (rest.starts_with(kScheme)) {
    rest.remove_prefix(kScheme.size());
    const std::size_t slash = rest.find('/');
    identity.cluster = std::string(rest.substr(0, slash));
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
    const std::size_t second = rest.find('/');
    identity.role = std::string(rest.substr(0, second));
    if (second != std::string_view::npos) identity.name = std::string(rest.substr(second + 1));
  }
  // Equality with what we would have written leaves no second spelling of anybody.
  if (!IsValidIdentity(identity) || ToUri(identity) != uri) {
    return Fail(ErrorCode::kInvalidArgument, "the certificate's identity is none of this product");
  }
  return identity;
}

Result<KeyPair> MakeKey() {
  const openssl::Key key(EVP_EC_gen("P-256"));
  if (!key) return FailSsl(ErrorCode::kInternal, "make a key");
  return KeyPair{.private_pem = openssl::PemOf(*key)};
}

Result<Certificate> MakeCa(const KeyPair& key, const std::string& cluster, WallTime now) {
  if (!IsValidName(cluster)) {
    return Fail(ErrorCode::kInvalidArgument,
                "the cluster's name is not a name: \"" + cluster + "\"",
                "use 1 to 63 of a-z A-Z 0-9 . _ -");
  }
  LAUNCH_ASSIGN_OR_RETURN(const openssl::Key pkey, openssl::ParseKey(key.private_pem));
  const openssl::Cert ca(X509_new());
  const bool built = ca != nullptr && X509_set_version(ca.get(), X509_VERSION_3) == 1 &&
                     SetSerial(*ca, NewSerial()) && SetName(*ca, cluster) &&
                     X509_set_issuer_name(ca.get(), X509_get_subject_name(ca.get())) == 1 &&
                     SetTime(X509_getm_notBefore(ca.get()), now - kBackdate) &&
                     SetTime(X509_getm_notAfter(ca.get()), now + kCaLife) &&
                     X509_set_pubkey(ca.get(), pkey.get()) == 1 &&
                     AddExtension(*ca, *ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                     AddExtension(*ca, *ca, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                     AddExtension(*ca, *ca, NID_subject_key_identifier, "hash") &&
                     X509_sign(ca.get(), pkey.get(), EVP_sha256()) > 0;
  if (!built) return FailSsl(ErrorCode::kInternal, "make the CA certificate");
  return Certificate{.pem = openssl::PemOf(*ca)};
}

Result<std::string> MakeCsr(const KeyPair& key) {
  LAUNCH_ASSIGN_OR_RETURN(const openssl::Key pkey, openssl::ParseKey(key.private_pem));
  const openssl::Request request(X509_REQ_new());
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  const bool built = request != nullptr && bio != nullptr &&
                     X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1 &&
                     X509_REQ_set_pubkey(request.get(), pkey.get()) == 1 &&
                     X509_REQ_sign(request.get(), pkey.get(), EVP_sha256()) > 0 &&
                     PEM_write_bio_X509_REQ(bio.get(), request.get()) == 1;
  if (!built) return FailSsl(ErrorCode::kInternal, "make a signing request");
  return openssl::TextOf(bio);
}

namespace {

Result<openssl::Request> ReadCsr(std::string_view pem) {
  const openssl::Bio bio = openssl::ReadBio(pem);
  openssl::Request csr(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  if (!csr) return FailSsl(ErrorCode::kInvalidArgument, "the text is no signing request");
  EVP_PKEY* subject_key = X509_REQ_get0_pubkey(csr.get());
  if (subject_key == nullptr || !IsP256(*subject_key)) {
    ERR_clear_error();
    return Fail(ErrorCode::kInvalidArgument, "the signing request's key is not P-256");
  }
  if (X509_REQ_verify(csr.get(), subject_key) != 1) {
    return FailSsl(ErrorCode::kInvalidArgument, "the signing request is not signed by its key");
  }
  return csr;
}

}  // namespace

Result<void> CheckCsr(std::string_view csr_pem) {
  LAUNCH_RETURN_IF_ERROR(ReadCsr(csr_pem));
  return {};
}

Result<Certificate> SignCsr(std::string_view csr_pem, const KeyPair& ca_key, const Certificate& ca,
                            const SignRequest& request, WallTime now) {
  if (!IsValidIdentity(request.identity)) {
    return Fail(ErrorCode::kInvalidArgument, "no certificate for " + ToUri(request.identity));
  }
  if (!IsSerial(request.serial)) {
    return Fail(ErrorCode::kInvalidArgument, "a serial is 32 lower-case hex digits");
  }
  if (request.life <= Millis{0}) {
    return Fail(ErrorCode::kInvalidArgument, "a certificate lives longer than no time");
  }
  LAUNCH_RETURN_IF_ERROR(CheckPair(ca_key, ca));
  LAUNCH_ASSIGN_OR_RETURN(const openssl::Key issuer_key, openssl::ParseKey(ca_key.private_pem));
  LAUNCH_ASSIGN_OR_RETURN(const openssl::Cert issuer, openssl::ParseCertificate(ca.pem));

  LAUNCH_ASSIGN_OR_RETURN(const openssl::Request csr, ReadCsr(csr_pem));
  EVP_PKEY* subject_key = X509_REQ_get0_pubkey(csr.get());

  LAUNCH_ASSIGN_OR_RETURN(const WallTime ca_end, ReadTime(X509_get0_notAfter(issuer.get())));
  const bool serves = request.identity.role == "controller";
  const std::string& common_name =
      request.identity.name.empty() ? request.identity.role : request.identity.name;
  const openssl::Cert leaf(X509_new());
  const bool built =
      leaf != nullptr && X509_set_version(leaf.get(), X509_VERSION_3) == 1 &&
      SetSerial(*leaf, request.serial) && SetName(*leaf, common_name) &&
      X509_set_issuer_name(leaf.get(), X509_get_subject_name(issuer.get())) == 1 &&
      SetTime(X509_getm_notBefore(leaf.get()), now - kBackdate) &&
      SetTime(X509_getm_notAfter(leaf.get()), std::min(now + request.life, ca_end)) &&
      X509_set_pubkey(leaf.get(), subject_key) == 1 &&
      AddExtension(*leaf, *issuer, NID_basic_constraints, "critical,CA:FALSE") &&
      AddExtension(*leaf, *issuer, NID_key_usage, "critical,digitalSignature") &&
      AddExtension(*leaf, *issuer, NID_ext_key_usage,
                   serves ? "serverAuth,clientAuth" : "clientAuth") &&
      AddExtension(*leaf, *issuer, NID_subject_key_identifier, "hash") &&
      AddExtension(*leaf, *issuer, NID_authority_key_identifier, "keyid:always") &&
      AddSubjectNames(*leaf, request) && X509_sign(leaf.get(), issuer_key.get(), EVP_sha256()) > 0;
  if (!built) return FailSsl(ErrorCode::kInternal, "sign a certificate");
  return Certificate{.pem = openssl::PemOf(*leaf)};
}

Result<CertificateFacts> ReadCertificate(std::string_view pem) {
  LAUNCH_ASSIGN_OR_RETURN(const openssl::Cert certificate, openssl::ParseCertificate(pem));
  CertificateFacts facts;
  LAUNCH_ASSIGN_OR_RETURN(facts.identity, ReadIdentity(*certificate));
  facts.serial = HexOfSerial(*certificate);
  LAUNCH_ASSIGN_OR_RETURN(facts.not_before, ReadTime(X509_get0_notBefore(certificate.get())));
  LAUNCH_ASSIGN_OR_RETURN(facts.not_after, ReadTime(X509_get0_notAfter(certificate.get())));
  return facts;
}

Result<void> CheckPair(const KeyPair& key, const Certificate& certificate) {
  LAUNCH_ASSIGN_OR_RETURN(const openssl::Key pkey, openssl::ParseKey(key.private_pem));
  LAUNCH_ASSIGN_OR_RETURN(const openssl::Cert cert, openssl::ParseCertificate(certificate.pem));
  if (X509_check_private_key(cert.get(), pkey.get()) != 1) {
    ERR_clear_error();
    return Fail(ErrorCode::kInvalidArgument, "the key does not belong to the certificate");
  }
  return {};
}

WallTime SignedAt(const CertificateFacts& facts) { return facts.not_before + kBackdate; }

WallTime RenewalOf(const CertificateFacts& facts) {
  // The time by which the beginning is backdated is no life: a short one would be over at once.
  const WallTime begin = std::min(SignedAt(facts), facts.not_after);
  return begin + (facts.not_after - begin) * 2 / 3;
}

Result<void> CheckIssued(const Certificate& certificate, const Certificate& ca, WallTime now) {
  LAUNCH_ASSIGN_OR_RETURN(const openssl::Cert cert, openssl::ParseCertificate(certificate.pem));
  LAUNCH_ASSIGN_OR_RETURN(const openssl::Cert issuer, openssl::ParseCertificate(ca.pem));
  EVP_PKEY* issuer_key = X509_get0_pubkey(issuer.get());
  if (issuer_key == nullptr || X509_check_ca(issuer.get()) != 1 ||
      X509_verify(cert.get(), issuer_key) != 1) {
    ERR_clear_error();
    return Fail(ErrorCode::kPermissionDenied, "the certificate is not signed by this cluster's CA",
                "it comes from another cluster, or the CA was made anew; join again");
  }
  LAUNCH_ASSIGN_OR_RETURN(const WallTime begin, ReadTime(X509_get0_notBefore(cert.get())));
  LAUNCH_ASSIGN_OR_RETURN(const WallTime end, ReadTime(X509_get0_notAfter(cert.get())));
  if (now < begin) {
    return Fail(ErrorCode::kPermissionDenied,
                "the certificate is not valid before " + DisplayTime(begin) + ", and here it is " +
                    DisplayTime(now),
                "set the clock of this host");
  }
  if (now > end) {
    return Fail(
        ErrorCode::kPermissionDenied,
        "the certificate ended on " + DisplayTime(end) + ", and here it is " + DisplayTime(now),
        "join again with a new token, or set the clock of this host");
  }
  return {};
}

}  // namespace launch
