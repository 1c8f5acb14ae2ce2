// Keys, certificates, digests and sealing; the one owner of OpenSSL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/error.h"

namespace launch {

std::string Sha256Hex(std::string_view bytes);
// A digest for values that could be guessed: without the key nobody can try values against it.
std::string HmacSha256Hex(std::string_view key, std::string_view bytes);
std::string RandomHex(std::size_t bytes);  // of the system's generator
std::uint32_t Crc32c(std::string_view bytes);

// PEM texts. Keys are P-256.
struct KeyPair {
  std::string private_pem;
};
struct Certificate {
  std::string pem;
};

// Roles are the first part of the URI SAN: launch://CLUSTER/node/gpu01.
struct Identity {
  std::string cluster;
  std::string role;  // controller | node | user | join
  std::string name;  // empty for the controller; of join: "node:gpu01" or "user:ana"
  friend bool operator==(const Identity&, const Identity&) = default;
};
std::string ToUri(const Identity& identity);
Result<Identity> ParseIdentityUri(std::string_view uri);  // whole text, exact

struct CertificateFacts {
  Identity identity;
  std::string serial;  // lower-case hex
  WallTime not_before{};
  WallTime not_after{};
};

Result<KeyPair> MakeKey();
// Self-signed CA for `cluster`, 10 years.
Result<Certificate> MakeCa(const KeyPair& key, const std::string& cluster, WallTime now);
Result<std::string> MakeCsr(const KeyPair& key);  // PEM; carries no identity, only the key
struct SignRequest {
  Identity identity;
  Millis life{0};
  std::vector<std::string> dns_names;  // the controller's certificate: "launch-controller"
  std::string serial;                  // 16 random bytes, hex
};
// Whether SignCsr would take the request as it is: readable, of a P-256 key, signed by it.
Result<void> CheckCsr(std::string_view csr_pem);
Result<Certificate> SignCsr(std::string_view csr_pem, const KeyPair& ca_key, const Certificate& ca,
                            const SignRequest& request, WallTime now);
Result<CertificateFacts> ReadCertificate(std::string_view pem);
// When the certificate was made, in whole seconds: `not_before` is an hour earlier, for clocks that
// differ.
WallTime SignedAt(const CertificateFacts& facts);
// When two thirds of its life are over: time to renew it.
WallTime RenewalOf(const CertificateFacts& facts);
Result<void> CheckPair(const KeyPair& key, const Certificate& certificate);
// Checks that the certificate was signed by `ca` and is within its time. An error of time says so
// and names clocks, where TLS only says "failed".
Result<void> CheckIssued(const Certificate& certificate, const Certificate& ca, WallTime now);
std::string NewSerial();  // 32 hex digits

// The one line `launch token create` prints: prefix "launch-join-1.", base64url of addresses, CA,
// key and certificate. Secret; read from stdin or a file, never argv.
struct JoinToken {
  std::string cluster;
  std::vector<std::string> addresses;  // "host:port"
  std::string ca_pem;
  std::string key_pem;
  std::string certificate_pem;
};
std::string FormatJoinToken(const JoinToken& token);
// Checks that the parts belong together: the pair, the cluster, the role, the CA's signature. The
// certificate's end is for the caller, who has a clock.
Result<JoinToken> ParseJoinToken(std::string_view line);
// The error to show for a join that found no controller: TLS hides that the token expired, which is
// the likelier reason if it did and is then said instead. `now` is only this host's clock, which
// refuses nothing by itself.
Error ExplainFailedJoin(Error error, const JoinToken& token, WallTime now);

// AES-256-GCM. `key` is 32 bytes. Sealed text is binary: version, nonce, tag, data. Another key or
// any damage is kDataLoss.
Result<std::string> Seal(std::string_view key, std::string_view plain);
Result<std::string> Unseal(std::string_view key, std::string_view sealed);

}  // namespace launch
