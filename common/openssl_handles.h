// Owners of OpenSSL's objects and the error text of its last failure; for common/pki*.cc only.
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/error.h"

namespace launch::openssl {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <class T, auto Free>
using Handle = std::unique_ptr<T, Deleter<Free>>;

using Bio = Handle<BIO, BIO_free_all>;
using BigNumber = Handle<BIGNUM, BN_free>;
using Integer = Handle<ASN1_INTEGER, ASN1_INTEGER_free>;
using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using Request = Handle<X509_REQ, X509_REQ_free>;
using Cert = Handle<X509, X509_free>;
using Extension = Handle<X509_EXTENSION, X509_EXTENSION_free>;
using Names = Handle<GENERAL_NAMES, GENERAL_NAMES_free>;
using CipherContext = Handle<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free>;

// "<what>: <OpenSSL's reason>", and the error queue of this thread is empty again.
inline Unexpected FailSsl(ErrorCode code, std::string_view what) {
  char reason[256] = "no reason given";
  if (const unsigned long error = ERR_peek_last_error(); error != 0) {
    ERR_error_string_n(error, reason, sizeof reason);
  }
  ERR_clear_error();
  return Fail(code, std::string(what) + ": " + reason);
}

inline Bio ReadBio(std::string_view bytes) {
  return Bio(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}
inline std::string TextOf(const Bio& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

Result<Key> ParseKey(std::string_view pem);
Result<Cert> ParseCertificate(std::string_view pem);
std::string PemOf(EVP_PKEY& key);
std::string PemOf(X509& certificate);

}  // namespace launch::openssl
