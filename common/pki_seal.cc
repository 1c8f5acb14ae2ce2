// Digests, random text, checksums and sealing.
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <vector>

#include "common/openssl_handles.h"
#include "common/pki.h"

namespace launch {

using openssl::FailSsl;

namespace {

constexpr char kSealVersion = 1;
constexpr std::size_t kKeySize = 32;
constexpr std::size_t kNonceSize = 12;
constexpr std::size_t kTagSize = 16;
constexpr std::size_t kHeaderSize = 1 + kNonceSize + kTagSize;
constexpr std::size_t kMaxPlain = 1 << 30;

std::string HexOf(const std::vector<unsigned char>& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (unsigned char byte : bytes) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

std::vector<unsigned char> RandomBytes(std::size_t count) {
  std::vector<unsigned char> bytes(count);
  LAUNCH_CHECK(RAND_bytes(bytes.data(), static_cast<int>(count)) == 1,
               "the system has no randomness");
  return bytes;
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

constexpr std::array<std::uint32_t, 256> MakeCrcTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1U) != 0 ? (value >> 1U) ^ 0x82F63B78U : value >> 1U;
    }
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = MakeCrcTable();

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  std::vector<unsigned char> digest(EVP_MAX_MD_SIZE);
  unsigned int size = 0;
  LAUNCH_CHECK(
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1,
      "SHA-256 is not available");
  digest.resize(size);
  return HexOf(digest);
}

std::string HmacSha256Hex(std::string_view key, std::string_view bytes) {
  std::vector<unsigned char> digest(EVP_MAX_MD_SIZE);
  unsigned int size = 0;
  LAUNCH_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), Bytes(bytes),
                    bytes.size(), digest.data(), &size) != nullptr,
               "HMAC is not available");
  digest.resize(size);
  return HexOf(digest);
}

std::string RandomHex(std::size_t bytes) { return HexOf(RandomBytes(bytes)); }

std::string NewSerial() {
  std::vector<unsigned char> bytes = RandomBytes(16);
  // Positive and of full length, so that the number and its text are one to one.
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7FU) | 0x40U);
  return HexOf(bytes);
}

std::uint32_t Crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (char byte : bytes) {
    crc = (crc >> 8U) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU];
  }
  return ~crc;
}

Result<std::string> Seal(std::string_view key, std::string_view plain) {
  if (key.size() != kKeySize)
    return Fail(ErrorCode::kInvalidArgument, "a sealing key has 32 bytes");
  if (plain.size() > kMaxPlain) return Fail(ErrorCode::kInvalidArgument, "too long to seal");
  const std::vector<unsigned char> nonce = RandomBytes(kNonceSize);
  std::string sealed(kHeaderSize + plain.size(), '\0');
  sealed[0] = kSealVersion;
  std::copy(nonce.begin(), nonce.end(), sealed.begin() + 1);
  unsigned char* tag = Bytes(sealed) + 1 + kNonceSize;
  unsigned char* data = Bytes(sealed) + kHeaderSize;

  const openssl::CipherContext context(EVP_CIPHER_CTX_new());
  int size = 0;
  const bool done =
      context != nullptr &&
      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, Bytes(key), nonce.data()) ==
          1 &&
      EVP_EncryptUpdate(context.get(), nullptr, &size, Bytes(sealed), 1) == 1 &&  // the version
      EVP_EncryptUpdate(context.get(), data, &size, Bytes(plain), static_cast<int>(plain.size())) ==
          1 &&
      EVP_EncryptFinal_ex(context.get(), data + size, &size) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagSize, tag) == 1;
  if (!done) return FailSsl(ErrorCode::kInternal, "seal");
  return sealed;
}

Result<std::string> Unseal(std::string_view key, std::string_view sealed) {
  if (key.size() != kKeySize)
    return Fail(ErrorCode::kInvalidArgument, "a sealing key has 32 bytes");
  if (sealed.size() < kHeaderSize || sealed.size() > kHeaderSize + kMaxPlain) {
    return Fail(ErrorCode::kDataLoss, "the sealed text is torn");
  }
  if (sealed[0] != kSealVersion) {
    return Fail(ErrorCode::kDataLoss, "the sealed text is of an unknown version");
  }
  std::string tag(sealed.substr(1 + kNonceSize, kTagSize));
  const std::string_view data = sealed.substr(kHeaderSize);
  std::string plain(data.size(), '\0');

  const openssl::CipherContext context(EVP_CIPHER_CTX_new());
  int size = 0;
  const bool done =
      context != nullptr &&
      EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, Bytes(key),
                         Bytes(sealed) + 1) == 1 &&
      EVP_DecryptUpdate(context.get(), nullptr, &size, Bytes(sealed), 1) == 1 &&
      EVP_DecryptUpdate(context.get(), Bytes(plain), &size, Bytes(data),
                        static_cast<int>(data.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagSize, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(context.get(), Bytes(plain) + size, &size) == 1;
  if (!done) {
    ERR_clear_error();
    return Fail(ErrorCode::kDataLoss, "the sealed text is damaged or sealed with another key");
  }
  return plain;
}

}  // namespace launch
